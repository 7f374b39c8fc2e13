"""Periodic work of an IO worker: retention, expiry, flush.ms, checkpoints, deletions, producer
expiry, healing.

Runs in: io. Times of the loop are monotonic ms and passed in; ages of records use the wall clock.
"""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from kbroker.config.broker import BrokerConfig
from kbroker.io.append.drain import Drain
from kbroker.io.append.rows import AppendRow
from kbroker.io.cleaning import Cleaning
from kbroker.io.durability import Durability
from kbroker.io.expiry import Expiry
from kbroker.io.logs import Logs
from kbroker.ipc.clock import monotonic_ms, wall_clock_ms
from kbroker.ipc.messages import Settings
from kbroker.metrics.slots import bind

log = logging.getLogger(__name__)

SLICE = 64  # logs that retention checks in one turn of the loop
SEGMENTS = 64  # after which it stops for this turn: each has five names
CHECK_INTERVAL_MS = 1000  # interval of flush.ms, deletions, healing and gauges
LATE_MS = 250  # after which a task shares a turn of the loop with others
ROLLED_MS = 50  # from a roll to the sync of the closed segment: logs often roll together
SEGMENTS_DELETED = bind("kbroker_segments_deleted_total")
DELETED_BYTES = bind("kbroker_retention_deleted_bytes_total")
RETENTION_SECONDS = bind("kbroker_retention_seconds")
PRODUCERS = bind("kbroker_producers")


class Task(Struct):
    """Work to do every ``interval_ms``; due_ms is on the loop's clock."""

    run: Callable[[], None]
    interval_ms: int
    due_ms: int


