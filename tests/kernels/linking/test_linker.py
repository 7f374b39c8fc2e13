"""Object files are linked to code that gives what it gives through LLVM, or they are refused."""

import re
import struct
from pathlib import Path

import pytest

from kbroker.kernels import plain
from kbroker.kernels.linking.areas import Area
from kbroker.kernels.linking.linker import Linker, linked
from kbroker.kernels.linking.mapped_image import MappedImage
from kbroker.kernels.linking.object_file import ObjectFile, SectionFlag
from kbroker.kernels.linking.object_image import CompiledKernel
from kbroker.kernels.linking.relocations import CannotLink, Kind
from kbroker.kernels.linking.shared_image import SharedImage
from tests.kernels.kernels_of_numba import all_kernels
from tests.kernels.linking.objects import NAMES, address_in, by_llvm, compiled, image_of, results

pytestmark = pytest.mark.skipif(plain.ACTIVE, reason="nothing is compiled")

AARCH64 = "aarch64-unknown-linux-gnu"


def mapped(image: SharedImage, folder: Path) -> MappedImage:
    (folder / "image").write_bytes(image.packed())
    with (folder / "image").open("rb") as file:
        return MappedImage(file.fileno())


@pytest.mark.parametrize(("reloc", "model"), [("static", "jitdefault"), ("pic", "small")])
def test_linked_code_gives_what_it_gives_through_llvm(tmp_path: Path, reloc: str, model: str) -> None:
    code = compiled(reloc=reloc, model=model)
    image = image_of(code)
    here = mapped(image, tmp_path)
    assert results(address_in(here)) == by_llvm(code)
    kinds = {one.kind for one in ObjectFile(code).relocations}
    if reloc == "static":
        assert Kind.ABSOLUTE_64 in kinds
    else:
        assert kinds >= {Kind.PC_32, Kind.PLT_32, Kind.REX_GOT_PC_X}


@pytest.mark.parametrize(
    ("reloc", "model", "kind"),
    [("static", "small", "10|11"), ("pic", "large", "27|29")],  # 32-bit addresses; GOT64, GOTPC64
)
def test_an_unknown_relocation_is_refused(reloc: str, model: str, kind: str) -> None:
    with pytest.raises(CannotLink, match=f"a relocation of type ({kind}) with"):
        image_of(compiled(reloc=reloc, model=model))


def test_code_of_another_processor_is_refused() -> None:
    with pytest.raises(CannotLink, match="code for machine 183"):
        image_of(compiled(triple=AARCH64))


def test_a_name_that_the_code_lacks_is_an_error() -> None:
    with pytest.raises(CannotLink, match="the code has no nothing"):
        image_of(compiled(), environment="nothing")


OF_A_THREAD = """
@v = thread_local global i64 0
define i64 @f() {
  %x = load i64, ptr @v
  ret i64 %x
}
"""
RUN_BEFORE = """
@llvm.global_ctors = appending global [1 x {i32, ptr, ptr}] [{i32, ptr, ptr} {i32 1, ptr @f, ptr null}]
define void @f() {
  ret void
}
"""
IN_A_TABLE = """
@e = external global i8
@t = constant ptr @e
define ptr @f() {
  ret ptr @t
}
"""
CALLS_ANOTHER = """
declare i64 @second(i64)
define i64 @first(i64 %a) {
  %v = call i64 @second(i64 %a)
  ret i64 %v
}
"""


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (OF_A_THREAD, "a section .t"),
        (RUN_BEFORE, "a section .(init_array|ctors)"),
        (IN_A_TABLE, "the address of e in a table"),
    ],
)
def test_constructs_that_kernels_do_not_have_are_refused(source: str, text: str) -> None:
    with pytest.raises(CannotLink, match=text):
        linked([CompiledKernel("module", "f", compiled(source), "f", "f")])


def test_an_address_after_a_symbol_of_the_process_is_refused() -> None:
    code = compiled("@e = external global i8\ndefine ptr @f() {\n ret ptr @e\n}")
    (one,) = [one for one in ObjectFile(code).relocations if one.kind == Kind.ABSOLUTE_64]
    entry = struct.pack("<QQq", one.offset, one.symbol << 32 | one.kind, 0)
    assert code.count(entry) == 1
    changed = code.replace(entry, struct.pack("<QQq", one.offset, one.symbol << 32 | one.kind, 3))
    with pytest.raises(CannotLink, match="an address 3 bytes after e"):
        linked([CompiledKernel("module", "f", changed, "f", "f")])


def test_objects_name_each_other() -> None:
    one = compiled(CALLS_ANOTHER)
    other = compiled("define i64 @second(i64 %a) {\n ret i64 %a\n}")
    linker = Linker()
    linker.add(one)
    linker.add(other)
    assert linker.link([]).externals == []


def test_each_relocation_of_each_kernel_leads_to_what_its_object_file_names() -> None:
    """Read back from the linked code, by a reader of its own."""
    every = all_kernels()
    image = linked(every)
    starts = SharedImage.starts({area: len(content) for area, content in image.areas.items()})
    code = image.areas[Area.CODE]
    external = dict(image.externals)
    named: dict[int, set[str]] = {}
    for function in image.functions:
        named.setdefault(function.address, set()).add(function.name)
    position = 0
    seen = 0
    for kernel in every:
        file = ObjectFile(kernel.code)
        for number, section in enumerate(file.sections):
            if not section.flags & SectionFlag.EXEC or not section.size:
                continue
            position += -position % section.alignment
            rest = bytearray(section.content)
            now = bytearray(code[position : position + section.size])
            for one in file.relocations:
                if one.section != number or one.kind != Kind.ABSOLUTE_64:
                    continue
                first = one.offset - 2
                target = starts[Area.CODE] + position + first + 7
                target += int.from_bytes(now[first + 3 : first + 7], "little", signed=True)
                symbol = file.symbols[one.symbol]
                if now[first + 1] == 0x8B:
                    assert external[target] == symbol.name
                    assert symbol.section == 0
                elif symbol.section == number:
                    assert target == starts[Area.CODE] + position + symbol.value + one.addend
                    assert symbol.name == "" or symbol.name in named[target]
                else:
                    assert symbol.section != 0
                    assert (
                        starts[Area.CONSTANTS]
                        <= target
                        < starts[Area.VARIABLES] + len(image.areas[Area.VARIABLES])
                    )
                rest[first : first + 10] = now[first : first + 10] = bytes(10)
                seen += 1
            assert rest == now  # all other instructions are as they were
            position += section.size
    assert seen > 1000
    assert len(image.kernels) == len(every)


def test_constants_of_each_kernel_are_in_the_image() -> None:
    every = all_kernels()
    image = linked(every)
    tables = image.areas[Area.CONSTANTS] + image.areas[Area.FIXED]
    compared = 0
    for kernel in every:
        file = ObjectFile(kernel.code)
        relocated = {one.section for one in file.relocations}
        for number, section in enumerate(file.sections):
            if re.match(r"\.l?rodata", section.name) and number not in relocated:
                assert section.content in tables
                compared += 1
    assert compared > 10


def test_the_names_of_functions_are_for_people(tmp_path: Path) -> None:
    packed = image_of(compiled()).packed()
    assert all(name.encode() in packed for name in NAMES)
