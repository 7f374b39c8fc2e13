"""Appends that wait for a sync, and these syncs.

A held append is a delayed produce, a row that the kernels keep (delayed_produce_kernel.py). It
completes when the slot's durable offset has passed it, and expires with REQUEST_TIMED_OUT after the
request's timeout (the records stay in the log, as in Kafka). Kernels also begin and end plain syncs
(group_commit_kernel.py). This module handles the rest: the first sync of a log, syncs after a roll,
syncs by flush.ms, and failures.
"""

import errno
import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from kbroker.io.append.drain import Drain, HeldAppend
from kbroker.io.append.rows import AppendRow, Environment, SyncRow, SyncState
from kbroker.io.group_commit import GroupCommit, LogSync
from kbroker.io.late_answers import LateAnswers
from kbroker.io.logs import Logs
from kbroker.io.partition.unified_log import UnifiedLog
from kbroker.ipc.layout import Counter, Slot, SlotFlag
from kbroker.ipc.messages import SyncLog
from kbroker.ipc.shared import Shared
from kbroker.log.open_files import NO_DESCRIPTORS
from kbroker.metrics.slots import bind
from kbroker.protocol.errors import ErrorCode

log = logging.getLogger(__name__)

FLUSH_SECONDS = bind("kbroker_flush_seconds")
FLUSH_ERRORS = bind("kbroker_flush_errors_total")
ALL = -1  # acks
NO_GENERATION = -1  # no generation of a slot
DELAYED = bind("kbroker_purgatory_delayed", operation="Produce")
WATCHED = bind("kbroker_purgatory_watched", operation="Produce")
EXPIRED = bind("kbroker_purgatory_expired_total", operation="Produce")


