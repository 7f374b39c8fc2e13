"""One cleaning of one log: builds the offset map of the dirty part, then rewrites every group of
segments and has it swapped in.

Kafka's Cleaner. It reads and writes files; the log's IO worker decides which files belong to the
log.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from kbroker.cleaner import key_map_kernel as km
from kbroker.cleaner import retain_kernel as rk
from kbroker.cleaner.cleaned_segment import CleanedSegment, remove_unfinished
from kbroker.cleaner.grouping import Extent, group
from kbroker.cleaner.offset_map import OffsetMap
from kbroker.cleaner.rows import CleanStop, KeyMap, Retain
from kbroker.cleaner.segment_source import SegmentSource
from kbroker.cleaner.special_batch import SpecialFilter, map_special
from kbroker.cleaner.throttle import Throttle
from kbroker.cleaner.transactions import CleanedTransactions
from kbroker.ipc.cleaning_messages import CleaningJob, ClosedSegment, SwapSegments
from kbroker.kernels import search
from kbroker.kernels.memory import INT64_MAX
from kbroker.kernels.scan_rows import ScannedBatch
from kbroker.log import files
from kbroker.log.errors import CorruptLog
from kbroker.log.open_files import OpenFiles
from kbroker.log.reader import LogReader
from kbroker.log.transaction_index import AbortedTransaction, aborted_transactions
from kbroker.protocol.records import HEADER

ROWS = 2048
OPEN_FILES = 64
MIN_BUFFER = 1 << 16

Swap = Callable[[SwapSegments], bool]
Step = Callable[[str], None]


class LogChanged(Exception):
    """The IO worker refused a swap: the log was truncated, deleted from, or moved meanwhile."""


class MapTooSmall(Exception):
    """No batch of the dirty part fits into the offset map: cleaning would make no progress."""


class Cleaned(Struct):
    """The result of one cleaning. end: all offsets below are clean. map_bytes: bytes read for the
    offset map."""

    end: int = 0
    map_bytes: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_kept: int = 0
    without_key: int = 0
    swaps: int = 0
    utilization: float = 0.0


class LogCleaner:
    """Cleans log after log. Runs in: cleaner. Owner: one cleaner thread, whose offset map and
    buffers it holds.

    swap: asks the IO worker. step: called at each named step and for each buffer; raises to stop
    the cleaning.
    """

    def __init__(
        self, offset_map: OffsetMap, buffer_bytes: int, throttle: Throttle, swap: Swap, step: Step
    ) -> None:
        self.offset_map = offset_map
        self._buffer_bytes = max(buffer_bytes, MIN_BUFFER)
        self._throttle = throttle
        self._swap = swap
        self._step = step
        self._words: NDArray[np.int64] = Retain.row()
        self._rows: NDArray[np.int64] = ScannedBatch.declared(np.empty((ROWS, ScannedBatch.WORDS), np.int64))
        self._out: NDArray[np.uint8] = np.empty(self._buffer_bytes, np.uint8)
        self._flags: NDArray[np.uint8] = np.empty(self._buffer_bytes, np.uint8)
        self._lasts: NDArray[np.int64] = np.empty(0, np.int64)  # last offsets of producers, rising

    def clean(self, job: CleaningJob, now_ms: int) -> Cleaned:
        """Clean a log. Raises OSError, CorruptLog, LogChanged, MapTooSmall, and the exceptions of
        `step`; the log is complete after each."""
        remove_unfinished(job.folder)
        done = Cleaned()
        aborted = aborted_transactions(
            LogReader(job.folder, OpenFiles(OPEN_FILES)), job.segments[0].base_offset, job.upper
        )
        done.map_bytes = self._build_map(job, aborted)
        done.end = self.offset_map.latest + 1
        done.utilization = self.offset_map.utilization
        if done.end <= job.first_dirty:
            raise MapTooSmall(f"{job.folder}: the batch at offset {job.first_dirty}")
        words = self._words
        words[:] = 0
        horizon = now_ms + job.config.delete_retention_ms
        words[Retain.NOW] = now_ms
        # as in Kafka, no tombstone is ever removed if the sum exceeds a long
        words[Retain.NEW_HORIZON] = horizon if horizon <= INT64_MAX else rk.NO_HORIZON
        special = SpecialFilter(self.offset_map, CleanedTransactions(aborted), words, job.last_by_producer())
        last_offsets = sorted(offset for offset, _ in special.last_records.values() if offset >= 0)
        self._lasts = np.array(last_offsets, np.int64)
        segments = {segment.base_offset: segment for segment in job.segments}
        for bases in self._groups(job, done.end):
            self._step("group")
            self._clean_group(job, [segments[base] for base in bases], special, done)
        done.records_read, done.records_kept = (
            int(words[Retain.RECORDS_READ]),
            int(words[Retain.RECORDS_KEPT]),
        )
        done.without_key = int(words[Retain.WITHOUT_KEY])
        return done

    # --- offset map --------------------------------------------------------------------------------------

    def _build_map(self, job: CleaningJob, aborted: Sequence[AbortedTransaction]) -> int:
        """Enter as much of the dirty part as fits; returns the bytes read."""
        offset_map = self.offset_map
        offset_map.begin(job.first_dirty, job.upper)
        transactions = CleanedTransactions(entry for entry in aborted if entry.last_offset >= job.first_dirty)
        ends = [*(segment.base_offset for segment in job.segments[1:]), job.upper]
        read = 0
        for segment, end in zip(job.segments, ends, strict=True):
            if end <= job.first_dirty:
                continue
            path = files.path(job.folder, segment.base_offset, files.LOG)
            start = self._position(job, segment)
            with SegmentSource(path, segment.size, start, self._buffer_bytes, self._throttle.used) as source:
                full = self._map_segment(source, transactions)
                read += source.position - start
            if offset_map.latest >= end:
                raise CorruptLog(f"{path}: offset {offset_map.latest} is beyond the segment's end at {end}")
            if full:
                break
            offset_map.raise_latest(end - 1)  # an earlier cleaning may have left a gap at the end
        return read

    def _position(self, job: CleaningJob, segment: ClosedSegment) -> int:
        """A batch start of a segment at or before the first dirty offset."""
        if job.first_dirty <= segment.base_offset:
            return 0
        try:
            fd = os.open(files.path(job.folder, segment.base_offset, files.INDEX), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return 0
        try:
            return search.find_position(fd, os.fstat(fd).st_size, segment.base_offset, job.first_dirty)
        finally:
            os.close(fd)

    def _map_segment(self, source: SegmentSource, transactions: CleanedTransactions) -> bool:
        """Enter a segment; returns whether the map is full."""
        table, state = self.offset_map.table, self.offset_map.state
        while not source.done:
            self._step("map")
            source.fill()
            state[KeyMap.POSITION] = 0
            while (why := km.map_batches(source.buffer, source.filled, table, state)) == CleanStop.SPECIAL:
                at, size = int(state[KeyMap.POSITION]), int(state[KeyMap.NEXT_SIZE])
                if not map_special(source.batch(at, size), self.offset_map, transactions):
                    return True
                state[KeyMap.POSITION] += size
            if why == CleanStop.FULL:
                return True
            if why == CleanStop.DAMAGED:
                raise source.damaged(int(state[KeyMap.POSITION]))
            source.take(int(state[KeyMap.POSITION]), int(state[KeyMap.NEXT_SIZE]))
        return False

    # --- groups ------------------------------------------------------------------------------------------

    def _groups(self, job: CleaningJob, end: int) -> list[list[int]]:
        extents = [
            Extent(
                segment.base_offset,
                segment.size,
                _size(files.path(job.folder, segment.base_offset, files.INDEX)),
                _size(files.path(job.folder, segment.base_offset, files.TIME_INDEX)),
            )
            for segment in job.segments
            if segment.base_offset < end
        ]
        return group(extents, job.config.segment_bytes, job.config.segment_index_bytes, job.upper)

    def _clean_group(
        self, job: CleaningJob, segments: Sequence[ClosedSegment], special: SpecialFilter, done: Cleaned
    ) -> None:
        """Rewrite one group and have it swapped in, unless the file would not change."""
        self._words[Retain.CHANGED] = 0
        config, last = job.config, segments[-1]
        cleaned = CleanedSegment(
            job.folder, segments[0].base_offset, config.index_interval_bytes, config.segment_index_bytes, ROWS
        )
        try:
            self._step("created")
            last_used = max((segment.base_offset for segment in segments if segment.size), default=-1)
            replaced = []
            for segment in segments:
                # the last batch stays, if only as a header: by its offset recovery knows what the
                # file replaces
                keep_end = segment.size if segment.base_offset == last_used else -1
                replaced.append(self._clean_segment(job, segment, keep_end, cleaned, special, done))
            kept = special.transactions.take_kept()
            if len(segments) == 1 and not self._words[Retain.CHANGED]:
                return
            self._step("written")
            cleaned.finish(kept, last.modified_ms)
            done.bytes_written += cleaned.size
            self._step("synced")
            swap = SwapSegments(
                *(job.slot, job.generation, tuple(replaced), cleaned.inode, cleaned.size),
                *(cleaned.max_timestamp, last.modified_ms),
            )
            if not self._swap(swap):
                raise LogChanged(job.folder)
            done.swaps += 1
            files.sync_folder(job.folder)
            self._step("swapped")
        finally:
            cleaned.remove()  # under its .cleaned names; these are gone if it was swapped in

    def _clean_segment(
        self,
        job: CleaningJob,
        segment: ClosedSegment,
        keep_end: int,
        cleaned: CleanedSegment,
        special: SpecialFilter,
        done: Cleaned,
    ) -> tuple[int, int, int]:
        """Filter one segment into the cleaned one; (base offset, size, inode) of it."""
        words = self._words
        path = files.path(job.folder, segment.base_offset, files.LOG)
        with SegmentSource(path, segment.size, 0, self._buffer_bytes, self._throttle.used) as source:
            while not source.done:
                self._step("filter")
                source.fill()
                words[Retain.POSITION] = 0
                words[Retain.KEEP_END] = keep_end - source.position if keep_end >= 0 else -1
                self._filter_buffer(source, cleaned, special)
                self._flush(cleaned)
                source.take(int(words[Retain.POSITION]), int(words[Retain.NEXT_SIZE]))
            done.bytes_read += segment.size
            return segment.base_offset, segment.size, source.inode

    def _filter_buffer(
        self,
        source: SegmentSource,
        cleaned: CleanedSegment,
        special: SpecialFilter,
    ) -> None:
        words, state = self._words, self.offset_map.state
        while True:
            words[Retain.FILE_POSITION] = cleaned.size
            why = rk.filter_batches(
                *(source.buffer, source.filled, self._out, self._rows, self._flags),
                *(self._lasts, self.offset_map.table, state, words),
            )
            if why == CleanStop.TAKEN:
                return
            at, size = int(words[Retain.POSITION]), int(words[Retain.NEXT_SIZE])
            if why == CleanStop.DAMAGED:
                raise source.damaged(at)
            if why == CleanStop.OUT_FULL:
                if words[Retain.ROWS] == 0:
                    self._out, self._flags = np.empty(size, np.uint8), np.empty(size, np.uint8)
                self._flush(cleaned)
                continue
            left = special.filter(source.batch(at, size))
            if left is not None:
                self._append(cleaned, np.frombuffer(left, np.uint8))
            words[Retain.POSITION] += size

    def _append(self, cleaned: CleanedSegment, batch: NDArray[np.uint8]) -> None:
        """Add one batch to the output."""
        words = self._words
        if words[Retain.ROWS] == ROWS or words[Retain.OUT] + len(batch) > len(self._out):
            self._flush(cleaned)
            if len(batch) > len(self._out):
                self._out = np.empty(len(batch), np.uint8)
        at, n = int(words[Retain.OUT]), int(words[Retain.ROWS])
        self._out[at : at + len(batch)] = batch
        base, _, _, _, _, _, delta, _, largest, *_, records = HEADER.unpack_from(batch.data)
        row = self._rows[n]
        row[ScannedBatch.POSITION], row[ScannedBatch.SIZE] = cleaned.size + at, len(batch)
        row[ScannedBatch.BASE_OFFSET], row[ScannedBatch.LAST_OFFSET] = base, base + delta
        row[ScannedBatch.MAX_TIMESTAMP] = largest if records else -1
        words[Retain.OUT] += len(batch)
        words[Retain.ROWS] += 1

    def _flush(self, cleaned: CleanedSegment) -> None:
        words = self._words
        count, rows = int(words[Retain.OUT]), int(words[Retain.ROWS])
        if count:
            cleaned.append(self._out[:count], self._rows, rows)
            self._throttle.used(count)
        words[Retain.OUT] = words[Retain.ROWS] = 0
        words[Retain.FILE_POSITION] = cleaned.size


def _size(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except FileNotFoundError:
        return 0
