"""The log of one partition as its IO worker owns it: everything but the append itself, which the drain kernel
does.
"""

import logging
import os
import uuid
from pathlib import Path
from typing import NamedTuple

from kbroker.io.append import active_row
from kbroker.io.append.rows import AppendRow, AppendState
from kbroker.io.files import producer_snapshot, transaction_index
from kbroker.io.files.segment import Segment, exists, finish, largest_timestamp, mark_deleted
from kbroker.io.partition.replica_log import ReplicaLog
from kbroker.io.partition.retention import LogShape, above_size, below_log_start, too_old
from kbroker.io.partition.segment_swap import CleanedFilesGone, swap_steps
from kbroker.io.recovery import closed_logs
from kbroker.io.recovery.closed_logs import ClosedLog
from kbroker.io.recovery.loaded_log import LoadedLog
from kbroker.ipc.crash_point import crash_point
from kbroker.ipc.layout import SlotState
from kbroker.ipc.messages import SwapSegments
from kbroker.log import files
from kbroker.log.aborted_transactions import AbortedTransaction, seal
from kbroker.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)


class Description(NamedTuple):
    """One partition's log for DescribeLogDirs, metrics and people."""

    folder: str
    log_start: int
    high_watermark: int
    log_end: int
    recovery_point: int
    size: int
    segments: int
    leader_epochs: tuple[tuple[int, int], ...]


