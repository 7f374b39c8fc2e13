"""Tracks which records of an open log are on disk, and does their syncs. A crash can lose only the
records that are not on disk; durable acks wait for the syncs."""

import os
from collections.abc import Sequence
from contextlib import suppress

from msgspec import Struct

from kbroker.io.files.segment import SegmentFds
from kbroker.io.partition.log_segments import LogSegments
from kbroker.io.partition.log_slot import LogSlot
from kbroker.ipc.crash_point import crash_point
from kbroker.log import files


class FlushJob(Struct):
    """The files to sync so that everything below next_offset is on disk. The job owns its
    descriptors; `run` closes them.

    closed: base offset and open files of segments rolled since the last sync (their indexes and
    snapshot count, because recovery will not read them again), without files for one that an
    earlier process has rolled; active: descriptor of the active
    .log (its indexes are rebuilt), -1 to leave it out. segment_base, position: where next_offset
    lies. names: folder and file names, and the leader epoch that opening the log wrote, have not
    been synced yet.
    """

    folder: str
    closed: Sequence[tuple[int, SegmentFds | None]]
    active: int
    next_offset: int
    segment_base: int
    position: int
    records: int = 0
    names: bool = False

    @property
    def only_active(self) -> bool:
        """Whether the job is a single fdatasync of the active .log."""
        return self.active >= 0 and not self.closed and not self.names

    def run(self) -> None:
        """Raises OSError: after a failed sync nothing of the log dir can be trusted."""
        try:
            for base, fds in self.closed:
                if fds is not None:
                    os.fdatasync(fds.log)
                    os.fdatasync(fds.index)
                    os.fdatasync(fds.time_index)
                suffixes = files.SEGMENT_SUFFIXES if fds is None else (files.TXN_INDEX,)
                for suffix in (*suffixes, files.SNAPSHOT):
                    sync_if_exists(files.path(self.folder, base, suffix))
            if self.closed:
                sync_if_exists(files.path(self.folder, self.segment_base, files.SNAPSHOT))
            crash_point("sync: closed segments")
            if self.names:
                sync_if_exists(f"{self.folder}/{files.LEADER_EPOCH_CHECKPOINT}")
            if self.closed or self.names:
                files.sync_folder(self.folder)
            if self.names:
                files.sync_folder(files.log_dir_of(self.folder))
            if self.active >= 0:
                os.fdatasync(self.active)
            crash_point("sync: done, not published")
        finally:
            self.close()

    def close(self) -> None:
        """Close the descriptors of a job that is not run."""
        for _, fds in self.closed:
            if fds is not None:
                fds.close()
        self.closed = ()
        if self.active >= 0:
            os.close(self.active)
            self.active = -1


class LogDurability:
    """Runs in: io. Owner: the IO worker, by the log's UnifiedLog."""

    def __init__(self, segments: LogSegments, slot: LogSlot) -> None:
        self._segments = segments
        self._slot = slot

    def begin(self, rolled_only: bool = False) -> FlushJob:
        """A sync of everything appended so far; run it in any thread, then `finish`.

        rolled_only: only of the closed segments, whose end then is the recovery point (what Kafka
        does on a roll). Raises OSError, and nothing has begun."""
        segments, active = self._segments, self._segments.active
        log = -1 if rolled_only else active.duplicate_log()
        try:
            closed, names = segments.unsynced.duplicates(), segments.unsynced.names
        except OSError:
            if log >= 0:
                os.close(log)
            raise
        base = active.base_offset
        if rolled_only:
            return FlushJob(segments.folder, closed, -1, base, base, 0, names=names)
        return FlushJob(
            folder=segments.folder,
            closed=closed,
            active=log,
            next_offset=active.next_offset,
            segment_base=base,
            position=active.position,
            records=active.take_unflushed(),
            names=names,
        )

    def begin_last(self) -> FlushJob:
        """The sync of a log that is being closed, which includes the active segment's indexes."""
        segments, active = self._segments, self._segments.active
        closed = [*segments.unsynced.duplicates(), (active.base_offset, active.files.duplicate())]
        names = segments.unsynced.names
        return FlushJob(
            segments.folder, closed, -1, active.next_offset, active.base_offset, active.position, names=names
        )

    def finish(self, job: FlushJob) -> None:
        """Publish the durable offset after a job has run."""
        if self._segments.active.is_open:
            if job.names:
                self._segments.unsynced.names = False
            self._segments.unsynced.drop(below=job.segment_base)
            self._segments.fewer()
            self.publish(job.next_offset, job.segment_base, job.position)

    def flush(self) -> None:
        """Sync everything appended so far and publish it."""
        job = self.begin()
        job.run()
        self.finish(job)

    def publish(self, next_offset: int, segment_base: int, position: int) -> None:
        """The active segment is synced up to a position, that of next_offset. This counts only if
        older segments are synced, too. With write.caching=false it advances the high watermark."""
        slot, pending = self._slot, self._segments.unsynced.first_base
        if pending is not None and pending < segment_base:
            slot.publish(durable=max(slot.recovery_point, min(pending, next_offset)))
            return
        mark, place = None, None
        if slot.sync_moves_high_watermark(next_offset):
            mark, place = next_offset, (segment_base, position)
        slot.publish(high_watermark=mark, place=place, durable=max(slot.recovery_point, next_offset))

    @property
    def checkpointed(self) -> int:
        """The recovery point for its checkpoint file. Other threads call this, too.

        While indexes of the segment before it are not synced, it is a record lower. Else, if the
        log is rolled just there, a start after a power cut would not scan that segment, and use its
        indexes without their last entries: retention would delete it too early."""
        segments, point = self._segments, self._slot.recovery_point
        lower = segments.active.is_open and point > segments.first_unsynced_base
        return point - 1 if lower else point

    @property
    def is_synced(self) -> bool:
        """Whether nothing was appended since the last sync."""
        segments = self._segments
        rolled = segments.unsynced.first_base is not None
        return not rolled and self._slot.recovery_point >= segments.active.next_offset


def sync_if_exists(path: str) -> None:
    """fsync of a file that may have been deleted meanwhile."""
    with suppress(FileNotFoundError):
        files.sync_file(path)
