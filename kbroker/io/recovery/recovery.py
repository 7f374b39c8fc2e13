"""Loads a partition's log: without a scan after a clean shutdown, otherwise by scanning the
segments that may be torn.

Kafka's LogLoader. Works on files only (no shared memory, no worker state), so logs load in parallel
threads.
"""

import logging
import os
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kbroker.io.files import producer_snapshot
from kbroker.io.files.leader_epoch_cache import LeaderEpochFileCache
from kbroker.io.files.segment import (
    SLACK_BYTES,
    ActiveState,
    Segment,
    SegmentFds,
    finish,
    mark_deleted,
    open_files,
    truncate_after,
)
from kbroker.io.recovery import segment_scan
from kbroker.io.recovery.leftovers import clear_leftovers, has_leftovers
from kbroker.io.recovery.loaded_log import LoadedLog, LoadRequest, TrustedEnd
from kbroker.io.recovery.producer_replay import ProducerReplay
from kbroker.io.recovery.segment_scan import BUFFER_BYTES, TORN, UNNAMED, Scan, ScannedRows
from kbroker.ipc.crash_point import crash_point
from kbroker.kernels.scan_rows import ScannedBatch
from kbroker.kernels.search import find_position
from kbroker.log import files, transaction_index
from kbroker.log.errors import UnsupportedFormat
from kbroker.log.transaction_index import seal

log = logging.getLogger(__name__)

Rows = NDArray[np.int64]
UNSURE_BYTES = 16 << 20
"""Bytes at the end of a segment whose CRCs are checked even if the host has lost nothing. A killed
process may leave a part of its last write, and small logs cost nothing."""


