"""Scans one segment: checks every batch, rebuilds indexes, passes on rows. Kernels do the work
without the GIL.
"""

import os
import struct
import time
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from kbroker.config.topic import TopicConfig
from kbroker.io.files import segment
from kbroker.io.files.segment import ActiveState, SegmentFds
from kbroker.ipc.log_dir_errors import NO_ROOM
from kbroker.kernels import batches as bt
from kbroker.kernels import rebuild
from kbroker.kernels.memory import INT32_MAX
from kbroker.kernels.scan_rows import IndexCarry, ScannedBatch, ScanState, ScanStop
from kbroker.log import files, transaction_index
from kbroker.log.errors import CorruptLog, UnsupportedFormat
from kbroker.protocol import batch_layout as b

Rows = NDArray[np.int64]
Progress = Callable[[int], None]

BUFFER_BYTES = 1 << 20
HEADER_BUFFER_BYTES = 1 << 16
ROWS = 4096
UNNAMED: Final = files.TIME_INDEX + files.CLEANED
"""The time index of a segment whose indexes are being rebuilt: until they are complete one is
missing, and each start rebuilds them. With a part of a time index retention deletes too early."""
MAX_KNOWN_ROWS: Final = 1 << 13
"""Maximum of one log, 0.9 MB. The headers of a larger log are read again: that takes much less time
than its CRCs, and logs are loaded side by side."""
OLD_HEAD: Final = struct.Struct(">iI")
"""Head of a record of format 0 or 1 after its offset: length, and CRC-32 of the bytes after it."""
TORN = "the file ends within a batch"
FAULTS = {
    ScanStop.TORN: TORN,
    ScanStop.BAD_LENGTH: "an impossible length",
    ScanStop.BAD_MAGIC: "an unknown magic",
    ScanStop.BAD_CRC: "a CRC that does not match",
    ScanStop.BAD_OFFSET: "an offset that goes back, too far ahead or into the next segment",
    ScanStop.BAD_COUNT: "an impossible record count",
}


class Scanned(Struct):
    """The result of a scan: bytes of good batches, offset after them, and the fault there (None:
    none up to the end)."""

    position: int
    next_offset: int
    fault: str | None = None


class Scan:
    """Rows of a segment file in chunks. Runs in: io, in any thread. Iterating gives (rows, count);
    then see `result`.

    start, lowest_offset: first byte to check, and the minimum offset of its batch. next_base:
    offset that no record may reach, as it begins the next segment. crc_from: byte from which on
    CRCs are checked (none covers a base offset), None for headers only. progress is called with the
    bytes of each chunk.
    """

    def __init__(
        self,
        fd: int,
        end: int,
        segment_base: int,
        *,
        start: int = 0,
        lowest_offset: int | None = None,
        next_base: int | None = None,
        crc_from: int | None = 0,
        progress: Progress | None = None,
        chunk_rows: int = ROWS,
    ) -> None:
        self._chunk_rows = chunk_rows
        self._fd = fd
        self._end = end
        # the indexes hold offsets relative to the base, as int32
        self._highest = segment_base + INT32_MAX
        if next_base is not None:
            self._highest = min(self._highest, next_base - 1)
        self._crc_from = crc_from
        self._progress = progress
        self.result = Scanned(start, segment_base if lowest_offset is None else lowest_offset)

    def __iter__(self) -> Iterator[tuple[Rows, int]]:
        """Raises OSError, UnsupportedFormat."""
        rows = ScannedBatch.declared(np.empty((self._chunk_rows, ScannedBatch.WORDS), np.int64))
        state = ScanState.row()
        state[ScanState.NEXT_POSITION], state[ScanState.NEXT_OFFSET] = (
            self.result.position,
            self.result.next_offset,
        )
        buffer = np.empty(BUFFER_BYTES if self._crc_from is not None else HEADER_BUFFER_BYTES, np.uint8)
        while True:
            position = int(state[ScanState.NEXT_POSITION])
            check = self._crc_from is not None and position >= self._crc_from
            # headers below crc_from are read up to it, so that the check begins at a batch
            end = self._end if check or self._crc_from is None else min(self._crc_from, self._end)
            count = bt.scan(self._fd, end, self._highest, self._chunk_rows, check, buffer, rows, state)
            self.result = Scanned(int(state[ScanState.NEXT_POSITION]), int(state[ScanState.NEXT_OFFSET]))
            if self._progress:
                self._progress(self.result.position - position)
            if count:
                yield rows, count
            stop = int(state[ScanState.STOP])
            if stop == ScanStop.MORE or (stop == ScanStop.END and end < self._end):
                continue
            if stop == ScanStop.NEED_BUFFER:
                buffer = np.empty(int(state[ScanState.NEXT_SIZE]) + bt.CONTROL_PEEK, np.uint8)
                continue
            if stop == ScanStop.TORN and end < self._end:  # no batch begins at crc_from
                self._crc_from = self.result.position
                continue
            self._stop(stop)
            return

    def _stop(self, stop: int) -> None:
        if stop == ScanStop.READ_FAILED:
            os.pread(self._fd, 1, self.result.position)  # raises the error itself
            raise OSError(5, "read failed")
        if stop == ScanStop.OLD_MAGIC and not self._is_of_old_format():
            stop = ScanStop.BAD_MAGIC
        if stop == ScanStop.OLD_MAGIC:
            raise UnsupportedFormat(
                f"byte {self.result.position}: message format 0 or 1; only format 2 is read"
            )
        self.result.fault = FAULTS.get(stop)

    def _is_of_old_format(self) -> bool:
        """Whether a record of format 0 or 1 is where the scan has stopped: its CRC matches. A batch
        whose end a power cut has left as zeros has an old magic, too, and is damage."""
        start = self.result.position
        size, expected = OLD_HEAD.unpack(os.pread(self._fd, OLD_HEAD.size, start + b.LENGTH))
        position, end, crc = start + b.MAGIC, start + b.LENGTH_OVERHEAD + size, 0
        while position < end and (piece := os.pread(self._fd, min(BUFFER_BYTES, end - position), position)):
            crc = zlib.crc32(piece, crc)
            position += len(piece)
        return position == end and crc == expected


