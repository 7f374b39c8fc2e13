"""When an append may be answered: appends that wait for a flush, and the flushes they wait for.

A held append is a DelayedProduce watched by its slot: it completes when the slot's durable offset has passed it,
and expires with REQUEST_TIMED_OUT after the request's timeout (the records stay in the log, as in Kafka).
"""

import errno
import logging
import os
import time
from collections.abc import Callable, Iterable

from kbroker.io import append_row as ar
from kbroker.io.drain import Drain, HeldAppend
from kbroker.io.group_commit import Flushed, FlushMark, GroupCommit
from kbroker.io.logs import Logs
from kbroker.ipc import layout
from kbroker.ipc.shared import Shared
from kbroker.protocol.errors import ErrorCode
from kbroker.purgatory.delayed_produce import DelayedProduce
from kbroker.purgatory.purgatory import Purgatory

log = logging.getLogger(__name__)


class Durability:
    """Held appends and group commits of one IO worker. Runs in: io. Not thread-safe (the commit thread is inside)."""

    def __init__(self, shared: Shared, drain: Drain, logs: Logs, notify: Callable[[], None], now_ms: int) -> None:
        self._shared = shared
        self._drain = drain
        self._logs = logs
        self._purgatory: Purgatory[int] = Purgatory(now_ms)
        self._commit = GroupCommit(notify, time.monotonic_ns)
        self._unanswered: list[tuple[HeldAppend, int]] = []

    @property
    def delayed(self) -> int:
        """Held appends."""
        return self._purgatory.delayed

    def hold(self, held: HeldAppend, now_ms: int) -> None:
        """Answer when the slot's durable offset allows: at once for a slot that does not wait for the disk."""
        flags = int(self._shared.slots[held.slot, layout.SLOT_FLAGS])
        waits_for_flush = self._drain.rows[held.slot, ar.ROW_FLUSH_RECORDS] < ar.NEVER
        if not flags & layout.FLAG_DURABLE and not waits_for_flush:
            self._answer(held, 0)
            return
        produce = DelayedProduce(
            now_ms + held.timeout_ms,
            {held.slot: held.last_offset + 1},
            self._durable_offset,
            lambda _, expired: self._answer(held, ErrorCode.REQUEST_TIMED_OUT if expired else 0),
        )
        self._purgatory.try_complete_else_watch(produce, (held.slot,))

    def flush(self, slots: Iterable[int]) -> None:
        """Ask for a sync of those slots that want one now."""
        self._commit.ask([mark for slot in slots if (mark := self._mark(slot)) is not None])

    def flush_now(self, slot: int) -> None:
        """Ask for a sync of a slot whatever its settings say (flush.ms)."""
        mark = self._mark(slot, forced=True)
        if mark is not None:
            self._commit.ask([mark])

    def _mark(self, slot: int, forced: bool = False) -> FlushMark | None:
        row = self._drain.rows[slot]
        durable = self._shared.slots[slot, layout.SLOT_FLAGS] & layout.FLAG_DURABLE
        if row[ar.ROW_OPEN] == 0:
            return None
        if not forced and not durable and row[ar.ROW_UNFLUSHED_RECORDS] < row[ar.ROW_FLUSH_RECORDS]:
            return None
        records = int(row[ar.ROW_UNFLUSHED_RECORDS])
        row[ar.ROW_UNFLUSHED_RECORDS] = 0
        return FlushMark(
            slot=slot,
            generation=int(self._shared.slots[slot, layout.SLOT_GENERATION]),
            fd=os.dup(int(row[ar.ROW_LOG_FD])),
            next_offset=int(row[ar.ROW_NEXT_OFFSET]),
            segment_base=int(row[ar.ROW_BASE_OFFSET]),
            position=int(row[ar.ROW_POSITION]),
            records=records,
        )

    def take_flushed(self) -> None:
        """Publish finished syncs and answer what waited for them."""
        for flushed in self._commit.take():
            mark = flushed.mark
            if self._shared.slots[mark.slot, layout.SLOT_GENERATION] != mark.generation:
                continue
            if flushed.errno:
                self._failed(flushed)
                continue
            self._logs.publish_durable(mark.slot, mark.next_offset, mark.segment_base, mark.position)
            self._drain.counters[mark.slot, layout.COUNTER_FLUSHES] += 1
            self._drain.notify(mark.slot)
            self._purgatory.check_and_complete(mark.slot)
        if self._unanswered:
            again, self._unanswered = self._unanswered, []
            for held, error in again:
                self._answer(held, error)

    def _failed(self, flushed: Flushed) -> None:
        """After a failed fdatasync the kernel may have dropped dirty pages: the log dir can not be trusted."""
        log.error("sync failed: %s", errno.errorcode.get(flushed.errno, str(flushed.errno)))
        self._logs.dir_failed_of(flushed.mark.slot, flushed.errno)

    def _durable_offset(self, slot: int) -> int:
        return int(self._shared.slots[slot, layout.SLOT_DURABLE])

    def _answer(self, held: HeldAppend, error: int) -> None:
        if self._drain.complete(held, error):
            self._drain.wake()
        else:  # the client's ring is full; it is drained soon
            self._unanswered.append((held, error))

    def next_expiry_ms(self) -> int | None:
        """When ``expire`` is due next."""
        return self._purgatory.next_expiry_ms()

    def expire(self, now_ms: int) -> None:
        """Answer what has waited too long."""
        self._purgatory.expire(now_ms)

    def close(self) -> None:
        """Finish the syncs under way, answer what waited for them."""
        self._commit.close()
        self.take_flushed()
