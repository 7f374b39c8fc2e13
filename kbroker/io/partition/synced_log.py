"""Syncing of an open log: tracks which of its records are on disk. This bounds the loss of a crash; durable
acks wait for it.
"""

import os

from kbroker.io.append import active_row
from kbroker.io.append.rows import AppendRow
from kbroker.io.partition.flush_job import FlushJob
from kbroker.io.partition.open_log import OpenLog
from kbroker.ipc.layout import Slot, SlotFlag


class SyncedLog(OpenLog):
    """Runs in: io. Owner: the IO worker."""

    def begin_flush(self, rolled_only: bool = False) -> FlushJob:
        """A sync of everything appended so far; run it in any thread, then `finish_flush`.

        rolled_only: of the closed segments alone, whose end then is the recovery point (what Kafka does on a roll)."""
        state = active_row.state_of(self.row)
        if rolled_only:
            base = state.base_offset
            return FlushJob(
                self.folder, self._unsynced.duplicates(), -1, base, base, 0, names=not self._names_synced
            )
        records = int(self.row[AppendRow.UNFLUSHED_RECORDS])
        self.row[AppendRow.UNFLUSHED_RECORDS] = 0
        return FlushJob(
            folder=self.folder,
            closed=self._unsynced.duplicates(),
            active=os.dup(self._open_fds().log),
            next_offset=state.next_offset,
            segment_base=state.base_offset,
            position=state.position,
            records=records,
            names=not self._names_synced,
        )

    def finish_flush(self, job: FlushJob) -> None:
        """Publish what a job that has run made durable."""
        if self.is_open:
            self._names_synced |= job.names
            self._unsynced.drop(below=job.segment_base)
            self.publish_durable(job.next_offset, job.segment_base, job.position)

    def flush(self) -> None:
        """Sync everything appended so far and publish it."""
        job = self.begin_flush()
        job.run()
        self.finish_flush(job)

    def publish_durable(self, next_offset: int, segment_base: int, position: int) -> None:
        """The active segment is synced up to a position, the place of next_offset. Counts only as far as older segments
        are synced, too. With write.caching=false this moves the high watermark."""
        pending = self._unsynced.first_base
        if pending is not None and pending < segment_base:
            self._publish(durable=max(self.recovery_point, min(pending, next_offset)))
            return
        mark, place = None, None
        flags = int(self.words[Slot.FLAGS]) & SlotFlag.ACKS_WAIT
        if flags == SlotFlag.DURABLE and next_offset > self.high_watermark:
            mark, place = next_offset, (segment_base, position)
        self._publish(high_watermark=mark, place=place, durable=max(self.recovery_point, next_offset))

    @property
    def is_synced(self) -> bool:
        """Whether nothing was appended since the last sync."""
        return self._unsynced.first_base is None and self.recovery_point >= self.log_end
