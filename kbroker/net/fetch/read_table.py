"""Segments of the partitions that are read, as the kernels see them: base offsets and open files.

Runs in: network. Owner: the process. Python fills a slot's rows when the kernel could not serve a
fetch, and again when the slot's list of segments has changed.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from kbroker.log import files
from kbroker.log.open_files import OpenFile
from kbroker.log.reader import LogReader
from kbroker.net.fetch.senders import Senders
from kbroker.net.network_tables import NetworkTables
from kbroker.net.rows import Context, Read, Segment

Words = NDArray[np.int64]
SEGMENTS = 32768
MAX_OPEN = 1024
FILES_OF_A_SEGMENT = 2
MAX_LEAVING = 256
"""Files that wait to be closed; when there are so many, they do not wait for the next second."""


class OpenSegment(NamedTuple):
    """The open files of a segment that are read."""

    log: OpenFile
    by_offset: OpenFile | None


class ReadTable:
    """reads: a row of Read for each slot. segments: rows of Segment; an open segment keeps its
    files open."""

    def __init__(self, tables: NetworkTables, senders: Senders) -> None:
        slots = tables.shared.sizes.max_partitions
        self.reads: Words = Read.table(slots)
        self.segments: Words = Segment.table(SEGMENTS)
        self.max_open = MAX_OPEN
        self._used = 0
        self._open: OrderedDict[int, OpenSegment] = OrderedDict()
        self._leaving: list[OpenFile] = []  # closed here, but the kernel may still send from them
        self._by_fd: WeakValueDictionary[int, OpenFile] = WeakValueDictionary()
        self._senders = senders
        tables.words[Context.READS] = self.reads.ctypes.data
        tables.words[Context.SEGMENTS] = self.segments.ctypes.data

    def source(self, fd: int) -> OpenFile:
        """The log file of a descriptor that the kernel has used in this turn. Since then Python may
        have closed its segment, or given its row to a segment of another partition."""
        return self._by_fd[fd]

    def note(self, slot: int, generation: int, version: int, reader: LogReader, base: int) -> None:
        """Python has read in the segment with this base offset: enter the segment, so that the
        kernel can do the next read."""
        read = self.reads[slot]
        if not self._is_listed(read, generation, version) and not self._list(
            read, generation, version, reader.base_offsets(version)
        ):
            return
        at = self._row(read, base)
        if at >= 0 and self.segments[at, Segment.LOG_FD] < 0:
            self._open_segment(at, reader, base)

    def forget(self, slot: int) -> None:
        """The slot has a new partition, or none."""
        read = self.reads[slot]
        self._close_range(int(read[Read.FIRST]), int(read[Read.COUNT]))
        read[Read.COUNT] = 0

    @staticmethod
    def _is_listed(read: Words, generation: int, version: int) -> bool:
        return bool(
            read[Read.COUNT] and read[Read.GENERATION] == generation and read[Read.VERSION] == version
        )

    def _row(self, read: Words, base: int) -> int:
        """Number of the row of a segment in a slot's list, -1 when it is not there."""
        first, count = int(read[Read.FIRST]), int(read[Read.COUNT])
        bases = self.segments[first : first + count, Segment.BASE]
        at = int(np.searchsorted(bases, base))
        return first + at if at < count and bases[at] == base else -1

    def _list(self, read: Words, generation: int, version: int, bases: Sequence[int]) -> bool:
        if len(bases) > SEGMENTS // 4:
            return False
        self._close_range(int(read[Read.FIRST]), int(read[Read.COUNT]))
        if self._used + len(bases) > SEGMENTS:
            self._clear()
        rows = self.segments[self._used : self._used + len(bases)]
        rows[:, Segment.BASE] = bases
        rows[:, Segment.LOG_FD : Segment.INDEX_FD + 1] = -1
        read[Read.GENERATION] = generation
        read[Read.VERSION] = version
        read[Read.FIRST] = self._used
        read[Read.COUNT] = len(bases)
        self._used += len(bases)
        return True

    def _clear(self) -> None:
        """All rows are used, most of them by outdated lists: clear the table."""
        self.reads[:] = 0
        self.segments[:, Segment.LOG_FD] = -1
        for open_segment in self._open.values():
            self._leave(open_segment.log)
        self._open.clear()
        self._used = 0

    def _open_segment(self, at: int, reader: LogReader, base: int) -> None:
        try:
            log = reader.open_files.get(reader.folder, base, files.LOG)
        except FileNotFoundError:
            return
        index = reader.index(base, files.INDEX)
        self._open[at] = OpenSegment(log, index)
        self._by_fd[log.fd] = log
        self.segments[at, Segment.LOG_FD] = log.fd
        self.segments[at, Segment.INDEX_FD] = -1 if index is None else index.fd
        self.shrink(self.max_open)

    def _close_range(self, first: int, count: int) -> None:
        for at in range(first, first + count):
            if at in self._open:
                self._close(at)

    def _close(self, at: int) -> None:
        self._leave(self._open.pop(at).log)
        self.segments[at, Segment.LOG_FD : Segment.INDEX_FD + 1] = -1

    def shrink(self, count: int) -> None:
        """Close the segments that have been open for longest, until so many are left."""
        while len(self._open) > count:
            self._close(next(iter(self._open)))

    def _leave(self, log: OpenFile) -> None:
        self._leaving.append(log)
        if len(self._leaving) == MAX_LEAVING:
            asyncio.get_running_loop().call_soon(self.sweep)

    def sweep(self) -> None:
        """Close the files that no pending answer needs. Not within a turn: its later events may
        name them."""
        if self._leaving:
            busy = self._senders.files()
            self._leaving = [log for log in self._leaving if log.fd in busy]