class Housekeeping:
    """Owner: the IO worker."""

    def __init__(
        self,
        config: BrokerConfig,
        logs: Logs,
        drain: Drain,
        durability: Durability,
        cleaning: Cleaning,
        now_ms: int,
    ) -> None:
        self._config = config
        self._metrics = drain.metrics
        self._logs = logs
        self._producers = drain.producers
        self._producers.expiration_ms = config.get_int("producer.id.expiration.ms")
        self._durability = durability
        self._cleaning = cleaning
        self._expiry = Expiry(logs, drain.counters)
        self._rows = drain.rows
        self._to_retain: list[int] = []
        self._retaining = False  # a retention run over all logs has not ended
        self._retaining_ns = 0
        self._flushing: list[int] = []  # slots of which flush.ms has just requested a sync
        start = now_ms + config.get_int("log.initial.task.delay.ms")
        checkpoint_ms = min(
            config.get_int("log.flush.offset.checkpoint.interval.ms"),
            config.get_int("log.flush.start.offset.checkpoint.interval.ms"),
        )
        expiry_ms = config.get_int("producer.id.expiration.check.interval.ms")
        self._flush_rolled = Task(self._sync_rolled, CHECK_INTERVAL_MS, now_ms + CHECK_INTERVAL_MS)
        self._tasks = [
            Task(self._retain, config.get_int("log.retention.check.interval.ms"), start),
            Task(logs.begin_checkpoint, checkpoint_ms, now_ms + checkpoint_ms),
            Task(self._expire_producers, expiry_ms, now_ms + expiry_ms),  # no initial delay, as in Kafka
            *(Task(check, CHECK_INTERVAL_MS, now_ms + CHECK_INTERVAL_MS) for check in self._checks()),
            self._flush_rolled,
        ]

    def _checks(self) -> tuple[Callable[[], None], ...]:
        return self._check_disks, self._free_reserved, self._write_checkpoints, self._measure, self._flush_due

    @property
    def next_due_ms(self) -> int:
        """The time at which the next task is due."""
        if self._to_retain or self._expiry.pending or self._logs.collecting_checkpoint:
            return 0
        return min(task.due_ms for task in self._tasks)

    def run(self, now_ms: int) -> None:
        """Run the task that has been due for the longest time, or slices of larger ones if no other
        task is due.

        Appends are drained between two calls: all tasks of a second together take milliseconds. A
        worker with so much to do that a task is late runs all such tasks, or some would wait for as
        long as that lasts."""
        collecting = self._logs.collecting_checkpoint  # the turn that begins one has collected a slice
        due = sorted((task for task in self._tasks if task.due_ms <= now_ms), key=lambda task: task.due_ms)
        late = sum(now_ms - task.due_ms > LATE_MS for task in due)
        now = due[: max(1, late)]
        for task in now:
            task.due_ms = now_ms + task.interval_ms
            task.run()
        if len(due) > len(now):
            return
        if self._to_retain:
            self._retain_slice()
        if self._expiry.pending:
            self._expiry.turn(wall_clock_ms())
        if collecting:
            self._logs.collect_checkpoint()

    def rolled(self, now_ms: int) -> None:
        """A log was rolled: sync its closed segments soon, for the recovery point and the
        cleaner."""
        self._flush_rolled.due_ms = min(self._flush_rolled.due_ms, now_ms + ROLLED_MS)

    @property
    def config(self) -> BrokerConfig:
        """The current settings."""
        return self._config

    @property
    def handlers(self) -> Mapping[type, Callable[[Any], object]]:
        """Handlers of messages from control."""
        return {Settings: lambda body: self.configure(body.values)}

    def configure(self, values: Mapping[str, str]) -> None:
        """New dynamic broker settings by Kafka name."""
        self._config = self._config.with_dynamic(cluster=values, own={})
        self._producers.expiration_ms = self._config.get_int("producer.id.expiration.ms")

    def _retain(self) -> None:
        """Begin a retention run over all logs. It continues in slices, so that appends do not wait
        for thousands of logs, and syncs nothing: a log that lost its oldest segments begins at the
        offset in the name of its first file. A run that takes longer than the interval ends first,
        or its last logs would never be checked."""
        if self._retaining:
            return
        self._logs.sweep_deleted(self._config.get_int("log.segment.delete.delay.ms"))
        self._to_retain = [partition.slot for partition in self._logs]
        self._retaining = bool(self._to_retain)
        self._retaining_ns = 0

    def retain_soon(self, slot: int) -> None:
        """Let a log delete segments now, because their space is needed."""
        if not self._to_retain:
            self._retaining_ns = 0
        self._to_retain.append(slot)

    def _retain_slice(self) -> None:
        now = wall_clock_ms()
        began = time.monotonic_ns()
        checked, gone, again = 0, 0, list[int]()
        for slot in self._to_retain[:SLICE]:
            checked += 1
            if (partition := self._logs.get(slot)) is None:
                continue
            try:
                size = partition.size
                if deleted := partition.retention(now, SEGMENTS):
                    self._metrics.words[SEGMENTS_DELETED] += deleted
                    self._metrics.words[DELETED_BYTES] += max(0, size - partition.size)
            except OSError as error:
                self._logs.failures.log_failed(partition.slot, error)
                continue
            gone += deleted
            if deleted >= SEGMENTS:
                again.append(slot)
            if gone >= SEGMENTS:
                break
        self._to_retain = self._to_retain[checked:] + again
        self._retaining_ns += time.monotonic_ns() - began
        if not self._to_retain:
            self._retaining = False
            self._metrics.observe(RETENTION_SECONDS, self._retaining_ns)

    def _expire_producers(self) -> None:
        slots = self._producers.expire(wall_clock_ms() - self._producers.expiration_ms)
        for slot in slots:
            if (partition := self._logs.get(slot)) is not None:
                partition.published.producers_changed()
        if slots:
            log.debug("idle producers of %d logs forgotten", len(slots))

    def _check_disks(self) -> None:
        self._logs.failures.check_dirs()
        self._logs.deletions.remove_due(wall_clock_ms())
        self._logs.failures.full_disks.heal()
        self._expiry.begin()

    def _free_reserved(self) -> None:
        self._logs.reservations.free_unused(wall_clock_ms())

    def _write_checkpoints(self) -> None:
        self._logs.recovery_notes.write()
        self._logs.take_checkpoint()
        self._cleaning.write_checkpoints()

    def _measure(self) -> None:
        self._durability.measure()
        self._metrics.words[PRODUCERS] = self._producers.count

    def _flush_due(self) -> None:
        self._flushing = self._due_for_flush(monotonic_ms())
        self._durability.flush_now(self._flushing)

    @property
    def _used_rows(self) -> NDArray[np.int64]:
        """Append rows of the slots that have had a log. Most of the table has never been
        touched."""
        return self._rows[: self._logs.slots_used]

    def _sync_rolled(self) -> None:
        rolled = np.flatnonzero(self._used_rows[:, AppendRow.ROLLED]).tolist()  # closed followers, too
        self._durability.flush_rolled(slot for slot in rolled if slot not in self._flushing)
        self._flushing = []

    def _due_for_flush(self, now: int) -> list[int]:
        """Slots with unsynced records whose flush.ms has passed. Computed on columns of the table,
        because there may be many."""
        rows = self._used_rows
        timed = (rows[:, AppendRow.SEGMENT_BYTES] > 0) & (rows[:, AppendRow.FLUSH_MS] < AppendRow.NEVER)
        due = []
        for slot in np.flatnonzero(
            timed & (now - rows[:, AppendRow.LAST_FLUSH_MS] >= rows[:, AppendRow.FLUSH_MS])
        ).tolist():
            partition = self._logs.get(slot)
            if partition is not None and not partition.durability.is_synced:
                rows[slot, AppendRow.LAST_FLUSH_MS] = now
                due.append(slot)
        return due
