"""The file of linked kernels: what a process maps, and what it has to fill in.

The file is a shared object in ELF's terms, so that perf, gdb and objdump find the functions; its
addresses are offsets in the file. The first page holds ELF's header, then at PREFACE: MAGIC, the
SHA-256 of all other bytes of the file, offset and size of each area, and those of the list, all as
64-bit little-endian numbers. Each area starts at a page. The list is text, with one line for each
word to fill in and for each kernel; numbers are offsets in the file:

    external OFFSET NAME                         the address of a C function or an object
    word OFFSET VALUE                            the address of VALUE in memory
    kernel MODULE NAME WRAPPER ENVIRONMENT       the wrapper's code, and the variable for a numba Environment
"""

import hashlib
import struct
from collections.abc import Mapping
from typing import NamedTuple, Self

from msgspec import Struct, field

from kbroker.kernels.linking.areas import PAGE, Area, Function, Span

PREFACE = 512
MAGIC = b"kbroker linked kernels 1\n"
_DIGEST = hashlib.sha256
_DIGEST_AT = PREFACE + len(MAGIC)
_NUMBERS_AT = _DIGEST_AT + _DIGEST().digest_size


_NUMBERS = struct.Struct(f"<{2 * len(Area) + 2}Q")


class Kernel(NamedTuple):
    """wrapper, environment: offsets in the file."""

    module: str
    name: str
    wrapper: int
    environment: int


class SharedImage(Struct, frozen=True):
    """An image that was linked. externals: offset and name. words: offset and value. functions are
    in the file only for perf, and are not read from it."""

    areas: Mapping[Area, bytes]
    externals: list[tuple[int, str]]
    words: list[tuple[int, int]]
    kernels: list[Kernel]
    functions: list[Function] = field(default_factory=list)

    @staticmethod
    def starts(sizes: Mapping[Area, int]) -> dict[Area, int]:
        """The position of each area in the file."""
        found: dict[Area, int] = {}
        start = PAGE
        for area in Area:
            found[area] = start
            start += Span(start, sizes[area]).pages
        return found

    def packed(self) -> bytes:
        """The file."""
        from kbroker.kernels.linking import elf_header  # a broker writes no image

        starts = self.starts({area: len(self.areas[area]) for area in Area})
        file = bytearray(PAGE)
        numbers: list[int] = []
        for area in Area:
            numbers += starts[area], len(self.areas[area])
            file += self.areas[area]
            file += bytes(-len(file) % PAGE)
        spans = {area: Span(starts[area], len(self.areas[area])) for area in Area}
        listed = "\n".join(self._lines()).encode()
        numbers += len(file), len(listed)
        file += listed
        file += bytes(-len(file) % 8)
        elf_header.write(file, spans, sorted(self.functions, key=lambda one: one.address))
        file[PREFACE:_DIGEST_AT] = MAGIC
        _NUMBERS.pack_into(file, _NUMBERS_AT, *numbers)
        file[_DIGEST_AT:_NUMBERS_AT] = _digest(file)
        return bytes(file)

    def _lines(self) -> list[str]:
        return [
            *(f"external {offset} {name}" for offset, name in self.externals),
            *(f"word {offset} {value}" for offset, value in self.words),
            *(f"kernel {' '.join(map(str, one))}" for one in self.kernels),
        ]


class Contents(Struct, frozen=True):
    """The facts about an image's file that a process needs."""

    spans: dict[Area, Span]
    externals: list[tuple[int, str]]
    words: list[tuple[int, int]]
    kernels: list[Kernel]

    @classmethod
    def of(cls, file: bytes | memoryview) -> Self:
        """Raises ValueError for anything but a whole image, unchanged."""
        if not is_linked(file) or file[_DIGEST_AT:_NUMBERS_AT] != _digest(file):
            raise ValueError("not an image of linked kernels, or a damaged one")
        numbers = _NUMBERS.unpack_from(file, _NUMBERS_AT)
        *spans, listed = (Span(*numbers[n : n + 2]) for n in range(0, len(numbers), 2))
        externals, words, kernels = [], [], []
        text = bytes(file[listed.start : listed.start + listed.size]).decode()
        for kind, *fields in map(str.split, text.splitlines()):
            if kind == "external":
                externals.append((int(fields[0]), fields[1]))
            elif kind == "word":
                words.append((int(fields[0]), int(fields[1])))
            else:
                kernels.append(Kernel(fields[0], fields[1], int(fields[2]), int(fields[3])))
        return cls(dict(zip(Area, spans, strict=True)), externals, words, kernels)


def is_linked(file: bytes | memoryview) -> bool:
    """Whether a file says that it is such an image."""
    return len(file) >= PAGE and file[PREFACE:_DIGEST_AT] == MAGIC


def _digest(file: bytes | bytearray | memoryview) -> bytes:
    """Digest of a file's bytes, except for the digest in it."""
    with memoryview(file) as view:
        found = _DIGEST(view[:_DIGEST_AT])
        found.update(view[_NUMBERS_AT:])
    return found.digest()
