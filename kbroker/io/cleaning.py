"""The IO worker's part of compaction: finds dirty logs and their cleanable ranges, swaps cleaned
segments in, writes the checkpoint.

Rules: Kafka's LogCleanerManager. The cleaner chooses among the logs of all workers and does the
work.
"""

import logging
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from kbroker.io.files.segment import Segment
from kbroker.io.log_dirs.cleaner_offsets import CleanerOffsets
from kbroker.io.logs import Logs
from kbroker.io.partition.unified_log import UnifiedLog
from kbroker.ipc.cleaning_messages import (
    BeginCleaning,
    CleanableLog,
    CleanableLogs,
    CleaningJob,
    ClosedSegment,
    EndCleaning,
    SwapSegments,
)
from kbroker.ipc.clock import wall_clock_ms
from kbroker.protocol.errors import ErrorCode, KafkaError

_logger = logging.getLogger(__name__)


class CleanableRange(Struct, frozen=True):
    """Offsets [first_dirty, upper) of closed segments. clean_bytes: of segments that begin below
    first_dirty. overdue: a dirty record is older than max.compaction.lag.ms."""

    first_dirty: int
    upper: int
    clean_bytes: int
    cleanable_bytes: int
    overdue: bool

    @property
    def ratio(self) -> float:
        """Share of dirty bytes; 0 for an empty log."""
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0


def cleanable_range(log: UnifiedLog, now: int) -> CleanableRange:
    """Range of a log that can be cleaned now (LogCleanerManager.cleanableOffsets, LogToClean).
    Raises OSError.

    Nothing is cleaned from the first of these on: the active segment, the last stable offset, a
    record younger than min.compaction.lag.ms, a segment that has not been synced."""
    closed, active = log.segments.closed, log.active.base_offset
    first_dirty = _first_dirty(log)
    begin = _holding(closed, first_dirty, active)
    dirty = closed[begin:]
    upper = min(log.published.last_stable, active, log.segments.first_unsynced_base)
    lag = log.config.min_compaction_lag_ms
    if lag > 0:
        young = (segment for segment in dirty if log.segments.largest_timestamp_of(segment) > now - lag)
        upper = min(upper, next((segment.base_offset for segment in young), upper))
    upper = max(first_dirty, upper)
    # the whole segment that contains `upper` is not cleaned
    end = _holding(closed, upper, active)
    upper = closed[end].base_offset if end < len(closed) else active
    clean = sum(one.size for one in closed[: bisect_left(closed, min(first_dirty, upper), key=_base_of)])
    cleanable = sum(one.size for one in closed[begin:end])
    return CleanableRange(first_dirty, upper, clean, cleanable, _is_overdue(log, dirty, now))


def _first_dirty(log: UnifiedLog) -> int:
    first_dirty = max(log.first_dirty, log.log_start)
    return log.log_start if first_dirty > log.log_end else first_dirty


def _may_become_due(log: UnifiedLog) -> bool:
    """Whether a compacted log has dirty closed segments. It is due for cleaning now, or later:
    after a sync, at the end of a transaction, or by the age of its records."""
    closed = log.segments.closed
    return log.config.compact and bool(closed) and log.active.base_offset > _first_dirty(log)


def _holding(closed: list[Segment], offset: int, active: int) -> int:
    """The number of the segment that holds an offset, the oldest for a lower one. A log may have
    very many."""
    if offset >= active:
        return len(closed)
    return max(bisect_right(closed, offset, key=_base_of) - 1, 0)


def _base_of(one: Segment) -> int:
    return one.base_offset


def _is_overdue(log: UnifiedLog, dirty: list[Segment], now: int) -> bool:
    until = now - log.config.max_compaction_lag_ms
    return until > 0 and any(0 < log.segments.first_timestamp_of(segment) < until for segment in dirty)


LogState = tuple[UnifiedLog, int, int]
"""The open log, its truncations, and how often its transaction index was rebuilt."""


def _state_of(log: UnifiedLog) -> LogState:
    return log, log.segments.cuts, log.reindexed