class Partition(ReplicaLog):
    """Log of one partition. Runs in: io. Owner: the IO worker. See OpenLog for what it holds."""

    # --- asked about the log -----------------------------------------------------------------------------

    @property
    def closed_segments(self) -> tuple[Segment, ...]:
        """All but the active one, oldest first."""
        return tuple(self._closed)

    @property
    def first_unsynced(self) -> int:
        """Base offset of the first segment that is not known to be on disk as a whole."""
        base = self._unsynced.first_base
        return int(self.row[AppendRow.BASE_OFFSET]) if base is None else base

    @property
    def checkpointed_log_start(self) -> int | None:
        """Log start for log-start-offset-checkpoint; None when it is the first segment's base offset."""
        return None if self.log_start_is_in_file_name(self.log_start) else self.log_start

    def log_start_is_in_file_name(self, log_start: int) -> bool:
        """Whether the first segment's name says that the log starts there."""
        return log_start <= self.base_offsets[0]

    def describe(self) -> Description:
        """A snapshot of the log's numbers."""
        return Description(
            folder=self.folder,
            log_start=self.log_start,
            high_watermark=self.high_watermark,
            log_end=self.log_end,
            recovery_point=self.recovery_point,
            size=self.size,
            segments=len(self._closed) + 1,
            leader_epochs=self.epochs.entries,
        )

    def end_offset_for(self, leader_epoch: int) -> tuple[int, int]:
        """OffsetForLeaderEpoch: (epoch, end offset), (-1, -1) when unknown."""
        return self.epochs.end_offset_for(leader_epoch, self.log_end)

    def segment_path(self, base_offset: int) -> str | None:
        """Path of a segment's .log, None when there is no such segment (any more)."""
        return files.path(self.folder, base_offset, files.LOG) if exists(self.folder, base_offset) else None

    def set_leader_epoch(self, leader_epoch: int) -> None:
        """Stamp appends with a newer epoch, which begins at the log's end."""
        self._lead(leader_epoch)
        self._publish()

    def index_aborted(self, aborted: AbortedTransaction) -> None:
        """Note an aborted transaction whose marker was appended to the active segment."""
        transaction_index.append(self.folder, int(self.row[AppendRow.BASE_OFFSET]), aborted)
        self.row[AppendRow.LAST_ABORTED] = max(aborted.last_offset, int(self.row[AppendRow.LAST_ABORTED]))

    def transaction_ended(self, first_unstable: int) -> None:
        """Publish the last stable offset after the end of a transaction. first_unstable: where the earliest
        one that is open began, -1 when there is none."""
        self.row[AppendRow.FIRST_UNSTABLE] = first_unstable
        self._publish()

    # --- deleting ----------------------------------------------------------------------------------------

    def delete_records(self, offset: int) -> int:
        """Advance the log start (-1: to the high watermark); returns it. Segments below go with the next retention
        run. Raises OFFSET_OUT_OF_RANGE beyond the high watermark, NOT_LEADER_OR_FOLLOWER while paused."""
        if self.paused:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        target = self.high_watermark if offset == -1 else offset
        if not 0 <= target <= self.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset}, the high watermark is {self.high_watermark}"
            )
        self.advance_log_start(target)
        crash_point("delete records: log start advanced")
        return self.log_start

    def retention(self, now_ms: int) -> int:
        """Delete segments below the log start and, with cleanup.policy=delete, by size and age; returns the number."""
        if self.paused:
            return 0
        deleted = self._delete_oldest(below_log_start(self._shape()), now_ms)
        if self.config.delete:
            deleted += self._delete_oldest(above_size(self._shape(), self.config.retention_bytes), now_ms)
            old = too_old(self._shape(), self.config.retention_ms, now_ms, self._largest_timestamp)
            deleted += self._delete_oldest(old, now_ms)
        return deleted

    def _shape(self) -> LogShape:
        sizes = [*(segment.size for segment in self._closed), int(self.row[AppendRow.POSITION])]
        return LogShape(self.base_offsets, sizes, self.log_start, self.log_end, self.high_watermark)

    def _largest_timestamp(self, n: int) -> int:
        if n < len(self._closed):
            return largest_timestamp(self.folder, self._closed[n])
        largest = int(self.row[AppendRow.MAX_TIMESTAMP])
        return largest if largest >= 0 else int(self.row[AppendRow.LAST_APPEND_MS]) or self._created_ms

    def _delete_oldest(self, count: int, now_ms: int) -> int:
        if count == 0:
            return 0
        if count > len(self._closed):
            self.roll(now_ms)
        gone, self._closed = self._closed[:count], self._closed[count:]
        # the log start goes ahead of the files, so that no reader is sent to a segment that is being renamed
        self.advance_log_start(self.base_offsets[0])
        crash_point("retention: log start advanced")
        self._unsynced.drop(below=self.base_offsets[0])
        paths = [path for segment in gone for path in mark_deleted(self.folder, segment.base_offset)]
        self._deletions.add(paths, now_ms + self.config.file_delete_delay_ms)
        self.row[AppendRow.OTHER_BYTES] = sum(segment.size for segment in self._closed)
        self._publish(changed=True)
        log.info(
            "%s: deleted %d segments, the log starts at offset %d", self.folder, len(gone), self.log_start
        )
        return len(gone)

    def give_back(self, most: int) -> None:
        """Free the blocks that are reserved after the log's end. most: as of `begin_reserving`. Raises
        OSError."""
        os.ftruncate(self._open_fds().log, int(self.row[AppendRow.POSITION]))
        active_row.begin_reserving(self.row, most)

    # --- compacting --------------------------------------------------------------------------------------

    def swap(self, request: SwapSegments, now_ms: int) -> bool:
        """Put a cleaned segment in the place of those it was made of; False when these are not there any more.

        The cleaner has it on disk already. Raises OSError: some files are renamed, recovery goes on from there."""
        bases = [base for base, _, _ in request.replaced]
        found = [segment for segment in self._closed if bases[0] <= segment.base_offset <= bases[-1]]
        wanted = [(base, size) for base, size, _ in request.replaced]
        same = [(segment.base_offset, segment.size) for segment in found] == wanted
        if self.paused or not same or not self._are(request):
            return False
        deleted: list[str] = []
        self._publish(changing=True)
        try:
            for _ in swap_steps(self.folder, bases[0], bases, deleted):
                crash_point("compaction: step of the swap")
        except CleanedFilesGone:
            self._publish(changed=True)
            return False
        at = self._closed.index(found[0])
        new = Segment(bases[0], request.size, request.modified_ms, request.max_timestamp)
        self._closed[at : at + len(found)] = [new]
        self._deletions.add(deleted, now_ms + self.config.file_delete_delay_ms)
        self.row[AppendRow.OTHER_BYTES] = sum(segment.size for segment in self._closed)
        self._publish(changed=True)
        return True

    def _are(self, request: SwapSegments) -> bool:
        """Whether the files are the very ones that the cleaner read and wrote, not successors of the same names."""
        paths = [(files.path(self.folder, base, files.LOG), inode) for base, _, inode in request.replaced]
        cleaned = files.path(self.folder, request.replaced[0][0], files.LOG + files.CLEANED)
        try:
            return all(
                Path(path).stat().st_ino == inode for path, inode in [*paths, (cleaned, request.inode)]
            )
        except FileNotFoundError:
            return False

    # --- moving to another log dir -----------------------------------------------------------------------

    _was_full = False

    @property
    def active_bytes(self) -> int:
        """Bytes of the active segment that hold whole batches."""
        return int(self.row[AppendRow.POSITION])

    def pause(self) -> None:
        """Nothing is appended, copied, deleted or read from now on: NOT_LEADER_OR_FOLLOWER, as while a log is
        recovered. Roles may change meanwhile."""
        self._was_full = self.row[AppendRow.STATE] == AppendState.DISK_FULL
        self.paused = True
        self.row[AppendRow.STATE] = AppendState.CLOSED
        self._publish(SlotState.RECOVERING)

    def resume(self) -> None:
        """Go on where `pause` left off."""
        self.paused = False
        self.let_append()
        if self._was_full:
            self.row[AppendRow.STATE] = AppendState.DISK_FULL
        self._publish(SlotState.ONLINE)

    def relocate(self, folder: str, now_ms: int) -> None:
        """Go on, while paused, in a folder that holds the same files, all on disk; the old one is removed later.
        Raises OSError."""
        state, old = active_row.state_of(self.row), Path(self.folder)
        self._unsynced.drop()
        self.rest()
        gone = self._put_away(old)  # before readers list the segments again: a late reader finds none
        self.folder = self.epochs.folder = folder
        self.epochs.write()  # roles may have changed since they were copied
        self.open_files()
        self._names_synced = True
        active_row.begin_reserving(self.row, self.reserve_most)
        self._reader = None
        self.paused = False
        self.let_append()
        self._publish(SlotState.ONLINE, durable=self.recovery_point, changed=True)
        self.publish_durable(state.next_offset, state.base_offset, state.position)
        self._deletions.add(gone, now_ms + self.config.file_delete_delay_ms)

    def _put_away(self, old: Path) -> list[str]:
        name = files.dated_folder_name(self.topic, self.partition, uuid.uuid4().hex, files.DELETE_FOLDER)
        try:
            return [str(old.rename(old.with_name(name)))]
        except OSError as error:  # of a disk that is left because it fails; the next start removes it
            log.error("%s is left behind: %s", old, error)
            return []

    # --- the end -----------------------------------------------------------------------------------------

    def close(self, sync: bool = True) -> ClosedLog | None:
        """Clean close: all on disk, last index entry, producer snapshot; the slot is free afterwards. Returns
        what spares the next start the reading of it, if that is possible.

        sync=False leaves the syncing to the caller, who syncs the file system once for many logs before it says
        that the stop was clean."""
        if not self._online:
            return None
        self.row[AppendRow.STATE] = 0
        state = active_row.state_of(self.row)
        changed = not self.is_synced or not self._names_synced
        fds = self._open_fds()
        finish(fds, state)
        seal(files.path(self.folder, state.base_offset, files.TXN_INDEX))
        loaded = LoadedLog(
            closed=self._closed,
            active=state,
            log_start=self.log_start,
            recovery_point=state.next_offset,
            epochs=self.epochs,
            producers=self._producers.entries(self.slot),
            first_unstable=int(self.row[AppendRow.FIRST_UNSTABLE]),
        )
        names = os.listdir(self.folder)  # noqa: PTH208  names are all it takes
        self._write_snapshot(names, loaded, sync)
        if sync and changed:
            self._unsynced.add(state.base_offset, fds)
            job = self.begin_flush()
            job.run()
        else:
            self._unsynced.add(state.base_offset, fds)
        self._release(SlotState.FREE, durable=state.next_offset)
        return closed_logs.describe((self.topic, self.partition), self.folder, self.topic_id, names, loaded)

    def _write_snapshot(self, names: list[str], loaded: LoadedLog, sync: bool) -> None:
        """The producers at the log's end, and no snapshot of an earlier close (loading would remove it)."""
        snapshots, end = files.snapshots_among(names), loaded.active.next_offset
        if end > (snapshots[-1] if snapshots else 0):
            producer_snapshot.write(self.folder, end, loaded.producers, sync)
            snapshots.append(end)
        for stray in producer_snapshot.strays(snapshots, self.base_offsets):
            Path(files.path(self.folder, stray, files.SNAPSHOT)).unlink(missing_ok=True)

    def delete(self, now_ms: int) -> str:
        """Close the log and rename its folder for removal after file.delete.delay.ms; returns the new path."""
        self.abandon(SlotState.DELETED)
        name = files.dated_folder_name(self.topic, self.partition, uuid.uuid4().hex, files.DELETE_FOLDER)
        folder = Path(self.folder)
        target = str(folder.rename(folder.with_name(name)))
        crash_point("delete topic: folder renamed")
        files.sync_folder(str(folder.parent))
        self._deletions.add([target], now_ms + self.config.file_delete_delay_ms)
        return target
