"""When an append may be answered: appends that wait for a flush, and the flushes they wait for.

A held append is a DelayedProduce watched by its slot: it completes when the slot's durable offset has passed it,
and expires with REQUEST_TIMED_OUT after the request's timeout (the records stay in the log, as in Kafka).
"""

import time
from collections.abc import Iterable

from kbroker.io import append_row as ar
from kbroker.io.drain import Drain, HeldAppend
from kbroker.io.group_commit import Commit, GroupCommit
from kbroker.io.logs import Logs
from kbroker.ipc import layout
from kbroker.ipc.shared import Shared
from kbroker.metrics.slots import bind
from kbroker.protocol.errors import ErrorCode
from kbroker.purgatory.delayed_produce import DelayedProduce
from kbroker.purgatory.purgatory import Purgatory

FLUSH_SECONDS = bind("kbroker_flush_seconds")
FLUSH_ERRORS = bind("kbroker_flush_errors_total")
WAITED_FOR_FLUSH = bind("kbroker_request_phase_seconds", api="Produce", phase="flush")
ALL = -1  # acks
DELAYED = bind("kbroker_purgatory_delayed", operation="Produce")
WATCHED = bind("kbroker_purgatory_watched", operation="Produce")
EXPIRED = bind("kbroker_purgatory_expired_total", operation="Produce")


