"""Looks up the largest timestamps of segments in a thread, so that the kernel can find offsets by time.

Runs in: network, reading on one thread. Owner: the process (Fetches). Control answers requests that come
meanwhile.
"""

import asyncio
import errno
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kbroker.ipc.layout import Slot
from kbroker.ipc.shared import Shared
from kbroker.log import files
from kbroker.log.errors import CorruptLog
from kbroker.log.open_files import OpenFiles
from kbroker.log.reader import LogReader
from kbroker.log.timestamps import largest_in
from kbroker.net.fetch.read_table import OpenSegment, ReadTable
from kbroker.net.local_answers.offset_for_time_kernel import ASKS_MAX_TIMESTAMP
from kbroker.net.rows import Segment
from kbroker.net.rows.slot_kernel import read_slot
from kbroker.net.topics import Topics

log = logging.getLogger(__name__)

MOST_READERS = 1024
MOST_FILES = 64  # that the thread keeps open itself
MOST_ASKED = 1024  # slots that wait for the thread
RETRY_S = 10.0  # after a look that failed
WHEN_FULL_S = 0.02  # between two looks when files of others must be closed for each


class Sought(NamedTuple):
    """A lookup: the slot as it was when the request came, and the timestamp requested."""

    slot: int
    generation: int
    folder: str
    version: int
    start: int
    end_base: int
    end_position: int
    timestamp: int


class Seen(NamedTuple):
    """times: a row of (base offset, largest timestamp, last offset of its batch, bytes walked) for each segment; base,
    files: the segment that the timestamp is in, or else the one that is written."""

    times: NDArray[np.int64]
    base: int
    files: OpenSegment


class SegmentTimes:
    """Asked by events of the kernel; what is found goes into the table of what is read."""

    def __init__(self, shared: Shared, topics: Topics, reads: ReadTable) -> None:
        self._slots = shared.slots
        self._topics = topics
        self._reads = reads
        self._words = np.zeros(Slot.WORDS, np.int64)
        self._thread = ThreadPoolExecutor(1, "segment-times")
        self._asked = 0
        self._not_before = 0.0
        self._files = OpenFiles(MOST_FILES)
        self._readers: dict[int, tuple[tuple[int, int], LogReader]] = {}  # of the thread

    def wanted(self, slot: int, timestamp: int) -> None:
        """Have the thread look at a slot's segments, if it is worth it."""
        found = self._topics.by_slot.get(slot)
        now = time.monotonic()
        busy = self._asked >= MOST_ASKED or (self._reads.full and now < self._not_before)
        if found is None or busy or not read_slot(self._slots[slot].ctypes.data, self._words):
            self._reads.ask_again(slot)
            return
        self._not_before = now + WHEN_FULL_S
        self._asked += 1
        words: list[int] = self._words.tolist()
        sought = Sought(
            slot,
            words[Slot.GENERATION],
            found[1].folder,
            words[Slot.SEGMENTS_VERSION],
            words[Slot.LOG_START],
            words[Slot.HW_BASE],
            words[Slot.HW_POSITION],
            timestamp,
        )
        loop = asyncio.get_running_loop()
        loop.run_in_executor(self._thread, self._look, sought).add_done_callback(partial(self._seen, sought))

    def close(self) -> None:
        """The process ends."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _seen(self, sought: Sought, looked: "asyncio.Future[Seen]") -> None:
        self._asked -= 1
        if looked.cancelled():
            return
        error = looked.exception()
        if error is None:
            words = self._slots[sought.slot]
            now = int(words[Slot.GENERATION]), int(words[Slot.SEGMENTS_VERSION])
            if now != (sought.generation, sought.version):
                self._reads.ask_again(sought.slot)
                return
            seen = looked.result()
            if self._reads.learn(sought.slot, *now, seen.times, seen.base, seen.files):
                return
        elif not isinstance(error, (OSError, CorruptLog)):  # control meets those, too, and says so
            log.error("%s could not be looked at", sought.folder, exc_info=error)
        asyncio.get_running_loop().call_later(RETRY_S, self._reads.ask_again, sought.slot)

    # --- on the thread ----------------------------------------------------------------------------------

    def _look(self, sought: Sought) -> Seen:
        """Raises OSError, CorruptLog."""
        try:
            return self._see(self._reader(sought), sought)
        finally:
            self._files.forget_folder(sought.folder)  # a deleted segment that is open keeps its disk blocks

    def _see(self, reader: LogReader, sought: Sought) -> Seen:
        bases = list(reader.base_offsets(sought.version))
        if not bases:
            raise FileNotFoundError(errno.ENOENT, "no segments", sought.folder)
        times = np.empty((len(bases), 4), np.int64)
        for number, base in enumerate(bases):
            times[number] = base, *self._largest(reader, base, sought)
        at = self._segment(times, sought)
        log_file, index, by_time = (
            self._files.get(sought.folder, at, suffix)
            for suffix in (files.LOG, files.INDEX, files.TIME_INDEX)
        )
        return Seen(times, at, OpenSegment(log_file, index, by_time))

    def _largest(self, reader: LogReader, base: int, sought: Sought) -> tuple[int, int, int]:
        """(timestamp, last offset of its batch, bytes walked) of one segment."""
        if base > sought.end_base:
            return -1, base, Segment.NOT_WALKED
        walked = sought.end_position if base == sought.end_base else Segment.CLOSED
        known = reader.max_timestamps.get(base)
        if known is None or walked != Segment.CLOSED:
            view = next(reader.views(base, sought.end_base, sought.end_position, sought.version), None)
            if view is None or view.base_offset != base:
                raise FileNotFoundError(errno.ENOENT, "gone", files.path(reader.folder, base, files.LOG))
            known = largest_in(reader, view)
        return *known, walked

    @staticmethod
    def _segment(times: NDArray[np.int64], sought: Sought) -> int:
        within = times[max(int(np.searchsorted(times[:, 0], sought.start, "right")) - 1, 0) :]
        if sought.timestamp == ASKS_MAX_TIMESTAMP:
            return int(within[np.argmax(within[:, 1]), 0])
        reached = np.flatnonzero(within[:, 1] >= sought.timestamp)
        return int(within[reached[0], 0]) if len(reached) else sought.end_base

    def _reader(self, sought: Sought) -> LogReader:
        """A reader for exactly this list of segments. With a different list it might mistake a file for an
        older one whose inode was reused."""
        key = sought.generation, sought.version
        found = self._readers.pop(sought.slot, None)
        if found is None or found[0] != key or found[1].folder != sought.folder:
            found = key, LogReader(sought.folder, self._files)
            if len(self._readers) >= MOST_READERS:
                del self._readers[next(iter(self._readers))]
        self._readers[sought.slot] = found
        return found[1]
