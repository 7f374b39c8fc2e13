"""The segments of the slots that are read, for the kernel: base offsets and open files.

Runs in: network. Owner: the process. Filled by Python when a fetch came that the kernel could not place; a slot whose
list of segments has changed comes again.
"""

from collections import OrderedDict

import numpy as np
from numpy.typing import NDArray

from kbroker.log import files
from kbroker.log.open_files import OpenFile
from kbroker.log.reader import LogReader
from kbroker.net import fetch_layout as fl
from kbroker.net import layout as nl
from kbroker.net.context import Context
from kbroker.net.senders import Senders

Words = NDArray[np.int64]
SEGMENTS = 32768
MOST_OPEN = 1024


class ReadTable:
    """reads[slot, READ_WORDS] and segments[SEGMENTS, SEGMENT_WORDS]; an open segment keeps its files open."""

    def __init__(self, context: Context, senders: Senders) -> None:
        slots = context.shared.sizes.max_partitions
        self.reads: Words = np.zeros((slots, fl.READ_WORDS), np.int64)
        self.segments: Words = np.zeros((SEGMENTS, fl.SEGMENT_WORDS), np.int64)
        self._used = 0
        self._open: OrderedDict[int, tuple[OpenFile, OpenFile | None]] = OrderedDict()
        self._leaving: list[OpenFile] = []  # closed here, but the kernel may still send from them
        self._senders = senders
        context.words[nl.CX_READS] = self.reads.ctypes.data
        context.words[nl.CX_SEGMENTS] = self.segments.ctypes.data

    def source(self, segment: int) -> OpenFile:
        """The log file of a segment row that the kernel has just used."""
        return self._open[segment][0]

    def note(self, slot: int, generation: int, version: int, reader: LogReader, base: int) -> None:
        """A read took place in the segment with this base offset: let the kernel do the next one."""
        read = self.reads[slot]
        known = read[fl.RD_COUNT] and read[fl.RD_GENERATION] == generation and read[fl.RD_VERSION] == version
        if not known and not self._list(read, generation, version, reader):
            return
        first, count = int(read[fl.RD_FIRST]), int(read[fl.RD_COUNT])
        bases = self.segments[first : first + count, fl.SG_BASE]
        at = first + int(np.searchsorted(bases, base))
        if (
            at < first + count
            and self.segments[at, fl.SG_BASE] == base
            and self.segments[at, fl.SG_LOG_FD] < 0
        ):
            self._open_segment(at, reader, base)

    def forget(self, slot: int) -> None:
        """The slot is another partition's, or no one's."""
        read = self.reads[slot]
        self._close_range(int(read[fl.RD_FIRST]), int(read[fl.RD_COUNT]))
        read[fl.RD_COUNT] = 0

    def _list(self, read: Words, generation: int, version: int, reader: LogReader) -> bool:
        bases = reader.base_offsets(version)
        if len(bases) > SEGMENTS // 4:
            return False
        self._close_range(int(read[fl.RD_FIRST]), int(read[fl.RD_COUNT]))
        if self._used + len(bases) > SEGMENTS:
            self._clear()
        rows = self.segments[self._used : self._used + len(bases)]
        rows[:, fl.SG_BASE] = bases
        rows[:, fl.SG_LOG_FD] = rows[:, fl.SG_INDEX_FD] = -1
        read[fl.RD_GENERATION] = generation
        read[fl.RD_VERSION] = version
        read[fl.RD_FIRST] = self._used
        read[fl.RD_COUNT] = len(bases)
        self._used += len(bases)
        return True

    def _clear(self) -> None:
        """All rows are used, most of them by lists that have changed since: begin anew."""
        self.reads[:] = 0
        self.segments[:, fl.SG_LOG_FD] = -1
        self._leaving += [log for log, _ in self._open.values()]
        self._open.clear()
        self._used = 0

    def _open_segment(self, at: int, reader: LogReader, base: int) -> None:
        try:
            log = reader.open_files.get(reader.folder, base, files.LOG)
        except FileNotFoundError:
            return
        index = reader.index(base, files.INDEX)
        self._open[at] = (log, index)
        self.segments[at, fl.SG_INDEX_FD] = -1 if index is None else index.fd
        self.segments[at, fl.SG_LOG_FD] = log.fd
        if len(self._open) > MOST_OPEN:
            self._close(next(iter(self._open)))

    def _close_range(self, first: int, count: int) -> None:
        for at in range(first, first + count):
            if at in self._open:
                self._close(at)

    def _close(self, at: int) -> None:
        self._leaving.append(self._open.pop(at)[0])
        self.segments[at, fl.SG_LOG_FD] = -1

    def sweep(self) -> None:
        """Let go of files that no answer under way is read from."""
        if self._leaving:
            busy = self._senders.files()
            self._leaving = [log for log in self._leaving if log.fd in busy]
