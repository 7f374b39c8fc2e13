"""Expiry of records: the log start advances beyond the records that are older than
kbroker.record.ttl.ms. A batch expires as a whole, when its newest record does, and not before the
batches ahead of it. The next retention run deletes the segments below the log start.
"""

import logging
from collections.abc import Mapping

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from kbroker.io.logs import Logs
from kbroker.io.partition.unified_log import UnifiedLog
from kbroker.ipc.layout import Counter, Slot
from kbroker.log.errors import CorruptLog
from kbroker.log.open_files import OpenFiles
from kbroker.log.reader import LogReader
from kbroker.log.timestamps import locate_batch

log = logging.getLogger(__name__)

SLICE = 32  # logs that are checked in one turn of the loop
SEGMENTS = 10_000  # of a log that are passed over at a time: some milliseconds
LISTED = 64  # of a log that are read at a time
DAMAGED_MS = 60_000  # until an unreadable log is checked again


class Check(Struct, frozen=True):
    """The result of a check with this setting: as long as the log start does not change, nothing
    expires before due_ms (wall clock)."""

    partition: UnifiedLog
    ttl_ms: int
    log_start: int
    due_ms: int


class Expiry:
    """Runs in: io. Owner: the IO worker's Housekeeping. counters: this process's rows of
    Counter."""

    def __init__(self, logs: Logs, counters: NDArray[np.int64]) -> None:
        self._logs = logs
        self._counters = counters
        self._left: list[int] = []
        self._checks: dict[int, Check] = {}

    @property
    def pending(self) -> bool:
        """Whether `turn` has something to do."""
        return bool(self._left)

    def begin(self) -> None:
        """Start a check of all logs whose records expire, a slice per turn."""
        self._left = list(self._logs.expiring)

    def turn(self, now_ms: int) -> None:
        """Expire records of the next slice of logs."""
        slots, self._left = self._left[:SLICE], self._left[SLICE:]
        starts: dict[int, int] = {}
        for slot in slots:
            partition = self._logs.get(slot)
            if partition is None:
                self._logs.expiring.discard(slot)
                self._checks.pop(slot, None)
            elif not partition.role.leads or partition.role.paused:
                self._checks.pop(slot, None)  # a follower takes its log start from the leader
            elif (start := self._start_of(partition, now_ms)) > partition.log_start:
                starts[slot] = start
        if starts:
            self._advance(starts)

    def _advance(self, starts: Mapping[int, int]) -> None:
        """Advance log starts and count the expired records, except those of a log whose log dir
        fails meanwhile."""
        before = [(each, each.log_start) for slot in starts if (each := self._logs.get(slot)) is not None]
        self._logs.advance_log_starts(starts)
        for partition, start in before:
            self._counters[partition.slot, Counter.EXPIRED] += partition.log_start - start

    def _start_of(self, partition: UnifiedLog, now_ms: int) -> int:
        """The new start offset of the log."""
        start, mark, ttl_ms = partition.log_start, partition.high_watermark, partition.config.ttl_ms
        if start >= mark:
            return start
        seen = self._checks.get(partition.slot)
        if (
            seen is not None
            and now_ms < seen.due_ms
            and (seen.partition, seen.ttl_ms, seen.log_start) == (partition, ttl_ms, start)
        ):
            return start
        start, due_ms = self._check(partition, now_ms)
        self._checks[partition.slot] = Check(partition, ttl_ms, start, due_ms)
        return start

    def _check(self, partition: UnifiedLog, now_ms: int) -> tuple[int, int]:
        """The new log start, and when it may advance again."""
        start, mark, ttl_ms = partition.log_start, partition.high_watermark, partition.config.ttl_ms
        words, version = partition.published.words, partition.published.segments_version
        start = partition.segments.older_until(now_ms - ttl_ms, start, mark, SEGMENTS)
        shapes = partition.segments.shapes_from(start, LISTED)
        end = min((int(words[Slot.HW_BASE]), int(words[Slot.HW_POSITION])), shapes[-1])
        reader = LogReader(partition.folder, OpenFiles(8))
        reader.assume([base for base, _ in shapes], version)
        try:
            found = locate_batch(reader, now_ms - ttl_ms, start, *end, version)
        except OSError as error:
            self._logs.failures.read_failed(partition.slot, error)
            return start, now_ms + DAMAGED_MS
        except CorruptLog as error:
            log.error("%s: records cannot expire: %s", partition.folder, error)
            return start, now_ms + DAMAGED_MS
        if found is None and end[0] < words[Slot.HW_BASE]:
            return max(start, end[0]), now_ms  # the other segments at the next check
        if found is None or found.offset >= mark:
            return mark, now_ms
        return max(start, found.offset), found.timestamp + ttl_ms + 1