class Durability:
    """Held appends and group commits of one IO worker. Runs in: io. Not thread-safe (the commit thread is inside)."""

    def __init__(self, shared: Shared, drain: Drain, logs: Logs, now_ms: int) -> None:
        self._shared = shared
        self._drain = drain
        self._logs = logs
        self._purgatory: Purgatory[int] = Purgatory(now_ms)
        self._commit = GroupCommit(time.monotonic_ns)
        self._held: dict[int, dict[DelayedProduce, HeldAppend]] = {}
        self._under_way: set[int] = set()
        self._again: set[int] = set()
        self._unanswered: list[tuple[HeldAppend, int]] = []
        logs.offline_listeners.append(self.went_offline)

    def fileno(self) -> int:
        """Readable when ``take_flushed`` has something to do."""
        return self._commit.fileno()

    @property
    def delayed(self) -> int:
        """Held appends."""
        return self._purgatory.delayed

    def hold(self, held: HeldAppend, now_ms: int) -> None:
        """Answer when the slot's durable offset allows: at once for a slot that does not wait for the disk."""
        flags = int(self._shared.slots[held.slot, layout.SLOT_FLAGS])
        waits_for_flush = self._drain.rows[held.slot, ar.ROW_FLUSH_RECORDS] < ar.NEVER
        replicated = flags & layout.FLAG_REPLICATED and held.acks == ALL
        if not flags & layout.FLAG_DURABLE and not waits_for_flush and not replicated:
            self._answer(held, 0)
            return
        produce = DelayedProduce(
            now_ms + held.timeout_ms,
            {held.slot: held.last_offset + 1},
            self._replicated_offset if replicated else self._durable_offset,
            lambda produce, expired: self._finish(
                produce, held, ErrorCode.REQUEST_TIMED_OUT if expired else self._outcome(held)
            ),
        )
        self._held.setdefault(held.slot, {})[produce] = held
        self._purgatory.try_complete_else_watch(produce, (held.slot,))

    def _finish(self, produce: DelayedProduce, held: HeldAppend, error: int) -> None:
        del self._held[held.slot][produce]
        self._drain.metrics.observe(WAITED_FOR_FLUSH, time.monotonic_ns() - held.enqueued_ns)
        self._answer(held, error)

    def _outcome(self, held: HeldAppend) -> int:
        """The records are where they should be; but the in-sync set may have shrunk below what the topic asks."""
        too_few = held.acks == ALL and self._drain.rows[held.slot, ar.ROW_TOO_FEW]
        return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND if too_few else 0

    def advanced(self, slot: int) -> None:
        """The high watermark of a replicated slot has moved: answer what waited for it."""
        self._purgatory.check_and_complete(slot)

    def flush(self, slots: Iterable[int]) -> None:
        """Ask for a sync of those slots that want one now."""
        self._ask(slot for slot in slots if self._wants_flush(slot))

    def flush_now(self, slots: Iterable[int]) -> None:
        """Ask for a sync of slots whatever their settings say (flush.ms)."""
        self._ask(slots)

    def flush_rolled(self, slots: Iterable[int]) -> None:
        """Ask for a sync of closed segments alone: it moves the recovery point, which bounds what a crash costs."""
        self._ask(slots, rolled_only=True)

    def _wants_flush(self, slot: int) -> bool:
        row = self._drain.rows[slot]
        durable = self._shared.slots[slot, layout.SLOT_FLAGS] & layout.FLAG_DURABLE
        return bool(durable or row[ar.ROW_UNFLUSHED_RECORDS] >= row[ar.ROW_FLUSH_RECORDS])

    def _ask(self, slots: Iterable[int], rolled_only: bool = False) -> None:
        """One commit a slot at a time: what is appended during it waits for the next."""
        commits = []
        for slot in slots:
            partition = self._logs.get(slot)
            if partition is None:
                continue
            if slot in self._under_way:
                self._again.add(slot)
                continue
            self._under_way.add(slot)
            generation = int(self._shared.slots[slot, layout.SLOT_GENERATION])
            commits.append(Commit(slot, generation, partition.begin_flush(rolled_only)))
        if commits:
            self._commit.ask(commits)

    def take_flushed(self) -> None:
        """Publish finished syncs and answer what waited for them."""
        for committed in self._commit.take():
            slot = committed.commit.slot
            self._under_way.discard(slot)
            self._drain.metrics.observe(FLUSH_SECONDS, committed.nanoseconds)
            partition = self._logs.get(slot)
            if (
                partition is None
                or self._shared.slots[slot, layout.SLOT_GENERATION] != committed.commit.generation
            ):
                self._again.discard(slot)
                continue
            if committed.errno:
                self._drain.metrics.words[FLUSH_ERRORS] += 1
                self._logs.sync_failed(slot, committed.errno)
                continue
            partition.finish_flush(committed.commit.job)
            self._drain.counters[slot, layout.COUNTER_FLUSHES] += 1
            self._drain.notify(slot)
            self._purgatory.check_and_complete(slot)
        if self._again:
            again, self._again = self._again, set()
            self._ask(again)
        if self._unanswered:
            unanswered, self._unanswered = self._unanswered, []
            for held, error in unanswered:
                self._answer(held, error)

    def _durable_offset(self, slot: int) -> int:
        return int(self._shared.slots[slot, layout.SLOT_DURABLE])

    def _replicated_offset(self, slot: int) -> int:
        """What every in-sync replica has, and with flush.messages what is on the leader's disk, too."""
        mark = int(self._shared.slots[slot, layout.SLOT_HIGH_WATERMARK])
        if self._drain.rows[slot, ar.ROW_FLUSH_RECORDS] < ar.NEVER:
            return min(mark, self._durable_offset(slot))
        return mark

    def _answer(self, held: HeldAppend, error: int) -> None:
        """The worker wakes the clients once for all answers: a wake-up each would be a turn of theirs each."""
        if not self._drain.complete(held, error):  # the client's ring is full; it is drained soon
            self._unanswered.append((held, error))

    def forget(self, slot: int, error: ErrorCode = ErrorCode.NOT_LEADER_OR_FOLLOWER) -> None:
        """The slot is closed: what waits for it gets an error, as after a change of leader."""
        for produce, held in self._held.pop(slot, {}).items():
            self._purgatory.cancel(produce)
            self._answer(held, error)

    def went_offline(self, slot: int) -> None:
        """The slot's log dir failed: what waits for it will never be on disk."""
        self.forget(slot, ErrorCode.KAFKA_STORAGE_ERROR)

    def next_expiry_ms(self) -> int | None:
        """When ``expire`` is due next."""
        return self._purgatory.next_expiry_ms()

    def expire(self, now_ms: int) -> None:
        """Answer what has waited too long."""
        if expired := self._purgatory.expire(now_ms):
            self._drain.metrics.words[EXPIRED] += expired

    def measure(self) -> None:
        """Metrics of what waits."""
        self._drain.metrics.words[DELAYED] = self._purgatory.delayed
        self._drain.metrics.words[WATCHED] = self._purgatory.watched

    def wait(self) -> None:
        """Until ``take_flushed`` has something to do, if a sync is under way."""
        self._commit.wait()

    def close(self) -> None:
        """Finish the syncs under way, answer what waited for them."""
        while self._under_way or self._again:
            self.wait()
            self.take_flushed()
        self._commit.close()
