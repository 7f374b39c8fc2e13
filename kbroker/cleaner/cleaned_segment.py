"""The files that a group of segments is cleaned into, with the suffix ``.cleaned``."""

import ctypes
import os
import struct
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kbroker.kernels import rebuild
from kbroker.kernels.scan_rows import IndexCarry
from kbroker.log import files
from kbroker.log.transaction_index import AbortedTransaction, seal

FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
TIME_ENTRY = struct.Struct(">qi")
WRITE_OUT_BYTES = 1 << 20
"""Bytes of the .log that are written to disk at a time. fsync of a whole segment takes
milliseconds, and a kernel without preemption gives the core to no other thread until the call
ends."""
SYNC_FILE_RANGE_WRITE = 2

SYNC_FILE_RANGE = ctypes.CDLL(None).sync_file_range
SYNC_FILE_RANGE.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)

Bytes = NDArray[np.uint8]
Rows = NDArray[np.int64]


class CleanedSegment:
    """Runs in: cleaner. Owner: the cleaning of one group. No other process uses the files before
    the swap."""

    def __init__(
        self, folder: str, base_offset: int, index_interval: int, index_limit: int, rows: int
    ) -> None:
        self.folder = folder
        self.base_offset = base_offset
        self.size = 0
        self._written_out = 0
        self._interval = index_interval
        self._limit = index_limit
        self._carry = np.array((0, -1, base_offset, -1, 0, 0), np.int64)
        self._added = np.zeros(2, np.int64)
        self._offsets = np.empty(8 * rows, np.uint8)
        self._times = np.empty(12 * rows, np.uint8)
        self._fds: list[int] = []
        try:
            for suffix in (files.LOG, files.INDEX, files.TIME_INDEX):
                self._fds.append(os.open(self._path(suffix), FLAGS, 0o644))
        except OSError:
            self.close()
            raise

    def append(self, data: Bytes, rows: Rows, count: int) -> None:
        """Write filtered batches and their index entries; rows: of the batches, with their
        positions in this file."""
        files.write_all(self._fds[0], data.data)
        self.size += len(data)
        if self.size - self._written_out >= WRITE_OUT_BYTES:
            _write_out(self._fds[0], self._written_out, self.size - self._written_out)
            self._written_out = self.size
        rebuild.index_entries(
            *(rows, count, self.base_offset, self._interval, self._limit),
            *(self._offsets, self._times, self._carry, self._added),
        )
        files.write_all(self._fds[1], self._offsets[: self._added[0]].data)
        files.write_all(self._fds[2], self._times[: self._added[1]].data)

    @property
    def max_timestamp(self) -> int:
        """Largest timestamp so far, -1 for none."""
        return int(self._carry[IndexCarry.MAX_TIMESTAMP])

    @property
    def inode(self) -> int:
        """The inode of the .log file, by which the IO worker identifies it."""
        return os.fstat(self._fds[0]).st_ino

    def finish(self, aborted: Iterable[AbortedTransaction], modified_ms: int) -> None:
        """Write the last time index entry and the transaction index, sync all files, set the old
        segments' age."""
        largest = self.max_timestamp
        if largest > self._carry[IndexCarry.LAST_INDEXED_TIMESTAMP]:
            relative = int(self._carry[IndexCarry.MAX_TIMESTAMP_OFFSET]) - self.base_offset
            files.write_all(self._fds[2], TIME_ENTRY.pack(largest, relative))
        entries = sorted(aborted, key=lambda entry: entry.last_offset)
        if entries:
            self._fds.append(os.open(self._path(files.TXN_INDEX), FLAGS, 0o644))
            files.write_all(self._fds[3], b"".join(entry.pack() for entry in entries))
            seal(self._path(files.TXN_INDEX))
        os.utime(self._fds[0], ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))
        for fd in self._fds:
            os.fsync(fd)

    def close(self) -> None:
        """Close the files."""
        while self._fds:
            os.close(self._fds.pop())

    def remove(self) -> None:
        """Close and remove the files that exist."""
        self.close()
        for suffix in files.SEGMENT_SUFFIXES:
            with suppress(FileNotFoundError):
                Path(self._path(suffix)).unlink()

    def _path(self, suffix: str) -> str:
        return files.path(self.folder, self.base_offset, suffix + files.CLEANED)


def remove_unfinished(folder: str) -> None:
    """Remove the ``.cleaned`` files of a killed cleaner. Otherwise recovery would take the next
    swap for an unfinished one. Raises OSError."""
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries if entry.name.endswith(files.CLEANED)]
    for name in names:
        with suppress(FileNotFoundError):
            Path(folder, name).unlink()


def _write_out(fd: int, position: int, count: int) -> None:
    """Begin to write a part of a file to disk. The later fsync reports a failure."""
    SYNC_FILE_RANGE(fd, position, count, SYNC_FILE_RANGE_WRITE)
