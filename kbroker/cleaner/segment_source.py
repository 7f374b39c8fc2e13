"""Reads a segment's bytes batch by batch through one buffer, as fast as the throttle allows."""

import os
from collections.abc import Callable
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from kbroker.log.errors import CorruptLog


class SegmentSource:
    """Runs in: cleaner. Owner: one pass over one segment; use it as a context.

    buffer[:filled] holds file bytes from `position` on. used: called with the bytes of each read.
    """

    def __init__(
        self, path: str, size: int, position: int, buffer_bytes: int, used: Callable[[int], None]
    ) -> None:
        self.path = path
        self.size = size
        self.position = position
        self.filled = 0
        self.buffer: NDArray[np.uint8] = np.empty(buffer_bytes, np.uint8)
        self._used = used
        self.fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        os.posix_fadvise(self.fd, position, 0, os.POSIX_FADV_SEQUENTIAL)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self.fd)

    @property
    def inode(self) -> int:
        """The inode of the file."""
        return os.fstat(self.fd).st_ino

    @property
    def done(self) -> bool:
        """Whether every byte was taken."""
        return self.position >= self.size

    def fill(self) -> None:
        """Read the next bytes into the buffer. Raises OSError, CorruptLog for a file that is too
        short."""
        needed_bytes = min(len(self.buffer), self.size - self.position)
        began = self.filled
        while self.filled < needed_bytes:
            view = self.buffer.data[self.filled : needed_bytes]
            got = os.preadv(self.fd, [view], self.position + self.filled)
            if got == 0:
                raise CorruptLog(f"{self.path}: {self.position + self.filled} bytes, not {self.size}")
            self.filled += got
        self._used(self.filled - began)

    def take(self, count: int, next_size: int) -> None:
        """Drop ``count`` processed bytes; the next batch has next_size bytes (0: not known yet).

        Raises CorruptLog when the file ends within it."""
        left = self.size - self.position - count
        if count == 0 and left > 0 and (next_size > left or self.filled == left):
            raise CorruptLog(f"{self.path}: byte {self.position}: the file ends within a batch")
        kept = self.filled - count
        buffer = self.buffer
        if next_size > len(buffer):
            self.buffer = np.empty(next_size, np.uint8)
        self.buffer[:kept] = buffer[count : self.filled]
        self.position += count
        self.filled = kept

    def batch(self, at: int, size: int) -> memoryview:
        """A batch in the buffer; gone with the next `take`."""
        return self.buffer.data[at : at + size]

    def damaged(self, at: int) -> CorruptLog:
        """The error for a corrupt batch at a byte of the buffer."""
        return CorruptLog(f"{self.path}: byte {self.position + at}: a damaged batch")
