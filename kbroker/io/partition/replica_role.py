"""The role of an open log among its partition's replicas: leader or follower, with a high watermark
that may be below its end."""

import logging

from kbroker.io.files.leader_epoch_cache import LeaderEpochFileCache
from kbroker.io.partition.log_segments import LogSegments
from kbroker.io.partition.log_slot import LogSlot
from kbroker.ipc.crash_point import crash_point
from kbroker.ipc.layout import Slot, SlotState
from kbroker.ipc.log_dir_errors import NO_ROOM
from kbroker.log.errors import CorruptLog
from kbroker.log.open_files import OpenFiles
from kbroker.log.reader import LogReader

log = logging.getLogger(__name__)


class ReplicaRole:
    """Runs in: io. Owner: the IO worker, by the log's UnifiedLog.

    leads: False for a follower, whose log only grows by copying. replicated: replication sets the
    high watermark (io/replication). paused: nothing is appended or copied while the log switches
    its log dir.
    """

    def __init__(
        self,
        slot: LogSlot,
        segments: LogSegments,
        epochs: LeaderEpochFileCache,
        leads: bool,
        replicated: bool,
    ) -> None:
        self.leads = leads
        self.replicated = replicated
        self.paused = False
        self._slot = slot
        self._segments = segments
        self._epochs = epochs
        self._was_full = False
        self._reader: LogReader | None = None  # finds places below the log's end

    def begin(self, leader_epoch: int) -> None:
        """Take the role of a log that was just opened, with an epoch, and let the drain kernel
        append."""
        if self.leads:
            self._begin_epoch(max(leader_epoch, self._epochs.latest), sync=False)  # the first flush syncs it
        else:
            self._segments.active.leader_epoch = -1  # of no leader yet
        self.let_append()
        if self.replicated:
            self._slot.epoch_start = self._segments.active.next_offset if self.leads else Slot.NOT_LED
        else:
            self._slot.epoch_start = 0

    def first_mark(self, known_mark: int | None) -> int:
        """High watermark of a log that was just opened: the log end, unless there are other
        replicas. known_mark: the one that a predecessor in this run published."""
        end, start = self._segments.active.next_offset, self._slot.log_start
        if not self.replicated:
            return end
        return start if known_mark is None else max(start, min(known_mark, end))

    def let_append(self) -> None:
        """Open the append row to the drain kernel, or keep it closed in a follower and while it is
        paused. On a full disk it stays as it is until the producers' state of batches that were not
        written is dropped: their retries would count as duplicates."""
        active = self._segments.active
        if active.is_disk_full:
            return
        active.let_append() if self.leads and not self.paused else active.stop_appends()

    # --- leading and following -----------------------------------------------------------------------------

    def set_leader_epoch(self, leader_epoch: int) -> None:
        """Stamp appends with a newer epoch, which begins at the log's end."""
        self._begin_epoch(leader_epoch)
        self._slot.publish()

    def _begin_epoch(self, leader_epoch: int, sync: bool = True) -> None:
        active = self._segments.active
        if leader_epoch >= 0:
            # an epoch without records before it can be rebuilt: creating partitions waits for no
            # disk
            end = active.next_offset
            self._epochs.assign(leader_epoch, end, sync=sync and end > self._slot.log_start)
            crash_point("leader change: epoch in the log dir")
        active.leader_epoch = leader_epoch

    def lead(self, leader_epoch: int) -> None:
        """Take appends from now on, with an epoch that begins at the log's end. Raises OSError: if
        the epoch could not be written, a follower stays one."""
        self._begin_epoch(max(leader_epoch, self._epochs.latest))
        self.leads = self.replicated = True
        self._slot.epoch_start = self._segments.active.next_offset
        self.publish_high_watermark(self._slot.high_watermark)
        self.let_append()  # unless it is paused: then when it resumes

    def resign(self) -> None:
        """Stop appends; the slot keeps its epoch, so that followers can copy the rest."""
        self.leads = False
        self._slot.epoch_start = Slot.NOT_LED
        self.let_append()
        self._slot.publish()

    def follow(self, leader_epoch: int) -> None:
        """Take no appends; -1 until the log agrees with its leader's, then that leader's epoch."""
        self.leads, self.replicated = False, True
        self.let_append()
        self._segments.active.leader_epoch = leader_epoch
        self._slot.epoch_start = Slot.NOT_LED
        self._slot.publish()

    # --- the high watermark ----------------------------------------------------------------------------------

    def publish_copied(self, mark: int) -> None:
        """Publish the copied batches, and a high watermark that the leader has published."""
        end = self._segments.active.next_offset
        self._slot.publish(high_watermark=min(max(mark, self._slot.high_watermark), end))

    def publish_high_watermark(self, mark: int) -> None:
        """Publish a high watermark: every in-sync replica has the records below it. Raises
        OSError."""
        self._slot.publish(high_watermark=mark, place=self._place_of(mark))

    def _place_of(self, offset: int) -> tuple[int, int] | None:
        """(segment base, byte position) of an offset or, in a gap, of the next one. None if the
        segment is damaged there, or cannot be opened for lack of descriptors: readers see the
        records before the last known place until the high watermark is elsewhere. Other logs of the
        IO worker are not affected; a restart would not repair it. Raises OSError."""
        active = self._segments.active
        end = active.base_offset, active.position
        if offset >= active.next_offset:
            return end
        if self._reader is None:
            self._reader = LogReader(self._segments.folder, OpenFiles(8))
        try:
            place = self._reader.locate(offset, *end, self._slot.segments_version)
        except (CorruptLog, OSError) as error:
            if isinstance(error, OSError) and error.errno not in NO_ROOM:
                raise
            log.error("%s: the high watermark %d has no place: %s", self._segments.folder, offset, error)
            return None
        return end if place is None else (place.segment_base, place.position)

    # --- while the log moves to another log dir --------------------------------------------------------------

    def pause(self) -> None:
        """Stop appends, copies, deletions and reads: clients get NOT_LEADER_OR_FOLLOWER, as while a
        log is recovered. Roles may change meanwhile."""
        self._was_full = self._segments.active.is_disk_full
        self.paused = True
        self._segments.active.stop_appends()
        self._slot.publish(SlotState.RECOVERING)

    def resume(self) -> None:
        """End the pause."""
        self.end_pause()
        if self._was_full:
            self._segments.active.refuse_appends()
        self._slot.publish(SlotState.ONLINE)

    def end_pause(self) -> None:
        """Let the drain kernel append again, if it may. The log may have moved to another
        folder."""
        self.paused = False
        self._reader = None
        self.let_append()
