"""Object files are read as LLVM writes them, and a damaged one is an error."""

import pytest

from kbroker.kernels.linking.object_file import X86_64, ObjectFile, SectionType, SpecialSection
from tests.kernels.linking.objects import NAMES, compiled

SMALL = """
@environment = common global i64 0
declare i64 @labs(i64)
define i64 @call(i64 %a) {
  store i64 %a, ptr @environment
  %v = call i64 @labs(i64 %a)
  ret i64 %v
}
"""
HEADER_BYTES = 64


def test_sections_symbols_and_relocations() -> None:
    file = ObjectFile(compiled())
    assert file.machine == X86_64
    by_name = {one.name: one for one in file.symbols}
    assert all(file.sections[by_name[name].section].content for name in NAMES)
    assert by_name["labs"].section == SpecialSection.UNDEFINED
    assert (by_name["environment"].section, by_name["environment"].size) == (SpecialSection.COMMON, 8)
    assert by_name["counter"].local
    zeros = file.sections[by_name["zeros"].section]
    assert (zeros.kind, zeros.content, zeros.size >= 72) == (SectionType.NOBITS, b"", True)
    assert {file.symbols[one.symbol].name for one in file.relocations} >= {"labs", "environment", "environ"}


def test_no_part_of_an_object_file_is_accepted_as_complete() -> None:
    whole = compiled(SMALL)
    for end in range(len(whole)):
        with pytest.raises(ValueError):
            ObjectFile(whole[:end])


def test_any_changed_byte_of_the_header_or_the_sections_ends_in_a_value_or_a_value_error() -> None:
    whole = compiled(SMALL)
    sections = int.from_bytes(whole[40:48], "little")
    refused = 0
    for position in (*range(HEADER_BYTES), *range(sections, len(whole))):
        for value in (0, 1, 0x7F, 0xFF):
            changed = bytearray(whole)
            changed[position] = value
            try:
                ObjectFile(bytes(changed))
            except ValueError:
                refused += 1
    assert refused > HEADER_BYTES


def test_a_library_is_no_object_file() -> None:
    whole = bytearray(compiled(SMALL))
    whole[16] = 3  # ET_DYN
    with pytest.raises(ValueError, match="not an object file"):
        ObjectFile(bytes(whole))
