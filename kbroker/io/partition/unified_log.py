"""The log of one partition, owned by its IO worker (Kafka's UnifiedLog): everything except appends,
which the drain kernel does. Composed of its segments, leader epochs, producers, durability, replica
role and slot.
"""

import logging
import os

from kbroker.config.topic import TopicConfig
from kbroker.io.append.producer_table import EndTxnMarker, ProducerTable
from kbroker.io.files.leader_epoch_cache import LeaderEpochFileCache
from kbroker.io.partition.active_segment import ActiveSegment
from kbroker.io.partition.deletions import Deletions
from kbroker.io.partition.log_durability import LogDurability
from kbroker.io.partition.log_segments import LogSegments
from kbroker.io.partition.log_slot import LogSlot
from kbroker.io.partition.log_spec import LogSpec
from kbroker.io.partition.producer_state import ProducerStateManager
from kbroker.io.partition.replica_role import ReplicaRole
from kbroker.io.partition.retention import LogShape, above_size, below_log_start, keeps_all, too_old
from kbroker.io.partition.segment_swap import CleanedFilesGone, NothingSwapped, files_unchanged, swap_steps
from kbroker.io.recovery import loaded_log
from kbroker.io.recovery.loaded_log import ClosedLog, LoadedLog
from kbroker.ipc.cleaning_messages import SwapSegments
from kbroker.ipc.crash_point import crash_point
from kbroker.ipc.layout import SlotState
from kbroker.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)

ALL_SEGMENTS = 1 << 62