def rebuild_indexes(
    fds: SegmentFds,
    scan: Scan,
    base: int,
    config: TopicConfig,
    on_rows: Callable[[Rows, int], None] | None = None,
) -> ActiveState:
    """Run a scan that starts at byte 0 and rewrite both indexes (LogSegment.recover). The .log is
    not cut.

    on_rows is called with each chunk. The closing time index entry is left to `segment.finish`."""
    interval, limit = config.index_interval_bytes, config.segment_index_bytes
    carry = np.array((0, -1, base, -1, 0, 0), np.int64)
    added = np.zeros(2, np.int64)
    offsets = np.empty(8 * ROWS, np.uint8)
    times = np.empty(12 * ROWS, np.uint8)
    first_timestamp = -1
    for rows, count in scan:
        if int(rows[0, ScannedBatch.POSITION]) == 0:
            first_timestamp = int(rows[0, ScannedBatch.MAX_TIMESTAMP])
        at = carry[IndexCarry.INDEX_BYTES], carry[IndexCarry.TIME_INDEX_BYTES]
        rebuild.index_entries(rows, count, base, interval, limit, offsets, times, carry, added)
        files.pwrite_all(fds.index, offsets[: added[0]].tobytes(), int(at[0]))
        files.pwrite_all(fds.time_index, times[: added[1]].tobytes(), int(at[1]))
        if on_rows:
            on_rows(rows, count)
    since, largest, largest_offset, indexed, index_bytes, time_bytes = carry.tolist()
    segment.set_length(fds.index, index_bytes)
    segment.set_length(fds.time_index, time_bytes)
    return ActiveState(
        base_offset=base,
        position=scan.result.position,
        next_offset=scan.result.next_offset,
        index_bytes=index_bytes,
        time_index_bytes=time_bytes,
        since_index=since,
        max_timestamp=largest,
        max_timestamp_offset=largest_offset,
        last_indexed_timestamp=indexed,
        first_timestamp=first_timestamp,
    )


