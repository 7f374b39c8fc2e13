"""Partitions that this IO worker leads and that have other replicas: it advances their high
watermarks.

Rules: Kafka's Partition.maybeIncrementLeaderHW and checkEnoughReplicasReachOffset.
"""

import logging
from collections.abc import Callable, Iterable

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from kbroker.io.append.drain import Drain
from kbroker.io.append.rows import AppendRow
from kbroker.io.logs import Logs
from kbroker.io.replication.copy_kernel import min_offset_of_members
from kbroker.ipc.layout import Slot, SlotFlag
from kbroker.ipc.messages import Lead
from kbroker.ipc.ring import wake_process
from kbroker.ipc.shared import Shared

log = logging.getLogger(__name__)


class Led(Struct):
    """A partition that is led here. leader_epoch: of this leadership. in_sync: slots of the in-sync
    replicas elsewhere. wake: rows in shared.processes of the workers that copy."""

    leader_epoch: int
    in_sync: NDArray[np.int64]
    wake: tuple[int, ...]


class Leading:
    """Runs in: io. Owner: the worker's Replicas.

    unsettled: slots whose log extends beyond the high watermark. advanced: called with a slot whose
    mark has moved.
    """

    def __init__(self, shared: Shared, drain: Drain, logs: Logs, advanced: Callable[[int], None]) -> None:
        self._shared = shared
        self._drain = drain
        self._logs = logs
        self._advanced = advanced
        self._led: dict[int, Led] = {}
        self._unsettled: set[int] = set()

    def __len__(self) -> int:
        return len(self._led)

    def lead(self, body: Lead) -> bool:
        """Begin to lead, or continue with a changed in-sync set; returns whether every member has
        the records below the high watermark, and the records that the log held when this leadership
        began: they may have been acknowledged.

        Raises KafkaError (the log is not open), OSError."""
        partition = self._logs.require(body.slot)
        known = self._led.get(body.slot)
        wake = tuple({self._shared.worker_process(worker) for _, worker in body.others})
        led = Led(body.leader_epoch, np.array(body.in_sync, np.int64), wake)
        begins = known is None or known.leader_epoch != body.leader_epoch
        if begins:
            self.forget(body.slot)  # if it fails, as on a full disk, the next call begins again
            partition.role.lead(body.leader_epoch)
        self._led[body.slot] = led
        self._drain.rows[body.slot, AppendRow.TOO_FEW] = len(led.in_sync) + 1 < body.minimum
        if begins:
            log.info(
                "%s: leader with epoch %d from offset %d",
                partition.folder,
                body.leader_epoch,
                partition.log_end,
            )
            self._drain.notify(body.slot)
        begun = int(self._shared.slots[body.slot, Slot.EPOCH_START])
        complete = self._min_offset(body.slot, led) >= max(partition.high_watermark, begun)
        self._unsettled.add(body.slot)
        self.advance()
        self._wake(led)
        return complete

    def forget(self, slot: int) -> None:
        """Stop leading the slot."""
        if self._led.pop(slot, None) is not None:
            self._unsettled.discard(slot)
            self._drain.rows[slot, AppendRow.TOO_FEW] = 0

    def appended(self, slots: Iterable[int]) -> None:
        """The drain has appended: wake the workers of the followers."""
        wake: set[int] = set()
        for slot in slots:
            led = self._led.get(slot)
            if led is not None:
                self._unsettled.add(slot)
                wake.update(led.wake)
        for process in wake:
            wake_process(self._shared, process)

    def _wake(self, led: Led) -> None:
        for process in led.wake:
            wake_process(self._shared, process)

    def advance(self) -> bool:
        """Move the high watermarks that can be moved; returns whether one was."""
        moved = False
        for slot in list(self._unsettled):
            moved |= self._advance(slot, self._led[slot])
        return moved

    def can_advance(self) -> bool:
        """Whether ``advance`` would move one."""
        return any(self._mark(slot, self._led[slot]) is not None for slot in self._unsettled)

    def _min_offset(self, slot: int, led: Led) -> int:
        """Lowest offset of the in-sync replicas: log ends, or durable offsets when the topic
        requires it."""
        words = self._shared.slots[slot]
        durable = words[Slot.FLAGS] & SlotFlag.DURABLE
        word = Slot.DURABLE if durable else Slot.LOG_END
        own = int(words[word])
        if not len(led.in_sync):
            return own
        return min(own, int(min_offset_of_members(self._shared.slots, led.in_sync, led.leader_epoch, word)))

    def _mark(self, slot: int, led: Led) -> int | None:
        """A high watermark above the current one. Below min.insync.replicas it does not advance
        (KIP-966)."""
        if self._drain.rows[slot, AppendRow.TOO_FEW]:
            return None
        mark = self._min_offset(slot, led)
        return mark if mark > self._shared.slots[slot, Slot.HIGH_WATERMARK] else None

    def _advance(self, slot: int, led: Led) -> bool:
        partition = self._logs.get(slot)
        if partition is None or not partition.role.leads:
            self.forget(slot)
            return False
        mark = self._mark(slot, led)
        if mark is not None:
            try:
                partition.role.publish_high_watermark(mark)
            except OSError as error:
                self._logs.failures.log_failed(slot, error)
                return False
            self._drain.notify(slot)
            self._advanced(slot)
        if partition.high_watermark == partition.log_end:
            self._unsettled.discard(slot)
        return mark is not None