class Cleaning:
    """Runs in: io. Owner: the IO worker. Answers the requests of the cleaner."""

    def __init__(
        self,
        logs: Logs,
        notify: Callable[[int], object],
        clock_ms: Callable[[], int] = wall_clock_ms,
        call_cleaner: Callable[[], object] = lambda: None,
    ) -> None:
        """notify: wakes the fetches that wait at a slot. call_cleaner: wakes the cleaner, which
        then searches for dirty logs; the first call starts it."""
        self._logs = logs
        self._notify = notify
        self._clock_ms = clock_ms
        self._call_cleaner = call_cleaner
        self._cleaner_runs = False  # it has requested the dirty logs of this worker
        # Slots that were checked before the sync of all closed segments.
        self._wait_for_sync: set[int] = set()
        self._offsets = CleanerOffsets(logs.log_dir)
        self._began: dict[int, LogState] = {}  # of each log when its cleaning began
        logs.configured_listeners.append(self._configured)

    @property
    def handlers(self) -> Mapping[type, Callable[[Any], object]]:
        """Handlers of messages from control and the cleaner."""
        return {
            CleanableLogs: self.cleanable,
            BeginCleaning: self.begin,
            SwapSegments: self.swap,
            EndCleaning: self.end,
        }

    def cleanable(self, _: CleanableLogs) -> tuple[CleanableLog, ...]:
        """Every compacted log that is not empty, with its dirty ratio."""
        self._cleaner_runs = True
        now = self._clock_ms()
        found = []
        for log in self._logs:
            if not log.config.compact or not log.segments.closed:
                continue
            try:
                span = cleanable_range(log, now)
            except OSError as error:  # the other logs can be cleaned nevertheless
                _logger.warning("%s is not cleaned: %s", log.folder, error)
                self._logs.failures.read_failed(log.slot, error)
                continue
            if log.segments.first_unsynced_base < log.active.base_offset:
                self._wait_for_sync.add(log.slot)
            if span.clean_bytes + span.cleanable_bytes > 0:
                due = span.ratio > log.config.min_cleanable_dirty_ratio or (
                    span.overdue and span.cleanable_bytes > 0
                )
                generation = log.published.generation
                found.append(CleanableLog(log.slot, generation, span.ratio, due))
        return tuple(found)

    def _configured(self, log: UnifiedLog) -> None:
        """A log was opened or has new settings. If it may be due for cleaning now, the cleaner is
        called without waiting for log.cleaner.backoff.ms."""
        if _may_become_due(log):
            self._call_cleaner()

    def synced(self, slot: int) -> None:
        """Closed segments of a log are on disk now, so the log may have become cleanable. A cleaner
        that runs is called only if it has checked the log too early."""
        if slot in self._wait_for_sync:
            self._wait_for_sync.remove(slot)
            self._call_cleaner()
        elif not self._cleaner_runs and (log := self._logs.get(slot)) is not None and _may_become_due(log):
            self._call_cleaner()

    def begin(self, body: BeginCleaning) -> CleaningJob | None:
        """The cleaning job of a log, for the cleaner."""
        log = self._log(body.slot, body.generation)
        span = cleanable_range(log, self._clock_ms())
        segments = tuple(
            ClosedSegment(segment.base_offset, segment.size, segment.modified_ms)
            for segment in log.segments.closed
            if segment.base_offset < span.upper
        )
        if not log.config.compact or not segments or span.upper <= span.first_dirty:
            return None
        self._began[body.slot] = _state_of(log)
        return CleaningJob(
            body.slot, body.generation, log.topic, log.partition, log.folder,
            span.first_dirty, span.upper, segments, log.producers.last_records(), log.config,
        )  # fmt: skip

    def swap(self, body: SwapSegments) -> bool:
        """Put a cleaned segment in place; returns whether that was possible."""
        log = self._log(body.slot, body.generation)
        if self._has_changed(log):
            return False
        try:
            return log.swap(body, self._clock_ms())
        except OSError as error:
            self._logs.failures.log_failed(body.slot, error)
            raise
        finally:
            self._notify(body.slot)

    def end(self, body: EndCleaning) -> None:
        """Record how far a log is clean, in the checkpoint, too: now, or if many logs are cleaned,
        by `write_checkpoints`."""
        log = self._log(body.slot, body.generation)
        changed = self._has_changed(log)
        self._began.pop(log.slot, None)
        if not changed:
            log.cleaned_up_to(body.first_dirty)
            self._offsets.cleaned(log)

    def write_checkpoints(self) -> None:
        """Begin to write the checkpoints of ended cleanings that were not written at once, unless
        that is in progress. A thread writes them: appends do not wait for the disk."""
        self._offsets.write()

    def close(self) -> None:
        """Write the checkpoints that are not on disk. No cleaning ends after this."""
        self._offsets.close()

    def _has_changed(self, log: UnifiedLog) -> bool:
        """Whether a log was truncated since its cleaning began: other records may be in place of
        those that were read (Kafka aborts the cleaning). Or its transaction index was rebuilt, also
        by another process: aborted records may have been read as committed ones."""
        return self._began.get(log.slot) != _state_of(log)

    def _log(self, slot: int, generation: int) -> UnifiedLog:
        log = self._logs.require(slot)
        if log.published.generation != generation:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return log
