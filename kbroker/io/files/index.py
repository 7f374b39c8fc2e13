"""Writes .index and .timeindex files: reads their last entries, checks and truncates them, adds closing
entries.

For the entry formats and the rule of zero entries see kbroker/kernels/search.py. Both indexes only speed up
searches and can always be rebuilt from the .log.
"""

import os
import struct
from typing import NamedTuple

from kbroker.kernels.search import OFFSET_ENTRY, TIME_ENTRY

OFFSET = struct.Struct(">ii")
TIME = struct.Struct(">qi")
LOWEST_RELATIVE = -1


class IndexEnds(NamedTuple):
    """Valid bytes of both indexes of a segment, and their last entries (relative offset, position), (timestamp,
    relative offset); (-1, 0) and (-1, 0) where there is none."""

    index_bytes: int
    last_relative: int
    last_position: int
    time_index_bytes: int
    last_timestamp: int
    last_timestamp_relative: int


def read_ends(index_fd: int, time_index_fd: int, log_bytes: int) -> IndexEnds | None:
    """Where the entries of both indexes end; None when one of them cannot be trusted: it points beyond
    ``log_bytes``, its entries do not rise, or its length fits no entries."""
    if os.fstat(index_fd).st_size % OFFSET_ENTRY or os.fstat(time_index_fd).st_size % TIME_ENTRY:
        return None
    index_bytes = _used(index_fd, OFFSET_ENTRY)
    time_bytes = _used(time_index_fd, TIME_ENTRY)
    relative, position = LOWEST_RELATIVE, 0
    if index_bytes:
        first = OFFSET.unpack(os.pread(index_fd, OFFSET_ENTRY, 0))
        relative, position = OFFSET.unpack(os.pread(index_fd, OFFSET_ENTRY, index_bytes - OFFSET_ENTRY))
        if (
            relative < first[0]
            or first[0] < 0
            or position < first[1]
            or first[1] <= 0
            or position >= log_bytes
        ):
            return None
    timestamp, timestamp_relative = -1, 0
    if time_bytes:
        first = TIME.unpack(os.pread(time_index_fd, TIME_ENTRY, 0))
        timestamp, timestamp_relative = TIME.unpack(
            os.pread(time_index_fd, TIME_ENTRY, time_bytes - TIME_ENTRY)
        )
        if (
            timestamp < first[0]
            or first[0] < 0
            or timestamp_relative < first[1]
            or first[1] < 0
            or log_bytes == 0
        ):
            return None
    return IndexEnds(index_bytes, relative, position, time_bytes, timestamp, timestamp_relative)


def cut_behind(index_fd: int, time_index_fd: int, relative: int) -> None:
    """Remove entries whose relative offset is >= relative (AbstractIndex.truncateTo), and trailing zeros."""
    for fd, entry, key in ((index_fd, OFFSET, 0), (time_index_fd, TIME, 1)):
        low, high = 0, _used(fd, entry.size) // entry.size
        while low < high:
            middle = (low + high) // 2
            if entry.unpack(os.pread(fd, entry.size, middle * entry.size))[key] < relative:
                low = middle + 1
            else:
                high = middle
        set_length(fd, low * entry.size)


def set_length(fd: int, length: int) -> None:
    """Cut (or extend) a file where needed: a truncation costs a journal entry even when nothing changes, and on some
    file systems one to zero makes the next close wait for the disk."""
    if os.fstat(fd).st_size != length:
        os.ftruncate(fd, length)


def append_time(fd: int, at: int, timestamp: int, relative: int) -> int:
    """Write a .timeindex entry at a byte; returns the bytes after it."""
    os.pwrite(fd, TIME.pack(timestamp, relative), at)
    return at + TIME_ENTRY


def last_time(path: str) -> tuple[int, int] | None:
    """Last (timestamp, relative offset) of a .timeindex file, None when it is missing or empty."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        used = _used(fd, TIME_ENTRY)
        return TIME.unpack(os.pread(fd, TIME_ENTRY, used - TIME_ENTRY)) if used else None
    finally:
        os.close(fd)


def _used(fd: int, width: int) -> int:
    """Bytes up to the last whole entry that is not zero. A lone first entry of zeros counts as unused."""
    size = os.fstat(fd).st_size
    size -= size % width
    zero = bytes(width)
    if size == 0 or os.pread(fd, width, size - width) != zero:
        return size
    low, high = 0, size // width - 1  # entries [high, end) are zero
    while low < high:
        middle = (low + high) // 2
        if os.pread(fd, width, middle * width) == zero:
            high = middle
        else:
            low = middle + 1
    return low * width
