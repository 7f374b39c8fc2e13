"""Reads a relocatable object file, as LLVM writes it: ELF, 64 bits, little-endian.

Names and numbers are those of the System V ABI (ELF-64 Object File Format). Offsets and sizes are
in bytes.
"""

import struct
from enum import IntEnum

from msgspec import Struct

ELF = b"\x7fELF\x02\x01\x01"
RELOCATABLE = 1
X86_64 = 62
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")


class SectionType(IntEnum):
    """sh_type."""

    PROGBITS = 1
    SYMTAB = 2
    RELA = 4
    NOBITS = 8
    REL = 9
    UNWIND = 0x70000001


class SectionFlag(IntEnum):
    """sh_flags."""

    WRITE = 1
    ALLOC = 2
    EXEC = 4
    TLS = 0x400


class SpecialSection(IntEnum):
    """st_shndx of a symbol that is in no section."""

    UNDEFINED = 0
    ABSOLUTE = 0xFFF1
    COMMON = 0xFFF2


class SymbolType(IntEnum):
    """The lower half of st_info."""

    NONE = 0
    OBJECT = 1
    FUNCTION = 2
    SECTION = 3
    FILE = 4


class Section(Struct, frozen=True):
    """A section. content: empty for one that is zeros."""

    name: str
    kind: int
    flags: int
    size: int
    alignment: int
    content: bytes


class Symbol(Struct, frozen=True):
    """section: its number, or a `SpecialSection`. value: the offset there; of a common one its
    alignment."""

    name: str
    kind: int
    local: bool
    section: int
    value: int
    size: int


class Relocation(Struct, frozen=True):
    """The value to write at an offset of a section. symbol: its number."""

    section: int
    offset: int
    kind: int
    symbol: int
    addend: int


class ObjectFile:
    """The parts of an object file. Raises ValueError if it is none, or is damaged."""

    def __init__(self, code: bytes) -> None:
        self._code = code
        try:
            self._read()
        except (struct.error, IndexError, OverflowError, UnicodeDecodeError) as error:
            raise ValueError(f"a damaged object file: {error}") from None

    def _read(self) -> None:
        fields = _HEADER.unpack_from(self._code)
        self.machine = fields[2]
        if not fields[0].startswith(ELF) or fields[1] != RELOCATABLE:
            raise ValueError("not an object file")
        start, number, names = fields[6], fields[12], fields[13]
        raw = [_SECTION.unpack_from(self._code, start + _SECTION.size * n) for n in range(number)]
        self.sections = [self._section(one, raw[names][4]) for one in raw]
        self.symbols: list[Symbol] = []
        self.relocations: list[Relocation] = []
        for one, section in zip(raw, self.sections, strict=True):
            if section.kind == SectionType.SYMTAB:
                self.symbols = [
                    self._symbol(entry, raw[one[6]][4]) for entry in _SYMBOL.iter_unpack(section.content)
                ]
        for one, section in zip(raw, self.sections, strict=True):
            if section.kind == SectionType.REL:
                raise ValueError("relocations without addends")
            if section.kind == SectionType.RELA:
                self.relocations += self._relocations(one[7], section.content)

    def _section(self, fields: tuple[int, ...], names: int) -> Section:
        name, kind, flags, _, offset, size, _, _, alignment, _ = fields
        content = b"" if kind == SectionType.NOBITS else self._code[offset : offset + size]
        if kind != SectionType.NOBITS and len(content) != size:
            raise ValueError("a section is longer than the object file")
        if alignment & (alignment - 1):
            raise ValueError(f"an alignment of {alignment}")
        return Section(self._name(names + name), kind, flags, size, max(1, alignment), content)

    def _symbol(self, fields: tuple[int, ...], names: int) -> Symbol:
        name, info, _, section, value, size = fields
        if section >= len(self.sections) and section not in (SpecialSection.ABSOLUTE, SpecialSection.COMMON):
            raise ValueError("a symbol in a section that does not exist")
        return Symbol(self._name(names + name), info & 15, info >> 4 == 0, section, value, size)

    def _relocations(self, section: int, content: bytes) -> list[Relocation]:
        found = []
        size = self.sections[section].size
        for offset, info, addend in _RELOCATION.iter_unpack(content):
            if info >> 32 >= len(self.symbols) or offset >= size:
                raise ValueError("a relocation of something that does not exist")
            found.append(Relocation(section, offset, info & 0xFFFFFFFF, info >> 32, addend))
        return found

    def _name(self, start: int) -> str:
        end = self._code.find(b"\0", start)
        if end < 0:
            raise ValueError("a name without an end")
        return self._code[start:end].decode()