class UnifiedLog:
    """Runs in: io. Owner: the IO worker. Not thread-safe, except for FlushJob.run. Times are wall
    clock ms.

    reindexed: how often a transaction index, which is empty meanwhile, was rebuilt. After an
    OSError of any method the log dir cannot be trusted any more.
    """

    def __init__(
        self,
        spec: LogSpec,
        segments: LogSegments,
        epochs: LeaderEpochFileCache,
        producers: ProducerStateManager,
        published: LogSlot,
        durability: LogDurability,
        role: ReplicaRole,
    ) -> None:
        self.slot = spec.slot
        self.topic = spec.topic
        self.partition = spec.partition
        self.topic_id = spec.topic_id
        self.first_dirty = spec.first_dirty
        self.reindexed = 0
        self.segments = segments
        self.epochs = epochs
        self.producers = producers
        self.published = published
        self.durability = durability
        self.role = role

    def bring_online(self, loaded: LoadedLog, leader_epoch: int, known_mark: int | None, now_ms: int) -> None:
        """Take over a loaded log, begin its role, and let the drain kernel append if it leads."""
        self.reindexed += 1
        self.published.log_start = loaded.log_start
        self.epochs.take(loaded.epochs)
        self.producers.load(loaded.producers)
        self.active.load(loaded.active, loaded.first_unstable, loaded.has_aborted)
        for first_offset, marker_offset in loaded.ended:
            self.published.transaction_ended(first_offset, marker_offset)
        self.segments.load(loaded.closed, loaded.deleted, loaded.recovery_point, now_ms)
        self.role.begin(leader_epoch)
        self.published.forget_largest_timestamp()
        self.published.publish(
            SlotState.ONLINE,
            high_watermark=self.role.first_mark(known_mark),
            durable=loaded.recovery_point,
            changed=True,
        )

    # --- queries ------------------------------------------------------------------------------

    @property
    def active(self) -> ActiveSegment:
        return self.segments.active

    @property
    def is_open(self) -> bool:
        return self.active.is_open

    @property
    def folder(self) -> str:
        return self.segments.folder

    @property
    def config(self) -> TopicConfig:
        return self.segments.config

    @property
    def log_start(self) -> int:
        return self.published.log_start

    @property
    def log_end(self) -> int:
        return self.active.next_offset

    @property
    def high_watermark(self) -> int:
        return self.published.high_watermark

    @property
    def recovery_point(self) -> int:
        """All records below it are on disk."""
        return self.published.recovery_point

    @property
    def base_offsets(self) -> list[int]:
        return self.segments.base_offsets

    @property
    def size(self) -> int:
        return self.active.log_bytes

    @property
    def checkpointed_log_start(self) -> int | None:
        """The log start for its checkpoint file; None if it is the first segment's base offset."""
        return None if self.log_start_is_in_file_name(self.log_start) else self.log_start

    def log_start_is_in_file_name(self, log_start: int) -> bool:
        """Whether the log starts at the base offset in the first segment's name."""
        return log_start <= self.segments.first_base

    def end_offset_for(self, leader_epoch: int) -> tuple[int, int]:
        """OffsetForLeaderEpoch: (epoch, end offset), (-1, -1) when unknown."""
        return self.epochs.end_offset_for(leader_epoch, self.log_end)

    # --- growing -------------------------------------------------------------------------------------------

    def configure(self, config: TopicConfig) -> None:
        """New settings, from the next append or retention run on. Records that waited for the disk
        are readable now if write.caching is on."""
        self.segments.configure(config)
        if not self.published.waits and self.high_watermark < self.log_end:
            self.published.publish(high_watermark=self.log_end)

    def roll(self, now_ms: int, at: int = 0) -> None:
        """Close the active segment and begin a new one at the log's end, or at a later offset, the
        next batch's."""
        if self.active.is_disk_full:
            self.producers.reload(now_ms)  # batches that were not written are not for the snapshot
        self.segments.roll(now_ms, self.producers.snapshot, at)
        self.published.publish(changed=True)

    def complete_transaction(self, marker: EndTxnMarker) -> None:
        """Advance the last stable offset after a transaction's marker is in the log, or when it is
        below the high watermark. Raises OSError."""
        first_offset = self.producers.complete_transaction(marker)
        if first_offset >= 0:
            self.published.transaction_ended(first_offset, marker.offset)
        self.published.publish()

    # --- deleting ------------------------------------------------------------------------------------------

    def delete_records(self, offset: int) -> int:
        """Advance the log start (-1: to the high watermark); returns it. The next retention run
        deletes the segments below it. Raises OFFSET_OUT_OF_RANGE beyond the high watermark,
        NOT_LEADER_OR_FOLLOWER while paused."""
        if self.role.paused:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        target = self.high_watermark if offset == -1 else offset
        if not 0 <= target <= self.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset}, the high watermark is {self.high_watermark}"
            )
        self.advance_log_start(target)
        crash_point("delete records: log start advanced")
        return self.log_start

    def advance_log_start(self, offset: int) -> None:
        """Advance the log start, unless it is already higher."""
        if offset > self.log_start:
            self.published.log_start = offset
            self.epochs.truncate_from_start(offset)  # in memory: each load repeats it
            self.published.publish()

    def retention(self, now_ms: int, max_segments: int = ALL_SEGMENTS) -> int:
        """Delete the oldest segments: below the log start and, with cleanup.policy=delete, by size
        and age. Returns the number; if it reaches `max_segments`, more may follow."""
        largest = self.segments.largest_timestamp
        if self.role.paused or keeps_all(self._shape(1), self.config, now_ms, largest):
            return 0
        deleted = self.delete_segments_below(self.log_start, now_ms, max_segments)
        if self.config.delete:
            large = above_size(self._shape(max_segments), self.config.retention_bytes)
            deleted += self._delete_oldest(large, now_ms)
            aged = too_old(self._shape(max_segments), self.config.max_age_ms, now_ms, largest)
            deleted += self._delete_oldest(aged, now_ms)
        return deleted

    def delete_segments_below(self, offset: int, now_ms: int, max_segments: int = ALL_SEGMENTS) -> int:
        """Delete, of the oldest segments, those entirely below an offset, with any cleanup policy;
        returns the number. The log then starts with the first one that is left."""
        if self.role.paused:
            return 0
        return self._delete_oldest(below_log_start(self._shape(max_segments, offset)), now_ms)

    def _shape(self, max_segments: int, log_start: int | None = None) -> LogShape:
        bases, sizes, end = self.segments.oldest(max_segments)
        end, later = (self.log_end, None) if end is None else (end, self.size - sum(sizes))
        start = self.log_start if log_start is None else log_start
        return LogShape(bases, sizes, start, end, self.high_watermark, later)

    def _delete_oldest(self, count: int, now_ms: int) -> int:
        if count == 0:
            return 0
        if count > len(self.segments.closed):
            self.roll(now_ms)
        gone = self.segments.take_oldest(count)
        # the log start goes ahead of the files: no reader is sent to a segment that is renamed
        self.advance_log_start(self.segments.first_base)
        crash_point("retention: log start advanced")
        self.segments.delete_oldest(gone, now_ms)
        self.published.publish(changed=True)
        log.info(
            "%s: deleted %d segments, the log starts at offset %d", self.folder, len(gone), self.log_start
        )
        return len(gone)

    # --- truncating: records that another leader never had, and remains of failed appends ------------------

    def truncate_to(self, offset: int, now_ms: int) -> None:
        """Remove every batch that contains or follows an offset, which becomes the log's end."""
        if offset >= self.log_end:
            return
        self.segments.truncate_to(offset, now_ms)
        self.published.log_start = min(self.log_start, offset)
        self.first_dirty = min(self.first_dirty, offset)
        if self.epochs.truncate_from_end(offset):
            self.epochs.write()
        crash_point("truncate: epochs written")
        self.producers.reload(now_ms)
        self.role.let_append()
        mark, point = min(self.high_watermark, offset), min(self.recovery_point, offset)
        self.published.publish(high_watermark=mark, durable=point, changed=True)

    def truncate_fully(self, offset: int, now_ms: int) -> None:
        """Remove everything and start again at an offset above the log's end
        (UnifiedLog.truncateFullyAndStartAt)."""
        self.segments.truncate_fully(offset, now_ms)
        self.published.log_start = offset
        self.first_dirty = -1
        self.epochs.clear()
        self.producers.start_again()
        self.active.first_unstable = -1
        self.role.let_append()
        self.published.publish(high_watermark=offset, durable=offset, changed=True)

    def repair(self, now_ms: int) -> None:
        """Repair the log after a failed append: cut the bytes after the published end, remove their
        producers' state, add missing entries of the transaction index, and let the drain kernel
        append again. Raises OSError when the files cannot be cut."""
        self.active.stop_appends()
        self.published.publish(changing=True)  # the transaction index is empty for a moment
        self.active.cut_to_state()
        self.reindexed += 1
        self.producers.reload(now_ms, reindex=True)
        self.role.let_append()
        self.published.publish(changed=True)

    # --- compacting ----------------------------------------------------------------------------------------

    def cleaned_up_to(self, offset: int) -> None:
        """Everything below is compacted."""
        self.first_dirty = offset

    def swap(self, request: SwapSegments, now_ms: int) -> bool:
        """Replace segments by a cleaned one, which the cleaner has already synced; False if they
        have changed or are gone. Raises OSError; unless it is NothingSwapped, some files may be
        renamed, and recovery finishes the swap."""
        found = self.segments.listed(request.replaced)
        if self.role.paused or found is None or not files_unchanged(self.folder, request):
            return False
        bases, deleted = [base for base, _, _ in request.replaced], list[str]()
        self.published.publish(changing=True)
        try:
            for _ in swap_steps(self.folder, bases[0], bases, deleted):
                crash_point("compaction: step of the swap")
        except (CleanedFilesGone, NothingSwapped) as error:
            self.published.publish(changed=True)
            if isinstance(error, NothingSwapped):
                raise
            return False
        self.segments.replace(found, request, deleted, now_ms)
        self.published.publish(changed=True)
        return True

    # --- moving to another log dir -------------------------------------------------------------------------

    def relocate(self, folder: str, reserve_max_bytes: int, now_ms: int) -> None:
        """Continue, while paused, in a folder that holds the same files, all on disk; the old one
        is removed later. Raises OSError."""
        self.segments.unsynced.drop()
        self.active.close_files()
        gone = self._leave_folder()  # before readers list the segments again: a late one finds none
        self.epochs.folder = folder
        self.epochs.write()  # roles may have changed since they were copied
        self.segments.relocate(folder, reserve_max_bytes)
        self.role.end_pause()
        self.published.publish(SlotState.ONLINE, durable=self.recovery_point, changed=True)
        self.durability.publish(self.log_end, self.active.base_offset, self.active.position)
        self.segments.delete_later(gone, now_ms)

    def _leave_folder(self) -> list[str]:
        """Rename the folder for removal; its new path, none if that failed."""
        try:
            return [self.segments.mark_folder_deleted(self.topic, self.partition)]
        except OSError as error:  # of a disk that is left because it fails; the next start removes it
            log.error("%s is not removed: %s", self.folder, error)
            return []

    # --- the end -------------------------------------------------------------------------------------------

    def close(self, sync: bool = True) -> ClosedLog | None:
        """Close cleanly: write the last index entry and the producer snapshot, sync everything, and
        free the slot. Returns the state from which the next start opens the log without reading it,
        if possible. With sync=False the caller syncs the file system once for many logs, before it
        records a clean shutdown."""
        if not self.is_open:
            return None
        self.active.stop_appends()
        changed = not self.durability.is_synced or self.segments.unsynced.names
        state = self.segments.finish()
        loaded = LoadedLog(
            closed=self.segments.closed,
            active=state,
            log_start=self.log_start,
            recovery_point=state.next_offset,
            epochs=self.epochs,
            producers=self.producers.entries(),
            first_unstable=self.active.first_unstable,
        )
        names = os.listdir(self.folder)  # noqa: PTH208  names are all it takes
        self.producers.last_snapshot(names, sync)
        if sync and changed:
            self.durability.begin_last().run()
        self._release(SlotState.FREE, durable=state.next_offset)
        return loaded_log.describe((self.topic, self.partition), self.folder, self.topic_id, names, loaded)

    def abandon(self, state: int = SlotState.OFFLINE) -> None:
        """Close the files without writing: the log dir has failed, or the partition is deleted."""
        if self.is_open:
            self.active.stop_appends()
            self._release(state)

    def _release(self, state: int, durable: int | None = None) -> None:
        self.published.publish(state, durable=durable)
        self.segments.close()
        self.producers.drop()

    def delete(self, now_ms: int) -> str:
        """Close the log, rename its folder for removal after file.delete.delay.ms; its new path.
        The caller syncs the log dir."""
        self.abandon(SlotState.DELETED)
        target = self.segments.mark_folder_deleted(self.topic, self.partition)
        crash_point("delete topic: folder renamed")
        self.segments.delete_later([target], now_ms)
        return target


def open_log(
    spec: LogSpec,
    loaded: LoadedLog,
    leader_epoch: int,
    producers: ProducerTable,
    deletions: Deletions,
    now_ms: int,
) -> UnifiedLog:
    """Compose a loaded log, bring it online. producers: of all logs; deletions: its own. Raises
    OSError."""
    active = ActiveSegment(spec.row, spec.folder, spec.reserve_max_bytes)
    segments = LogSegments(spec.folder, spec.config, active, deletions)
    slot = LogSlot(spec.words, segments, loaded.epochs)
    opened = UnifiedLog(
        spec,
        segments,
        loaded.epochs,
        ProducerStateManager(producers, spec.slot, segments),
        slot,
        LogDurability(segments, slot),
        ReplicaRole(slot, segments, loaded.epochs, spec.leads, spec.replicated),
    )
    try:
        opened.bring_online(loaded, leader_epoch, spec.known_mark, now_ms)
    except OSError:  # its new leader epoch finds no room
        opened.abandon()
        raise
    return opened