class LogLoader:
    """Loads one log, once. Runs in: io, in any thread. Owner: the caller of `load`."""

    def __init__(self, request: LoadRequest) -> None:
        self.request = request
        self.folder = request.folder
        self.epochs = LeaderEpochFileCache.load(self.folder)
        self._segments: list[Segment] = []
        self._names: set[str] = set()
        self._reindexed: set[int] = set()  # segments whose .txnindex the replay writes
        self._unnamed: set[int] = set()  # segments whose time index has no name yet
        self._deleted: list[str] = []
        self._truncated = self._scanned = 0
        self._fault: str | None = None  # of the last scan
        self._states: dict[int, tuple[SegmentFds, ActiveState]] = {}
        self._rows = ScannedRows()

    def load(self) -> LoadedLog:
        """Raises OSError, CorruptLog (a log that is damaged after a clean shutdown, or has an old
        format)."""
        try:
            return self._load()
        finally:
            for fds, _ in self._states.values():
                fds.close()

    def _load(self) -> LoadedLog:
        request = self.request
        start = max(request.log_start, request.trusted_end.log_start if request.trusted_end else 0)
        self._list()
        if has_leftovers(self._names):
            for line in clear_leftovers(self.folder):
                log.info("%s: %s", self.folder, line)
            self._list()
        crash_point("recovery: leftovers cleared")
        before = {epoch for epoch, _ in self.epochs.entries}
        if self._segments and request.trusted_end is not None:
            self._trust(request.trusted_end)
        elif self._segments:
            self._scan_where_needed()
        active = self._resume_active(start)
        if active.next_offset < start:
            active = self._start_over(start)
        log_start = max(start, self._segments[0].base_offset)
        self.epochs.truncate_from_end(active.next_offset)
        self.epochs.truncate_from_start(log_start)
        if not before.issuperset(epoch for epoch, _ in self.epochs.entries):
            self.epochs.write()  # entries that a scan found; what was removed, the next start removes again
        crash_point("recovery: epochs written")
        replay = self._replay(active.next_offset)
        for base in self._unnamed:
            segment_scan.name_time_index(self.folder, base)
        crash_point("recovery: producers replayed")
        recovery_point = (
            active.next_offset if request.clean else min(request.recovery_point, active.next_offset)
        )
        if not request.config.write_caching:
            recovery_point = self._sync_all(active)
        return LoadedLog(
            closed=self._segments[:-1],
            active=active,
            log_start=log_start,
            recovery_point=recovery_point,
            epochs=self.epochs,
            producers=replay.entries(),
            first_unstable=replay.first_unstable_offset,
            ended=replay.ended,
            deleted=self._deleted,
            truncated_bytes=self._truncated,
            scanned_bytes=self._scanned,
            has_aborted=self._has_aborted(),
        )

    def _has_aborted(self) -> bool:
        if any(name.endswith(files.TXN_INDEX) for name in self._names):
            return True
        return any(Path(files.path(self.folder, base, files.TXN_INDEX)).exists() for base in self._reindexed)

    def _list(self) -> None:
        found: list[Segment] = []
        on_disk: dict[int, int] = {}
        self._names.clear()
        with os.scandir(self.folder) as entries:
            for entry in entries:
                self._names.add(entry.name)
                if entry.name.endswith(files.LOG) and (base := files.base_offset_of(entry.name)) is not None:
                    status = entry.stat()
                    found.append(Segment(base, status.st_size, status.st_mtime_ns // 1_000_000))
                    on_disk[base] = status.st_blocks * 512
        self._segments = sorted(found, key=lambda segment: segment.base_offset)
        if found and on_disk[self._segments[-1].base_offset] > self._segments[-1].size + SLACK_BYTES:
            active = self._segments[-1]  # a crash left blocks reserved after its end
            os.truncate(files.path(self.folder, active.base_offset, files.LOG), active.size)

    # --- which segments are scanned ---------------------------------------------------------------------

    def _scan_where_needed(self) -> None:
        """Scan segments: after an unclean stop, all from that of the recovery point on; otherwise
        those without an index."""
        first_dirty = len(self._segments)
        if not self.request.clean:
            point = self.request.recovery_point
            below = [n for n, segment in enumerate(self._segments) if segment.base_offset <= point]
            # without any epoch the checkpoint may have been lost by a power cut: the batches know
            # them all
            first_dirty = below[-1] if below and self.epochs.entries else 0
        for n, segment in enumerate(list(self._segments)):
            if n >= first_dirty:
                if self._scan(n):
                    return
            elif segment_scan.index_is_bad(self.folder, segment.base_offset, self._names):
                log.warning(
                    "%s: an index of segment %d is bad, rebuilding it", self.folder, segment.base_offset
                )
                if self._scan(n, unnamed=True):
                    return

    def _scan(self, n: int, unnamed: bool = False) -> bool:
        """Check the n-th segment and rebuild its indexes. At the first fault it is cut, and the
        segments after it are deleted; returns whether that was so. unnamed: the time index gets its
        name at the end of the load; no later start would scan the segment."""
        segment = self._segments[n]
        base = segment.base_offset
        is_last = n == len(self._segments) - 1
        next_base = None if is_last else self._segments[n + 1].base_offset
        self._forget(base)
        if unnamed:
            self._unnamed.add(base)
            Path(files.path(self.folder, base, files.TIME_INDEX)).unlink(missing_ok=True)
        fds = open_files(self.folder, base, UNNAMED if unnamed else files.TIME_INDEX)
        size = os.fstat(fds.log).st_size
        try:
            active, flushed = self._checked(fds, base, size, next_base)
            if not (self.request.same_boot or self.request.clean):
                segment_scan.write_again(fds.log, flushed, active.position, segment.modified_ms)
        except BaseException:
            fds.close()
            raise
        self._states[base] = (fds, active)
        self._reindexed.add(base)
        segment.size = active.position
        cut = size - active.position
        if cut:
            log.warning(
                "%s: segment %d: %s at byte %d, %d bytes cut, the log ends at offset %d",
                *(self.folder, base, self._fault, active.position, cut, active.next_offset),
            )
            # in this order: after a crash in between the next start finds the fault again, and no
            # gap
            self._drop_from(n + 1)
            os.ftruncate(fds.log, active.position)
            self._truncated += cut
        if not is_last:
            segment.max_timestamp = active.max_timestamp
            finish(fds, active)
            if cut == 0:
                self._forget(base)
        crash_point("recovery: segment scanned")
        return cut > 0

    def _checked(
        self, fds: SegmentFds, base: int, size: int, next_base: int | None
    ) -> tuple[ActiveState, int]:
        """The state that a scan of a segment has rebuilt, and the end of what was on disk.

        A killed process leaves part of a batch at the end of a file. Any other fault shows that the
        host has lost data (as when a device fails): then CRCs are checked as after a power cut.
        Otherwise a batch with a header but a lost end would stay before the fault."""
        flushed = self._flushed_position(fds, base, size)
        sure = max(flushed, size - UNSURE_BYTES) if self.request.same_boot else flushed
        for crc_from in dict.fromkeys((sure, flushed)):
            self._rows.begin(base)
            scan = Scan(fds.log, size, base, next_base=next_base, crc_from=crc_from, progress=self._count)
            active = segment_scan.rebuild_indexes(
                fds, scan, base, self.request.config, partial(self._note, base)
            )
            self._fault = scan.result.fault
            if self._fault is None or (self._fault == TORN and scan.result.position >= sure):
                break
        return active, flushed

    def _flushed_position(self, fds: SegmentFds, base: int, size: int) -> int:
        """Position up to which the records are below the recovery point: only their headers are
        read, their CRC is not checked."""
        point = self.request.recovery_point
        if point <= base:
            return 0
        position = self._indexed_position(fds, base, size)
        scan = Scan(fds.log, size, base, start=position, lowest_offset=base, crc_from=None)
        for rows, count in scan:
            below = int(np.searchsorted(rows[:count, ScannedBatch.LAST_OFFSET], point))
            if below < count:
                return int(rows[below, ScannedBatch.POSITION])
            position = scan.result.position
        return position

    def _indexed_position(self, fds: SegmentFds, base: int, size: int) -> int:
        """Position of the last indexed batch below the recovery point, 0 without one. The index of
        an active segment may not be on disk, so the entry counts only if there is such a batch, not
        longer than the topic takes, and its CRC matches."""
        point, index_bytes = self.request.recovery_point, os.fstat(fds.index).st_size
        position = find_position(fds.index, index_bytes, base, point - 1)
        if not 0 < position < size:
            return 0
        largest = max(BUFFER_BYTES, self.request.config.max_message_bytes)
        end = min(size, position + largest)  # beside a batch any length may be found
        scan = Scan(fds.log, end, base, start=position, crc_from=position, chunk_rows=1)
        try:
            found = next(iter(scan), None)
        except UnsupportedFormat:  # there is no batch: a byte of a record looks like an old magic
            return 0
        return position if found and int(found[0][0, ScannedBatch.LAST_OFFSET]) < point else 0

    def _note(self, base: int, rows: Rows, count: int) -> None:
        self._rows.add(base, rows, count)
        epochs = rows[:count, ScannedBatch.LEADER_EPOCH]
        if int(epochs.max()) > self.epochs.latest:
            for epoch, offset in zip(
                epochs.tolist(), rows[:count, ScannedBatch.BASE_OFFSET].tolist(), strict=True
            ):
                self.epochs.note(epoch, offset)

    def _count(self, scanned: int) -> None:
        self._scanned += scanned
        if self.request.progress:
            self.request.progress(scanned)

    # --- after the crash of a writer --------------------------------------------------------------------

    def _trust(self, end: TrustedEnd) -> None:
        """Cut the log at a published end without reading the bytes before it; scan it when the
        files do not fit that end."""
        bases = [segment.base_offset for segment in self._segments]
        if end.active_base in bases:
            n = bases.index(end.active_base)
            segment = self._segments[n]
            fds = open_files(self.folder, end.active_base)
            state = None
            if os.fstat(fds.log).st_size >= end.position:
                os.ftruncate(fds.log, end.position)
                truncate_after(fds.index, fds.time_index, end.next_offset - end.active_base)
                state = segment_scan.resume(fds, end.active_base, end.position)
            if state is not None and state.next_offset == end.next_offset:
                segment.size = end.position
                self._states[end.active_base] = (fds, state)
                self._reindexed.add(end.active_base)  # an end marker's index entry may be missing
                self._drop_from(n + 1)
                return
            fds.close()
        log.warning("%s: the published end %s does not fit the files, scanning them", self.folder, end)
        self._scan_where_needed()

    # --- the active segment -----------------------------------------------------------------------------

    def _resume_active(self, log_start: int) -> ActiveState:
        if not self._segments:
            return self._create(log_start)
        segment = self._segments[-1]
        base = segment.base_offset
        if base not in self._states:
            fds = open_files(self.folder, base)
            size = os.fstat(fds.log).st_size
            state = segment_scan.resume(fds, base, size)
            if state is None:
                fds.close()
                log.warning(
                    "%s: the active segment %d does not fit its indexes, scanning it", self.folder, base
                )
                self._scan(len(self._segments) - 1, unnamed=True)
            else:
                self._states[base] = (fds, state)
        return self._states[base][1]

    def _create(self, base: int) -> ActiveState:
        open_files(self.folder, base).close()
        self._segments.append(Segment(base, 0, self.request.now_ms))
        return ActiveState(base, 0, base, max_timestamp_offset=base)

    def _start_over(self, log_start: int) -> ActiveState:
        """Delete all segments of a log that ends below its start: files were lost, and the rest is
        useless (as in Kafka)."""
        log.warning(
            "%s: the log ends before its start offset %d, starting over", self.folder, self.request.log_start
        )
        self._drop_from(0)
        self.epochs.clear()
        return self._create(log_start)

    def _drop_from(self, n: int) -> None:
        """Delete segments, the last one first: after a crash in between there is no gap."""
        for segment in reversed(self._segments[n:]):
            self._forget(segment.base_offset)
            self._reindexed.discard(segment.base_offset)
            self._unnamed.discard(segment.base_offset)
            self._rows.forget(segment.base_offset)
            self._deleted += mark_deleted(self.folder, segment.base_offset)
        del self._segments[n:]

    def _forget(self, base: int) -> None:
        if base in self._states:
            self._states.pop(base)[0].close()

    # --- producers --------------------------------------------------------------------------------------

    def _replay(self, end_offset: int) -> ProducerReplay:
        request = self.request
        bases = [segment.base_offset for segment in self._segments]
        untouched = not self._reindexed and not self._deleted
        snapshots = files.snapshots_among(self._names) if untouched else files.list_snapshots(self.folder)
        strays = producer_snapshot.strays(snapshots, bases)
        for offset in strays:
            Path(files.path(self.folder, offset, files.SNAPSHOT)).unlink(missing_ok=True)
        left = [offset for offset in snapshots if offset not in strays]
        expired_before_ms = request.now_ms - request.producer_expiration_ms
        replay = ProducerReplay(self.folder, bases[0], expired_before_ms, request.known_mark)
        if request.clean and not snapshots and not self._reindexed:
            # written by a version without snapshots: no producers to load (as in Kafka)
            replay.offset = end_offset
        else:
            replay.load_snapshot(min(self._reindexed, default=end_offset), left)
        at_snapshot = replay.offset
        for base in self._reindexed:
            transaction_index.reset_index(self.folder, base)
        shapes = [(segment.base_offset, segment.size) for segment in self._segments]
        replay.segments(
            shapes, end_offset, aborted_in=self._reindexed, snapshot_at=bases[-2:], scanned=self._rows
        )
        for base in self._reindexed:
            seal(files.path(self.folder, base, files.TXN_INDEX))
        if end_offset > at_snapshot or (end_offset > 0 and request.clean and not snapshots):
            replay.snapshot(end_offset)
        return replay

    def _sync_all(self, active: ActiveState) -> int:
        synced_below = active.next_offset if self.request.clean else self.request.recovery_point
        ends = [*(segment.base_offset for segment in self._segments[1:]), sys.maxsize]
        for segment, end in zip(self._segments, ends, strict=True):
            if segment.base_offset in self._reindexed or end > synced_below:
                for suffix in files.SEGMENT_SUFFIXES:
                    with suppress(FileNotFoundError):  # few segments have a transaction index
                        files.sync_file(files.path(self.folder, segment.base_offset, suffix))
        files.sync_folder(self.folder)
        return active.next_offset


def load(request: LoadRequest) -> LoadedLog:
    """Load one log. Raises OSError, CorruptLog."""
    return LogLoader(request).load()
