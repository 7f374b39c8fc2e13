"""Links object files of kernels into a shared image. Runs in: processes that make the image.

Everything that is the same in each process is in code and constants, which processes share. The
image lists the few words that a process fills in: addresses of C functions and of the interpreter,
and addresses of its own parts in tables of constants.
"""

import struct
from collections.abc import Iterable

from msgspec import Struct, field

from kbroker.kernels.linking.areas import Area, Function
from kbroker.kernels.linking.object_file import (
    X86_64,
    ObjectFile,
    Relocation,
    Section,
    SectionFlag,
    SectionType,
    SpecialSection,
    Symbol,
    SymbolType,
)  # fmt: skip
from kbroker.kernels.linking.object_image import CompiledKernel
from kbroker.kernels.linking.relocations import (
    JUMP_BYTES,
    MOVE_BYTES,
    OF_POINTER,
    CannotLink,
    Kind,
    far_jump,
    moved,
    relative,
)  # fmt: skip
from kbroker.kernels.linking.shared_image import Kernel, SharedImage

POINTER = 8
_IGNORED = frozenset({SectionType.UNWIND})
"""Kernels raise no C++ exceptions: their stacks are never unwound."""

_RUN_BY_A_LOADER = (".ctors", ".dtors", ".init", ".fini", ".preinit")


class _Growing(Struct):
    """An area whose size is not yet known."""

    content: bytearray = field(default_factory=bytearray)

    def reserve(self, size: int, alignment: int) -> int:
        self.content += bytes(-len(self.content) % alignment)
        start = len(self.content)
        self.content += bytes(size)
        return start


Location = tuple[Area, int]
"""An area, and the offset in it."""


def linked(kernels: Iterable[CompiledKernel]) -> SharedImage:
    """The image of kernels. Raises CannotLink, or ValueError for a damaged object file."""
    every = list(kernels)
    linker = Linker()
    for one in every:
        linker.add(one.code)
    return linker.link(every)


