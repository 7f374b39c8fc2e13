"""The parts that make an image of kernels a shared object for perf, gdb and objdump: ELF's header,
program headers, section headers and symbols. Nothing that runs the kernels reads them."""

import re
import struct
from collections.abc import Mapping, Sequence

from kbroker.kernels.linking.areas import PAGE, Area, Function, Span
from kbroker.kernels.linking.object_file import ELF, X86_64, SectionFlag, SectionType

_SHARED_OBJECT = 3
_LOAD, _STACK = 1, 0x6474E551
_READ, _WRITE, _RUN = 4, 2, 1
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_PROGRAM = struct.Struct("<IIQQQQQQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_STRINGS = 3
_GLOBAL_FUNCTION = 1 << 4 | 2
_NAMES = {Area.CODE: ".text", Area.CONSTANTS: ".rodata", Area.FIXED: ".data.rel.ro", Area.VARIABLES: ".data"}
_RIGHTS = {Area.CODE: _READ | _RUN, Area.CONSTANTS: _READ, Area.FIXED: _READ, Area.VARIABLES: _READ | _WRITE}
_FLAGS = {Area.CODE: SectionFlag.EXEC, Area.CONSTANTS: 0, Area.FIXED: 0, Area.VARIABLES: SectionFlag.WRITE}


class _Strings:
    """A string table."""

    def __init__(self) -> None:
        self.content = bytearray(1)

    def add(self, text: str) -> int:
        start = len(self.content)
        self.content += text.encode() + b"\0"
        return start


def write(file: bytearray, spans: Mapping[Area, Span], functions: Sequence[Function]) -> None:
    """Append the symbols and section headers to a file, and write the headers in its first page."""
    names, strings = _Strings(), _Strings()
    symbols = bytearray(_SYMBOL.size)
    for one in functions:
        symbols += _SYMBOL.pack(
            strings.add(readable(one.name)), _GLOBAL_FUNCTION, 0, 1 + Area.CODE, one.address, one.size
        )
    sections = [bytes(_SECTION.size)]
    for area, (start, size) in spans.items():
        flags = _FLAGS[area] | SectionFlag.ALLOC
        sections.append(
            _SECTION.pack(
                names.add(_NAMES[area]), SectionType.PROGBITS, flags, start, start, size, 0, 0, PAGE, 0
            )
        )
    linked = 2 + len(spans)  # the number of the section of strings
    for name, kind, content, link, entry in (
        (".symtab", SectionType.SYMTAB, symbols, linked, _SYMBOL.size),
        (".strtab", _STRINGS, strings.content, 0, 0),
        (".shstrtab", _STRINGS, names.content, 0, 0),
    ):
        file += bytes(-len(file) % 8)
        named = names.add(name)
        first_global = int(kind == SectionType.SYMTAB)
        sections.append(
            _SECTION.pack(named, kind, 0, 0, len(file), len(content), link, first_global, 8, entry)
        )
        file += content
    file += bytes(-len(file) % 8)
    _write_headers(file, spans, len(file), len(sections))
    file += b"".join(sections)


def _write_headers(file: bytearray, spans: Mapping[Area, Span], sections_at: int, sections: int) -> None:
    programs = [
        _PROGRAM.pack(_LOAD, _RIGHTS[area], start, start, start, size, size, PAGE)
        for area, (start, size) in spans.items()
        if size
    ]
    programs.append(_PROGRAM.pack(_STACK, _READ | _WRITE, 0, 0, 0, 0, 0, 16))
    _HEADER.pack_into(
        file, 0, ELF, _SHARED_OBJECT, X86_64, 1, 0, _HEADER.size, sections_at, 0, _HEADER.size,
        _PROGRAM.size, len(programs), _SECTION.size, sections, sections - 1,
    )  # fmt: skip
    content = b"".join(programs)
    file[_HEADER.size : _HEADER.size + len(content)] = content


def readable(name: str) -> str:
    """The dotted name in a name that numba has made, as `_ZN7kbroker3net4pumpB2v1E`; others
    stay."""
    parts = []
    rest = name.removeprefix("_ZN")
    while rest != name and (length := re.match(r"\d+", rest)) is not None:
        start = length.end()
        end = start + int(length[0])
        parts.append(rest[start:end])
        rest = rest[end:]
    return ".".join(parts) or name
