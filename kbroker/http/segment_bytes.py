"""Sizes of the segments after a place of a log, and how much of them is not in the page cache."""

import os
from collections.abc import Sequence
from mmap import PAGESIZE
from typing import NamedTuple

from kbroker.log import files
from kbroker.log.cachestat import page_counts


class Ahead(NamedTuple):
    """Bytes from a place to the end of the log. cold: those that are not in the page cache."""

    size: int
    cold: int


class SegmentBytes:
    """Runs in: http, in its sampling thread. Owner: one refresh: a segment is sampled once, also
    if several groups will read it."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], Ahead] = {}

    def ahead(self, folder: str, bases: Sequence[int], first: int, position: int) -> Ahead:
        """Bytes from a position of the segment `first` to the log's end. bases: base offsets of the
        log's segments, ascending. Raises OSError."""
        later = [self._whole(folder, base) for base in bases if base > first]
        found = sampled(folder, first, position)
        return Ahead(
            found.size + sum(each.size for each in later), found.cold + sum(each.cold for each in later)
        )

    def between(self, folder: str, bases: Sequence[int], begin: tuple[int, int], end: tuple[int, int]) -> int:
        """Bytes between two places (segment, position); negative if the second one is before the
        first. Deleted segments count nothing. Raises OSError."""
        (first, position), (last, until) = begin, end
        if last < first:
            return -self.between(folder, bases, end, begin)
        return (
            until - position + sum(self._whole(folder, base).size for base in bases if first <= base < last)
        )

    def _whole(self, folder: str, base: int) -> Ahead:
        found = self._known.get((folder, base))
        if found is None:
            found = self._known[folder, base] = sampled(folder, base, 0)
        return found


def sampled(folder: str, base: int, position: int) -> Ahead:
    """The bytes of one segment from a position on. Raises OSError."""
    fd = os.open(files.path(folder, base, files.LOG), os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(fd).st_size
        return Ahead(max(0, size - position), cold_bytes(fd, position, size))
    finally:
        os.close(fd)


def cold_bytes(fd: int, position: int, end: int) -> int:
    """Bytes of a range that are not in the page cache, by whole pages; 0 if the kernel cannot
    report it."""
    if end <= position:
        return 0
    try:
        cached = page_counts(fd, position, end - position)[0]
    except OSError:
        return 0
    pages = -(-end // PAGESIZE) - position // PAGESIZE
    return min(end - position, max(0, pages - cached) * PAGESIZE)