class Linker:
    """Places sections in areas, then applies the relocations. Raises CannotLink for everything that
    it does not know."""

    def __init__(self) -> None:
        self._areas = {area: _Growing() for area in Area}
        self._objects: list[tuple[ObjectFile, dict[int, Location]]] = []
        self._defined: dict[str, Location] = {}
        self._common: dict[str, Location] = {}
        self._pointers: dict[str | Location, int] = {}
        self._jumps: dict[str, int] = {}
        self._starts: dict[Area, int] = {}

    def add(self, code: bytes) -> None:
        """Take the sections of an object file. Raises ValueError for a damaged one."""
        file = ObjectFile(code)
        if file.machine != X86_64:
            raise CannotLink(f"code for machine {file.machine}")
        relocated = {one.section for one in file.relocations}
        locations: dict[int, Location] = {}
        for number, section in enumerate(file.sections):
            if not section.flags & SectionFlag.ALLOC or section.kind in _IGNORED or not section.size:
                continue
            area = _area_of(section, number in relocated)
            start = self._areas[area].reserve(section.size, section.alignment)
            self._areas[area].content[start : start + len(section.content)] = section.content
            locations[number] = area, start
        self._objects.append((file, locations))
        for symbol in file.symbols:
            if not symbol.local and symbol.section in locations:
                area, start = locations[symbol.section]
                self._defined.setdefault(symbol.name, (area, start + symbol.value))

    def link(self, kernels: Iterable[CompiledKernel]) -> SharedImage:
        """The image, of kernels whose object files were added."""
        self._reserve()
        self._place_areas()
        words: list[tuple[int, int]] = []
        for file, locations in self._objects:
            for one in file.relocations:
                if one.section in locations:
                    self._apply(file, locations, one, words)
        externals: list[tuple[int, str]] = []
        for target, offset in self._pointers.items():
            place = self._address((Area.FIXED, offset))
            if isinstance(target, str):
                externals.append((place, target))
            else:
                words.append((place, self._address(target)))
        for name, offset in self._jumps.items():
            at = self._address((Area.CODE, offset))
            pointer = self._address((Area.FIXED, self._pointers[name]))
            self._write((Area.CODE, offset), far_jump(at, pointer))
        return SharedImage(
            {area: bytes(one.content) for area, one in self._areas.items()},
            externals,
            words,
            [
                Kernel(one.module, one.name, self._of(one.wrapper), self._of(one.environment))
                for one in kernels
            ],
            list(self._functions()),
        )

    # --- first pass: how much room ------------------------------------------------------------------

    def _reserve(self) -> None:
        """Room for pointers, jumps and common symbols that are used."""
        for file, locations in self._objects:
            for one in file.relocations:
                if one.section not in locations:
                    continue
                symbol = file.symbols[one.symbol]
                target = self._target(locations, symbol)
                if one.kind in OF_POINTER or target is None:
                    key = symbol.name if target is None else target
                    if key not in self._pointers:
                        self._pointers[key] = self._areas[Area.FIXED].reserve(POINTER, POINTER)
                if target is None and one.kind == Kind.PLT_32 and symbol.name not in self._jumps:
                    self._jumps[symbol.name] = self._areas[Area.CODE].reserve(JUMP_BYTES, JUMP_BYTES)

    def _place_areas(self) -> None:
        self._starts = SharedImage.starts({area: len(one.content) for area, one in self._areas.items()})

    def _target(self, locations: dict[int, Location], symbol: Symbol) -> Location | None:
        """The address of a symbol; None if it is in no object file."""
        if symbol.kind > SymbolType.SECTION:
            raise CannotLink(f"{symbol.name}: a symbol of type {symbol.kind}")
        if symbol.section == SpecialSection.UNDEFINED:
            return self._defined.get(symbol.name) or self._common.get(symbol.name)
        if symbol.section == SpecialSection.COMMON:
            if symbol.name in self._defined:
                return self._defined[symbol.name]
            if symbol.name not in self._common:
                offset = self._areas[Area.VARIABLES].reserve(symbol.size, max(1, symbol.value))
                self._common[symbol.name] = Area.VARIABLES, offset
            return self._common[symbol.name]
        if symbol.section not in locations:
            raise CannotLink(f"{symbol.name}: a symbol in section {symbol.section}, which is not loaded")
        area, start = locations[symbol.section]
        return area, start + symbol.value

    # --- second pass: what to write -----------------------------------------------------------------

    def _apply(
        self, file: ObjectFile, locations: dict[int, Location], one: Relocation, words: list[tuple[int, int]]
    ) -> None:
        symbol = file.symbols[one.symbol]
        area, start = locations[one.section]
        location = area, start + one.offset
        at = self._address(location)
        target = self._target(locations, symbol)
        if one.kind == Kind.ABSOLUTE_64:
            self._apply_address(location, symbol.name, target, one.addend, words)
        elif one.kind in OF_POINTER:
            pointer = self._pointers[symbol.name if target is None else target]
            self._write(location, relative(self._address((Area.FIXED, pointer)) + one.addend - at))
        elif one.kind == Kind.PLT_32 and target is None:
            jump = self._address((Area.CODE, self._jumps[symbol.name]))
            self._write(location, relative(jump + one.addend - at))
        elif one.kind in (Kind.PC_32, Kind.PLT_32) and target is not None:
            self._write(location, relative(self._address(target) + one.addend - at))
        elif one.kind == Kind.PC_64 and target is not None:
            self._write(location, struct.pack("<q", self._address(target) + one.addend - at))
        elif one.kind != Kind.NONE:
            raise CannotLink(f"a relocation of type {one.kind} with {symbol.name or 'a section'}")

    def _apply_address(
        self,
        location: Location,
        name: str,
        target: Location | None,
        addend: int,
        words: list[tuple[int, int]],
    ) -> None:
        """An address of 64 bits: in an instruction, or in a table."""
        area, offset = location
        if target is None and addend:
            raise CannotLink(f"an address {addend} bytes after {name}")
        if area is Area.CODE:
            found = (Area.FIXED, self._pointers[name]) if target is None else target
            first = area, offset - 2
            instruction = self._read(first, MOVE_BYTES)
            destination = self._address(found) + addend
            self._write(first, moved(instruction, self._address(first), destination, load=target is None))
        elif target is None:
            raise CannotLink(f"the address of {name} in a table")
        else:
            words.append((self._address(location), self._address(target) + addend))

    def _address(self, location: Location) -> int:
        area, offset = location
        return self._starts[area] + offset

    def _read(self, location: Location, size: int) -> bytes:
        area, offset = location
        return bytes(self._areas[area].content[max(0, offset) : offset + size])

    def _write(self, location: Location, content: bytes) -> None:
        area, offset = location
        if offset + len(content) > len(self._areas[area].content):
            raise CannotLink("a relocation at the end of its section")
        self._areas[area].content[offset : offset + len(content)] = content

    def _of(self, name: str) -> int:
        found = self._defined.get(name) or self._common.get(name)
        if found is None:
            raise CannotLink(f"the code has no {name}")
        return self._address(found)

    def _functions(self) -> Iterable[Function]:
        for file, locations in self._objects:
            for symbol in file.symbols:
                if symbol.kind == SymbolType.FUNCTION and symbol.section in locations:
                    area, start = locations[symbol.section]
                    address = self._address((area, start + symbol.value))
                    yield Function(symbol.name, address, symbol.size)


def _area_of(section: Section, relocated: bool) -> Area:
    known = section.kind in (SectionType.PROGBITS, SectionType.NOBITS)
    if not known or section.flags & SectionFlag.TLS or section.name.startswith(_RUN_BY_A_LOADER):
        raise CannotLink(f"a section {section.name} of type {section.kind}")
    if section.flags & SectionFlag.EXEC:
        if section.flags & SectionFlag.WRITE:
            raise CannotLink(f"a section {section.name} that is code and may be written")
        return Area.CODE
    if section.flags & SectionFlag.WRITE:
        return Area.VARIABLES
    return Area.FIXED if relocated else Area.CONSTANTS