class Durability:
    """Held appends and group commits of one IO worker. Runs in: io. Not thread-safe; the commit
    threads are internal. notify_again: called with slots whose waiting client processes could not
    be notified, because their rings were full. synced: called with slots whose closed segments are
    on disk."""

    def __init__(
        self,
        shared: Shared,
        drain: Drain,
        logs: Logs,
        notify_again: Callable[[int], None] = lambda _: None,
        synced: Sequence[Callable[[int], None]] = (),
    ) -> None:
        self._shared = shared
        self._drain = drain
        self._logs = logs
        self._notify_again = notify_again
        self._commit = GroupCommit(time.monotonic_ns)
        drain.env[Environment.SYNC_RESULTS] = self._commit.fileno()
        self._left: dict[int, str] = {}
        """Slot -> the folder in which a sync in progress began, if the log has moved to another log
        dir since."""
        self._answers = LateAnswers(drain.complete)
        self._postponed = set[int]()  # slots whose syncs found no descriptors
        self._synced = synced
        logs.failures.offline_listeners.append(self.went_offline)
        logs.moved_listeners.append(self.moved)
        logs.configured_listeners.append(self.configured)

    def fileno(self) -> int:
        """Readable when ``take_flushed`` has something to do."""
        return self._commit.fileno()

    @property
    def handlers(self) -> Mapping[type, Callable[[Any], object]]:
        """Handlers of messages from control."""
        return {SyncLog: self._sync_log}

    def _sync_log(self, body: SyncLog) -> None:
        self._logs.require(body.slot)
        self.flush_now((body.slot,))

    @property
    def delayed(self) -> int:
        """Held appends."""
        return self._drain.delayed

    @property
    def unanswered(self) -> bool:
        """Whether a client's ring was too full for an answer; then ``answer_late`` must be called
        soon."""
        return self._drain.unanswered or self._answers.waiting

    def hold(self, held: HeldAppend) -> None:
        """Answer when the slot's durable offset allows it; now, for a slot that does not wait for
        the disk."""
        flags = int(self._shared.slots[held.slot, Slot.FLAGS])
        waits_for_flush = self._drain.rows[held.slot, AppendRow.FLUSH_RECORDS] < AppendRow.NEVER
        replicated = flags & SlotFlag.REPLICATED and held.acks == ALL
        if not flags & SlotFlag.DURABLE and not waits_for_flush and not replicated:
            self._answer(held, 0)
            return
        self._drain.hold(held)
        self._drain.release(held.slot)

    def refuse(self, held: HeldAppend) -> None:
        """Answer KAFKA_STORAGE_ERROR: the append is in the log, but a file that belongs to it could
        not be written."""
        self._answer(held, int(ErrorCode.KAFKA_STORAGE_ERROR))

    def advanced(self, slot: int) -> None:
        """The high watermark of a replicated slot has advanced: answer the appends that waited for
        it."""
        self._drain.release(slot)

    def flush(self, slots: Iterable[int]) -> None:
        """Request a sync of the slots whose appends wait for one."""
        self._ask(slot for slot in slots if self._wants_flush(slot))

    def flush_now(self, slots: Iterable[int]) -> None:
        """Request a sync of slots, whatever their settings are (flush.ms)."""
        self._ask(slots)

    def flush_rolled(self, slots: Iterable[int]) -> None:
        """Request a sync of closed segments only. It advances the recovery point, from which a
        start after a crash scans the log."""
        self._ask(slots, rolled_only=True)

    def configured(self, partition: UnifiedLog) -> None:
        """A log has new settings, or begins to lead. With write.caching=false, or if flush.messages
        is reached, its older records are synced, too: a retry of them waits for the disk, and no
        append may follow that syncs them."""
        row = self._drain.rows[partition.slot]
        limit = row[AppendRow.FLUSH_RECORDS]
        reached = limit == 1 or row[AppendRow.UNFLUSHED_RECORDS] >= limit
        if (reached or partition.published.is_durable) and not partition.durability.is_synced:
            if reached:
                row[AppendRow.SYNC_END] = row[AppendRow.NEXT_OFFSET]
            self._ask((partition.slot,))

    def _wants_flush(self, slot: int) -> bool:
        row = self._drain.rows[slot]
        durable = self._shared.slots[slot, Slot.FLAGS] & SlotFlag.DURABLE
        return bool(durable or row[AppendRow.UNFLUSHED_RECORDS] >= row[AppendRow.FLUSH_RECORDS])

    def _ask(self, slots: Iterable[int], rolled_only: bool = False) -> None:
        """Start one sync per slot; records that are appended meanwhile wait for the next one."""
        syncs = []
        for slot in slots:
            partition = self._logs.get(slot)
            if partition is None:
                continue
            sync = self._drain.syncs[slot]
            if sync[SyncRow.STATE] != SyncState.IDLE:
                sync[SyncRow.AGAIN] = 1
                continue
            generation = int(self._shared.slots[slot, Slot.GENERATION])
            try:
                syncs.append(LogSync(slot, generation, partition.durability.begin(rolled_only)))
            except OSError as error:
                self._not_begun(slot, error)
                continue
            sync[SyncRow.STATE], sync[SyncRow.AGAIN] = SyncState.WHOLE, 0
            sync[SyncRow.CUTS] = self._drain.rows[slot, AppendRow.CUTS]
        if syncs:
            self._commit.ask(syncs)
            self._drain.env[Environment.SYNC_JOBS] = self._commit.jobs

    def _not_begun(self, slot: int, error: OSError) -> None:
        if error.errno in NO_DESCRIPTORS:
            self._postponed.add(slot)
        else:
            self._logs.failures.log_failed(slot, error)

    def take_flushed(self) -> None:
        """Publish finished syncs and answer the appends that waited for them."""
        left = self._drain.take_synced(FLUSH_SECONDS)
        again = [slot for token, error, time_ns in left if (slot := self._ended(token, error, time_ns)) >= 0]
        if again:
            self._ask(again)
        if left:
            self._drain.wake()

    def _ended(self, token: int, error: int, nanoseconds: int) -> int:
        """Handle the end of a sync that the kernel leaves to Python; returns the slot if it must be
        synced again, else -1."""
        if error == SyncRow.NOT_NOTIFIED:
            self._notify_again(-1 - token)
            return -1
        if error == SyncRow.NOT_STARTED:
            return -1 - token
        finished = self._commit.result(token, error, nanoseconds) if token >= 0 else None
        slot = finished.sync.slot if finished else -1 - token
        sync = self._drain.syncs[slot]
        sync[SyncRow.STATE] = SyncState.IDLE
        self._drain.metrics.observe(FLUSH_SECONDS, nanoseconds)
        if (left := self._left.pop(slot, None)) is not None:
            # the folder may be gone, and the copy was synced
            if error not in (0, errno.ENOENT, *NO_DESCRIPTORS):
                self._failed(left, error)
            return slot
        partition = self._logs.get(slot)
        generation = finished.sync.generation if finished else sync[SyncRow.GENERATION]
        again = slot if sync[SyncRow.AGAIN] else -1
        if partition is None or self._shared.slots[slot, Slot.GENERATION] != generation:
            return again  # of the log that has the slot now
        if error in NO_DESCRIPTORS:
            self._postponed.add(slot)
            return -1
        if error:
            self._failed(partition.folder, error)
            return -1
        if self._drain.rows[slot, AppendRow.CUTS] != sync[SyncRow.CUTS]:
            return slot  # the synced records have been truncated
        if finished:
            partition.durability.finish(finished.sync.job)
            for listener in self._synced:
                listener(slot)
        else:
            partition.durability.publish(
                int(sync[SyncRow.NEXT_OFFSET]), int(sync[SyncRow.SEGMENT_BASE]), int(sync[SyncRow.POSITION])
            )
        self._drain.counters[slot, Counter.FLUSHES] += 1
        if self._drain.notify(slot):
            self._notify_again(slot)
        self._drain.release(slot)
        return again

    def _failed(self, folder: str, error: int) -> None:
        log.error("sync of %s failed: %s", folder, os.strerror(error))
        self._drain.metrics.words[FLUSH_ERRORS] += 1
        self._logs.failures.sync_failed(folder, error)

    def _answer(self, held: HeldAppend, error: int) -> None:
        """Answer without waking the client: the worker wakes each client once for all answers, as
        each wake-up costs the client a turn of its loop."""
        self._answers.answer(held, error)

    def answer_late(self) -> None:
        """Retry the answers for which a client's ring was full."""
        if self._drain.unanswered:
            self._drain.answer_late()
        self._answers.retry()

    def forget(self, slot: int, error: ErrorCode = ErrorCode.NOT_LEADER_OR_FOLLOWER) -> None:
        """The slot is closed: appends that wait for it get an error, as after a change of
        leader."""
        self._drain.fail(slot, error)

    def moved(self, slot: int, left: str) -> None:
        """The slot's log leaves its folder for another log dir: the result of a sync in progress
        does not count there, whether the log continues at once or is opened later."""
        sync = self._drain.syncs[slot]
        if sync[SyncRow.STATE] != SyncState.IDLE:
            self._left.setdefault(slot, left)
            sync[SyncRow.GENERATION] = NO_GENERATION  # so that the kernel leaves it to `_ended`

    def went_offline(self, slot: int) -> None:
        """The slot's log dir failed: appends that wait for it get an error, because their records
        will never be on disk."""
        self.forget(slot, ErrorCode.KAFKA_STORAGE_ERROR)

    def expire(self, now_ms: int) -> None:
        """Answer the delayed produces that have expired."""
        due_ms = self._drain.env[Environment.DELAYED_DUE_MS]
        if now_ms >= due_ms and (expired := self._drain.expire(now_ms)):
            self._drain.metrics.words[EXPIRED] += expired

    def measure(self) -> None:
        """Called once a second: request the syncs that found no descriptors, and update the metrics
        of waiting appends."""
        postponed, self._postponed = self._postponed, set()
        self._ask(postponed)
        self._drain.metrics.words[DELAYED] = self._drain.delayed
        self._drain.metrics.words[WATCHED] = self._drain.delayed

    def wait(self) -> None:
        """Wait until ``take_flushed`` has something to do, if a sync is in progress."""
        if self._syncing:
            self._commit.wait()

    @property
    def _syncing(self) -> bool:
        return bool(np.any(self._drain.syncs[:, SyncRow.STATE] != SyncState.IDLE))

    def close(self) -> None:
        """Finish the syncs in progress, answer the appends that waited for them."""
        while self._syncing:
            self.wait()
            self.take_flushed()
        self._drain.env[Environment.SYNC_JOBS] = self._drain.env[Environment.SYNC_RESULTS] = -1
        self._commit.close()
