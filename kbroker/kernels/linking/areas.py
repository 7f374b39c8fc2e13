"""The parts of an image of linked kernels."""

from enum import IntEnum
from typing import NamedTuple

PAGE = 4096
"""Bytes of a page on x86-64."""


class Area(IntEnum):
    """Parts of the image by what may be done with them, in their order in the file."""

    CODE = 0
    """Read and run."""
    CONSTANTS = 1
    """Read; the same in each process."""
    FIXED = 2
    """Addresses: filled in at the start, read afterwards."""
    VARIABLES = 3
    """Read and written."""


class Span(NamedTuple):
    """A part of the file, in bytes."""

    start: int
    size: int

    @property
    def pages(self) -> int:
        """The size in whole pages, in bytes."""
        return -(-self.size // PAGE) * PAGE


class Function(NamedTuple):
    """A function of the image, for perf and debuggers. name: as in the object file."""

    name: str
    address: int
    size: int
