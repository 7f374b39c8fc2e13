"""Which records of an open log are on disk. This bounds the loss of a crash; durable acks wait for it."""

import os

from kbroker.io.partition.flush_job import FlushJob, duplicate
from kbroker.io.partition.log_segments import LogSegments
from kbroker.io.partition.log_slot import LogSlot
from kbroker.ipc.layout import SlotFlag


class LogDurability:
    """Runs in: io. Owner: the IO worker, by the log's UnifiedLog."""

    def __init__(self, segments: LogSegments, slot: LogSlot) -> None:
        self._segments = segments
        self._slot = slot

    def begin(self, rolled_only: bool = False) -> FlushJob:
        """A sync of everything appended so far; run it in any thread, then `finish`.

        rolled_only: of the closed segments alone, whose end then is the recovery point (what Kafka does on a roll)."""
        segments, active = self._segments, self._segments.active
        closed, names = segments.unsynced.duplicates(), segments.unsynced.names
        base = active.base_offset
        if rolled_only:
            return FlushJob(segments.folder, closed, -1, base, base, 0, names=names)
        return FlushJob(
            folder=segments.folder,
            closed=closed,
            active=os.dup(active.files.log),
            next_offset=active.next_offset,
            segment_base=base,
            position=active.position,
            records=active.take_unflushed(),
            names=names,
        )

    def begin_last(self) -> FlushJob:
        """The sync of a log that is being closed: of the active segment's indexes, too."""
        segments, active = self._segments, self._segments.active
        closed = [*segments.unsynced.duplicates(), (active.base_offset, duplicate(active.files))]
        names = segments.unsynced.names
        return FlushJob(
            segments.folder, closed, -1, active.next_offset, active.base_offset, active.position, names=names
        )

    def finish(self, job: FlushJob) -> None:
        """Publish what a job that has run made durable."""
        if self._segments.active.is_open:
            if job.names:
                self._segments.unsynced.names = False
            self._segments.unsynced.drop(below=job.segment_base)
            self.publish(job.next_offset, job.segment_base, job.position)

    def flush(self) -> None:
        """Sync everything appended so far and publish it."""
        job = self.begin()
        job.run()
        self.finish(job)

    def publish(self, next_offset: int, segment_base: int, position: int) -> None:
        """The active segment is synced up to a position, the place of next_offset. Counts only as far as older segments
        are synced, too. With write.caching=false this moves the high watermark."""
        slot, pending = self._slot, self._segments.unsynced.first_base
        if pending is not None and pending < segment_base:
            slot.publish(durable=max(slot.recovery_point, min(pending, next_offset)))
            return
        mark, place = None, None
        if slot.acks_wait_for == SlotFlag.DURABLE and next_offset > slot.high_watermark:
            mark, place = next_offset, (segment_base, position)
        slot.publish(high_watermark=mark, place=place, durable=max(slot.recovery_point, next_offset))

    @property
    def is_synced(self) -> bool:
        """Whether nothing was appended since the last sync."""
        segments = self._segments
        rolled = segments.unsynced.first_base is not None
        return not rolled and self._slot.recovery_point >= segments.active.next_offset