def resume(fds: SegmentFds, base: int, log_bytes: int) -> ActiveState | None:
    """The state from which appends continue, if indexes and batches are trusted: only the bytes
    after the last index entry are read. None if they are inconsistent, and the segment must be
    scanned."""
    ends = segment.read_ends(fds.index, fds.time_index, log_bytes)
    if ends is None:
        return None
    largest, largest_offset = ends.last_timestamp, base + ends.last_timestamp_relative
    # lowest: the entry's batch ends at the entry's offset; its base offset is not known
    scan = Scan(fds.log, log_bytes, base, start=ends.last_position, lowest_offset=base, crc_from=None)
    first_seen = False
    for rows, count in scan:
        if (
            ends.index_bytes
            and not first_seen
            and rows[0, ScannedBatch.LAST_OFFSET] != base + ends.last_relative
        ):
            return None
        first_seen = True
        best = int(np.argmax(rows[:count, ScannedBatch.MAX_TIMESTAMP]))
        if rows[best, ScannedBatch.MAX_TIMESTAMP] > largest:
            largest, largest_offset = (
                int(rows[best, ScannedBatch.MAX_TIMESTAMP]),
                int(rows[best, ScannedBatch.LAST_OFFSET]),
            )
    if scan.result.fault or scan.result.position != log_bytes:
        return None
    return ActiveState(
        base_offset=base,
        position=log_bytes,
        next_offset=scan.result.next_offset,
        index_bytes=ends.index_bytes,
        time_index_bytes=ends.time_index_bytes,
        since_index=log_bytes - ends.last_position,
        max_timestamp=largest,
        max_timestamp_offset=largest_offset,
        last_indexed_timestamp=ends.last_timestamp,
        first_timestamp=first_timestamp(fds.log, base, log_bytes),
    )


def first_timestamp(log_fd: int, base: int, log_bytes: int) -> int:
    """Largest timestamp of a segment's first batch, -1 when it is empty."""
    scan = Scan(log_fd, log_bytes, base, crc_from=None, chunk_rows=1)
    for rows, _ in scan:
        return int(rows[0, ScannedBatch.MAX_TIMESTAMP])
    return -1


def index_is_bad(folder: str, base: int, names: Collection[str]) -> bool:
    """Whether an index of a segment is missing, or its transaction index is impossible. names: of
    the folder's files. Raises OSError."""
    if any(files.file_name(base, each) not in names for each in (files.INDEX, files.TIME_INDEX)):
        return True
    if files.file_name(base, files.TXN_INDEX) not in names:
        return False
    try:
        return not transaction_index.is_sane(folder, base)
    except CorruptLog:
        return True


def name_time_index(folder: str, base: int) -> None:
    """All indexes of a segment are rebuilt: its time index gets its name. Raises OSError."""
    for suffix in (files.INDEX, files.TXN_INDEX, UNNAMED):
        with suppress(FileNotFoundError):  # few segments have a transaction index
            files.sync_file(files.path(folder, base, suffix))
    Path(files.path(folder, base, UNNAMED)).rename(files.path(folder, base, files.TIME_INDEX))


def next_offset_of(path: str, base: int) -> int:
    """Offset after the last batch of a segment file, from the batches' headers. Raises CorruptLog,
    OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        scan = Scan(fd, os.fstat(fd).st_size, base, crc_from=None)
        for _ in scan:
            pass
    finally:
        os.close(fd)
    if scan.result.fault:
        raise CorruptLog(f"{path}: byte {scan.result.position}: {scan.result.fault}")
    return scan.result.next_offset


class ScannedRows:
    """The rows of whole segments that a load has scanned, for the replay of the producers: small
    logs are read once. Runs in: io, in any thread. Owner: the loader of one log."""

    def __init__(self) -> None:
        self._rows: dict[int, list[Rows]] = {}
        self._room = MAX_KNOWN_ROWS

    def begin(self, base: int) -> None:
        """A scan of a segment begins; an earlier one does not count."""
        self.forget(base)
        self._rows[base] = []

    def add(self, base: int, rows: Rows, count: int) -> None:
        """Copy the next rows of a segment. If there are too many, the whole segment is
        forgotten."""
        if base not in self._rows:
            return
        if count > self._room:
            self.forget(base)
            return
        self._room -= count
        self._rows[base].append(ScannedBatch.declared(rows[:count].copy()))

    def forget(self, base: int) -> None:
        """Forget a segment."""
        self._room += sum(len(rows) for rows in self._rows.pop(base, ()))

    def of(self, base: int) -> list[Rows] | None:
        """Every batch of a segment in chunks, None if they are not known."""
        return self._rows.get(base)


def write_again(log: int, start: int, end: int, modified_ms: int) -> None:
    """Write the bytes of a .log from one position to another once more, if the file was changed in
    this boot of the host. After a failed sync the kernel keeps the pages as if they were on disk:
    the next sync would succeed without writing them. On a full disk, where even this may need room,
    they stay as they are. log: its descriptor. Raises OSError."""
    booted_s = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    if modified_ms < booted_s * 1000 or start >= end:
        return
    status = os.fstat(log)
    try:
        while start < end:
            data = os.pread(log, min(BUFFER_BYTES, end - start), start)
            start += os.pwrite(log, data, start)
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
    os.utime(log, ns=(status.st_atime_ns, status.st_mtime_ns))  # retention goes by it
