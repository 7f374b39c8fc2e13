"""Publishes an open log to other processes: its fields in the partition slot, written as one group
under the slot's sequence."""

from collections import deque

import numpy as np
from numpy.typing import NDArray

from kbroker.io.append.publish_kernel import last_stable, sync_moves_high_watermark
from kbroker.io.files.leader_epoch_cache import LeaderEpochFileCache
from kbroker.io.partition.log_segments import LogSegments
from kbroker.ipc.layout import Slot, SlotFlag
from kbroker.kernels.sequence import write_group

Words = NDArray[np.int64]
NO_FIELDS: Words = np.zeros(0, np.int64)


class LogSlot:
    """Runs in: io. Owner: the IO worker, by the log's UnifiedLog. words: the shared Slot.

    log_start: log start offset. epoch_start: see Slot.EPOCH_START. Other processes see both, like
    segments and epochs, after the next `publish`.
    """

    def __init__(self, words: Words, segments: LogSegments, epochs: LeaderEpochFileCache) -> None:
        self.words = words
        self.log_start = 0
        self.epoch_start = 0
        self._ended: deque[tuple[int, int]] = deque()
        """(first offset, marker's offset) of transactions whose marker is not below the high
        watermark, without those that begin after one which ends later: both rise."""
        self._segments = segments
        self._epochs = epochs

    @property
    def high_watermark(self) -> int:
        return int(self.words[Slot.HIGH_WATERMARK])

    @property
    def last_stable(self) -> int:
        return int(self.words[Slot.LAST_STABLE])

    @property
    def recovery_point(self) -> int:
        """Everything below it is on disk; the value for recovery-point-offset-checkpoint."""
        return int(self.words[Slot.DURABLE])

    @property
    def generation(self) -> int:
        return int(self.words[Slot.GENERATION])

    @property
    def segments_version(self) -> int:
        return int(self.words[Slot.SEGMENTS_VERSION])

    @property
    def is_durable(self) -> bool:
        """Whether appends with acks=all wait for the disk."""
        return bool(self.words[Slot.FLAGS] & SlotFlag.DURABLE)

    @property
    def waits(self) -> bool:
        """Whether the high watermark waits for the disk or for replicas."""
        return bool(self.words[Slot.FLAGS] & SlotFlag.ACKS_WAIT)

    def sync_moves_high_watermark(self, synced_end: int) -> bool:
        """Whether the high watermark follows the durable offset."""
        return sync_moves_high_watermark(int(self.words[Slot.FLAGS]), self.high_watermark, synced_end)

    def forget_largest_timestamp(self) -> None:
        """Reset it for a log that was just opened: the next `publish` sets that of the active
        segment."""
        self.words[Slot.MAX_TIMESTAMP] = -1

    def producers_changed(self) -> None:
        """Producers were forgotten while nothing was appended: cached answers about them are
        outdated."""
        write_group(self.words, NO_FIELDS, NO_FIELDS)

    def publish(
        self,
        state: int | None = None,
        *,
        high_watermark: int | None = None,
        place: tuple[int, int] | None = None,
        durable: int | None = None,
        changed: bool = False,
        changing: bool = False,
    ) -> None:
        """Write the whole group. state, high_watermark and durable stay when not given.

        place: (segment base, position) of a high watermark below the log's end. changed: the list
        of segment files has changed. changing: it is about to change, and is inconsistent until
        then (the version is odd).
        """
        active = self._segments.active
        active.set_unsynced(self._segments.unsynced.first_base is not None, self._segments.unsynced.names)
        words, end = self.words, active.next_offset
        mark = min(self.high_watermark if high_watermark is None else high_watermark, end)
        fields = {
            Slot.LEADER_EPOCH: active.leader_epoch,
            Slot.LOG_START: self.log_start,
            Slot.START_EPOCH: self._epochs.at(self.log_start),
            Slot.LOG_END: end,
            Slot.ACTIVE_BASE: active.base_offset,
            Slot.ACTIVE_END: active.position,
            Slot.LOG_BYTES: active.log_bytes,
            Slot.SEGMENT_COUNT: len(self._segments.closed) + 1,
            Slot.EPOCH_START: self.epoch_start,
            Slot.LAST_ABORTED: active.last_aborted,
            Slot.MAX_TIMESTAMP: max(int(words[Slot.MAX_TIMESTAMP]), active.max_timestamp),
            Slot.HIGH_WATERMARK: mark,
            Slot.LAST_STABLE: self._last_stable(mark, end),
        }
        if mark == end:
            place = active.base_offset, active.position
        if place is not None:
            fields[Slot.HW_BASE], fields[Slot.HW_POSITION] = place
        if state is not None:
            fields[Slot.STATE] = state
        if durable is not None:
            fields[Slot.DURABLE] = durable
        if changed:
            fields[Slot.SEGMENTS_VERSION] = (self.segments_version // 2 + 1) * 2
        elif changing:
            fields[Slot.SEGMENTS_VERSION] = self.segments_version | 1
        write_group(words, np.array(list(fields), np.int64), np.array(list(fields.values()), np.int64))

    def transaction_ended(self, first_offset: int, marker_offset: int) -> None:
        """Hold the last stable offset, from the next `publish` on, until the high watermark has
        passed the marker: before, the end of the transaction may be lost (Kafka's
        unreplicatedTxns)."""
        while self._ended and self._ended[-1][0] >= first_offset:
            self._ended.pop()
        self._ended.append((first_offset, marker_offset))

    def _last_stable(self, mark: int, end: int) -> int:
        """The last stable offset for a high watermark and a log end. Sets what the kernels compute
        it from in the append row."""
        active, ended, held = self._segments.active, self._ended, (0, 0)
        if 0 <= active.first_unstable < self.log_start:  # as in Kafka: its first records are deleted
            active.first_unstable = self.log_start
        first = end
        while ended and ended[-1][1] >= end:  # truncated: the transaction is open again
            first = ended.pop()[0]
        if first < end:  # or it stands for several, and some are not open
            ended.append((first, end - 1))
        while ended and ended[0][1] < mark:
            ended.popleft()
        if ended:
            held = max(ended[0][0], self.log_start), ended[0][1] + 1
        active.hold_stable(*held)
        return last_stable(mark, active.first_unstable, *held)
