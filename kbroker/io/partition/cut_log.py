"""Truncation of an open log: removes records that another leader never had, and remains of failed appends."""

import os
from bisect import bisect_right

import numpy as np

from kbroker.io.append import active_row
from kbroker.io.append.rows import AppendRow
from kbroker.io.files import index, transaction_index
from kbroker.io.files.segment import ActiveState, mark_deleted, open_files
from kbroker.io.partition.synced_log import SyncedLog
from kbroker.io.recovery.producer_replay import ProducerReplay
from kbroker.io.recovery.segment_scan import Scan, rebuild_indexes, resume
from kbroker.ipc.crash_point import crash_point
from kbroker.kernels import search
from kbroker.kernels.scan_rows import FoundPlace, Located


class CutLog(SyncedLog):
    """Runs in: io. Owner: the IO worker."""

    def truncate_to(self, offset: int, now_ms: int) -> None:
        """Remove every batch that holds or follows an offset; the log ends there then (LocalLog.truncateTo)."""
        if offset >= self.log_end:
            return
        self.row[AppendRow.STATE] = 0
        self.row[AppendRow.CUTS] += 1
        bases = self.base_offsets
        kept = bisect_right(bases, offset) - 1  # number of the segment that becomes active
        self._unsynced.add(bases[-1], self._open_fds())
        self._unsynced.drop(above=bases[kept] - 1 if kept >= 0 else -1)
        paths = [path for base in bases[kept + 1 :] for path in mark_deleted(self.folder, base)]
        self._deletions.add(paths, now_ms + self.config.file_delete_delay_ms)
        self._closed = self._closed[: max(kept, 0)]
        crash_point("truncate: segments deleted")
        if kept < 0:
            self._fds, state = (
                open_files(self.folder, offset),
                ActiveState(offset, 0, offset, max_timestamp_offset=offset),
            )
        else:
            state = self._cut(bases[kept], offset)
        self.log_start = min(self.log_start, offset)
        self.first_dirty = min(self.first_dirty, offset)
        if self.epochs.truncate_from_end(offset):
            self.epochs.write()
        crash_point("truncate: epochs written")
        active_row.fill(self.row, state, self._open_fds())
        self._start_segment(now_ms)
        self._reload_producers(now_ms)
        self.let_append()
        self.lowest_cut = min(self.lowest_cut, offset)
        self.cuts += 1
        mark = min(self.high_watermark, offset)
        self._publish(high_watermark=mark, durable=min(self.recovery_point, offset), changed=True)

    def _cut(self, base: int, offset: int) -> ActiveState:
        """Open a segment as the active one and cut it before the batch that holds an offset."""
        fds = self._fds = open_files(self.folder, base)
        size = os.fstat(fds.log).st_size
        place = np.zeros(FoundPlace.WORDS, np.int64)
        if search.locate(fds.log, -1, 0, base, offset, 0, size, place) == Located.FOUND:
            size = int(place[FoundPlace.POSITION])
        os.ftruncate(fds.log, size)
        crash_point("truncate: cut")
        index.cut_behind(fds.index, fds.time_index, offset - base)
        transaction_index.truncate(self.folder, base, offset)
        state = resume(fds, base, size)
        if state is None:
            scan = Scan(fds.log, size, base, crc_from=None)
            state = rebuild_indexes(
                fds, scan, base, self.config.index_interval_bytes, self.config.segment_index_bytes
            )
        state.next_offset = offset
        return state

    def repair(self, now_ms: int) -> None:
        """After a failed append: cut what it left after the published end, forget the producers' state of it,
        and let the drain kernel append again. Raises OSError when the files do not even take that."""
        fds, state = self._open_fds(), active_row.state_of(self.row)
        os.ftruncate(fds.log, state.position)
        os.ftruncate(fds.index, state.index_bytes)
        os.ftruncate(fds.time_index, state.time_index_bytes)
        self._reload_producers(now_ms)
        self.let_append()
        self._publish()

    def _reload_producers(self, now_ms: int) -> None:
        replay = ProducerReplay(self.folder, self.base_offsets[0], now_ms - self._producer_expiration_ms)
        replay.load_snapshot(self.log_end)
        shapes = [(segment.base_offset, segment.size) for segment in self._closed]
        shapes.append((int(self.row[AppendRow.BASE_OFFSET]), int(self.row[AppendRow.POSITION])))
        replay.segments(shapes, self.log_end)
        self._producers.drop(self.slot)
        for entry in replay.entries():
            self._producers.put(self.slot, entry)
        self.row[AppendRow.FIRST_UNSTABLE] = replay.first_unstable_offset

    def restart_at(self, offset: int, now_ms: int) -> None:
        """Remove everything and start again at an offset above the log's end
        (UnifiedLog.truncateFullyAndStartAt)."""
        self.row[AppendRow.STATE] = 0
        bases = self.base_offsets
        self._unsynced.add(bases[-1], self._open_fds())
        self._unsynced.drop()
        paths = [path for base in bases for path in mark_deleted(self.folder, base)]
        self._deletions.add(paths, now_ms + self.config.file_delete_delay_ms)
        self._closed = []
        self._fds = open_files(self.folder, offset)
        self.log_start = offset
        self.first_dirty = -1
        self.epochs.clear()
        self._producers.drop(self.slot)
        active_row.fill(
            self.row, ActiveState(offset, 0, offset, max_timestamp_offset=offset), self._open_fds()
        )
        self.row[AppendRow.FIRST_UNSTABLE] = -1
        self._start_segment(now_ms)
        self.let_append()
        self._publish(high_watermark=offset, durable=offset, changed=True)
