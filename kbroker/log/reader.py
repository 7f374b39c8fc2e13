"""Read-only view of one partition's folder: where an offset is, and the file range a fetch takes
from there."""

import errno
import os
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kbroker.kernels import search
from kbroker.kernels.memory import INT64_MAX
from kbroker.kernels.scan_rows import FoundPlace, Located
from kbroker.kernels.search import OFFSET_ENTRY_BYTES
from kbroker.log import files
from kbroker.log.errors import CorruptLog
from kbroker.log.open_files import OpenFile, OpenFiles
from kbroker.protocol import batch_layout as b

WHOLE_LOG = (1 << 62, 0)  # an end after every segment
UNKNOWN_INODE = -1


class BatchPosition(NamedTuple):
    """A batch in a segment: byte position and size, first and last offset."""

    segment_base: int
    position: int
    base_offset: int
    last_offset: int
    size: int


class FileRange(NamedTuple):
    """Bytes of a segment file. Keep `file` as long as `file.fd` is in use (see OpenFile)."""

    file: OpenFile
    position: int
    length: int


class SegmentView(NamedTuple):
    """One segment as far as a reader may see it: bytes [0, end). last: the one that holds the
    reader's end."""

    base_offset: int
    log: OpenFile
    end: int
    last: bool


class Walked(NamedTuple):
    """A walk over a segment's batches and its result: the largest timestamp, the last offset of the
    first batch with it, and the byte at which the walk ended."""

    base_offset: int
    timestamp: int
    last_offset: int
    end: int


class LargestTimestamp(NamedTuple):
    """The result of `largest_in` for a closed segment with these contents (see OpenFile). The log
    of a replica that leads again may have been cut there, and have grown, since it was read."""

    contents: tuple[int, int]
    found: tuple[int, int]


class LogReader:
    """Log of one partition for reading. Runs in: network, control, tools. Owner: its creator. Not
    thread-safe.

    An end (end_base, end_position) is the first byte that must not be seen: the segment and
    position of the high watermark (Slot.HW_BASE, HW_POSITION) or the end of the log
    (Slot.ACTIVE_BASE, ACTIVE_END); WHOLE_LOG for a folder that no broker has open. version:
    Slot.SEGMENTS_VERSION read in the same group; the list of segments is read again when it
    changes, or when a file turns out to be gone.
    """

    def __init__(self, folder: str, open_files: OpenFiles) -> None:
        self.folder = folder
        self.open_files = open_files
        self.max_timestamps: dict[int, LargestTimestamp] = {}  # of closed segments: see log/timestamps.py
        self.walked: Walked | None = None  # of the active segment: see log/timestamps.py
        self.transaction_indexes: frozenset[int] | None = None  # see log/transaction_index.py
        self._version: int | None = None
        self._segments: list[files.SegmentFile] = []
        self._bases: list[int] = []
        self._place = FoundPlace.row()

    def base_offsets(self, version: int = -1) -> list[int]:
        """Base offsets of all segments, ascending."""
        if version != self._version:
            self.refresh(version)
        return self._bases

    def is_outdated(self, version: int) -> bool:
        """Whether the segments have changed since they were listed."""
        return self._version not in (None, version)

    def refresh(self, version: int = -1) -> None:
        """List the segments again and forget files that were replaced. Raises FileNotFoundError."""
        segments = files.list_segments(self.folder)
        kept = set(segments)
        for gone in self._segments:
            if gone not in kept:
                self.open_files.forget(self.folder, gone.base_offset)
                self.max_timestamps.pop(gone.base_offset, None)
        # the last of the old list may have been active, its largest timestamp not final
        if self._bases:
            self.max_timestamps.pop(self._bases[-1], None)
        self.walked = None  # the segment may have been truncated
        self.transaction_indexes = None
        self._segments = segments
        self._bases = [segment.base_offset for segment in segments]
        self._version = version

    def assume(self, bases: list[int], version: int) -> None:
        """Take the segments from their owner: the folder may have very many names."""
        self._segments = [files.SegmentFile(base, UNKNOWN_INODE) for base in bases]
        self._bases, self._version = bases, version

    def locate(
        self, offset: int, end_base: int, end_position: int, version: int = -1
    ) -> BatchPosition | None:
        """The first batch that holds `offset` or, in a gap of a compacted log, follows it; None at
        the end.

        Raises CorruptLog, OSError."""
        if (place := self._locate_at_once(offset, end_base, end_position, version)) is not None:
            return place
        for view in self.views(offset, end_base, end_position, version):
            if place := self._locate_in(view, offset):
                return place
        return None

    def range(
        self,
        place: BatchPosition,
        max_bytes: int,
        end_base: int,
        end_position: int,
        min_one: bool = False,
    ) -> FileRange | None:
        """The bytes that a fetch from `place` sends: bytes of that one segment, cut at max_bytes
        (inside a batch, too, as Kafka does). min_one: at least the whole first batch (KIP-74). None
        when there is nothing to send."""
        log = self.open_files.get(self.folder, place.segment_base, files.LOG)
        end = end_position if place.segment_base == end_base else log.size()
        limit = max(max_bytes, place.size) if min_one else max_bytes
        length = min(limit, end - place.position)
        return FileRange(log, place.position, length) if length > 0 else None

    def views(
        self, offset: int, end_base: int, end_position: int, version: int = -1
    ) -> Iterator[SegmentView]:
        """Segments that may hold `offset` or a later one, up to the end. If a file has vanished
        meanwhile, the segments are listed again; if compaction has put its records into an earlier
        segment, that segment is yielded, perhaps for the second time."""
        bases = self.base_offsets(version)
        if end_base != WHOLE_LOG[0] and not self._knows(end_base):
            self.refresh(version)
            bases = self._bases
        i = max(bisect_right(bases, offset) - 1, 0)
        while i < len(bases) and bases[i] <= end_base:
            base = bases[i]
            try:
                log = self._open_log(i)
            except FileNotFoundError:
                self.refresh(version)
                bases = self._bases
                i = max(bisect_right(bases, base) - 1, 0)
                if bases and bases[i] == base:
                    raise  # listed but not there: no deletion explains it
                continue
            last = base == end_base or i + 1 == len(bases)
            yield SegmentView(base, log, end_position if base == end_base else log.size(), last)
            i += 1

    def index(self, base_offset: int, suffix: str) -> OpenFile | None:
        """A segment's index file, None when there is none, or when it belongs to a successor of the
        .log that is open (readers then walk)."""
        try:
            return self._open_index(base_offset, suffix)
        except FileNotFoundError:
            return None

    def _open_index(self, base_offset: int, suffix: str) -> OpenFile:
        """Raises FileNotFoundError, also when compaction has replaced the segment since its .log
        was opened: the new .log appears after the old indexes are removed, and before the new ones
        exist."""
        known = self.open_files.known(self.folder, base_offset, suffix)
        if known is not None:
            return known
        index = self.open_files.get(self.folder, base_offset, suffix)
        log = self.open_files.known(self.folder, base_offset, files.LOG)
        if (
            log is not None
            and Path(files.path(self.folder, base_offset, files.LOG)).stat().st_ino != log.inode
        ):
            self.open_files.forget(self.folder, base_offset)
            raise FileNotFoundError(errno.ENOENT, "replaced", files.path(self.folder, base_offset, suffix))
        return index

    def find_position(self, base_offset: int, offset: int) -> int:
        """A batch start at or before an offset of the segment, by its index. A damaged index may
        give any position >= 0."""
        index = self.index(base_offset, files.INDEX)
        return max(search.find_position(index.fd, index.size(), base_offset, offset), 0) if index else 0

    def offset_after(self, base_offset: int, position: int) -> int | None:
        """The base offset of a batch of the segment that begins at a byte position, or soon after
        it, by the index. None if the index has no such entry, or one that points between batches.
        Batches before the position have lower offsets."""
        index = self.index(base_offset, files.INDEX)
        if index is None:
            return None
        entry, low, high = b"", 0, index.size() // OFFSET_ENTRY_BYTES
        while low < high:
            middle = (low + high) // 2
            found = os.pread(index.fd, OFFSET_ENTRY_BYTES, middle * OFFSET_ENTRY_BYTES)
            place = int.from_bytes(found[4:])
            if 0 < place < position:  # 0: after the last entry
                low = middle + 1
            else:
                high, entry = middle, found if place else entry
        return self._base_offset_of(base_offset, entry) if entry else None

    def _base_offset_of(self, base_offset: int, entry: bytes) -> int | None:
        """The base offset of the batch that an entry of the index points to; None if there is no
        batch with the entry's offset."""
        log = self.open_files.get(self.folder, base_offset, files.LOG)
        header = os.pread(log.fd, b.HEADER_BYTES, int.from_bytes(entry[4:]))
        if len(header) < b.HEADER_BYTES or header[b.MAGIC] != b.MAGIC_V2:
            return None
        first = int.from_bytes(header[: b.LENGTH], signed=True)
        delta = int.from_bytes(header[b.LAST_OFFSET_DELTA : b.LAST_OFFSET_DELTA + 4], signed=True)
        return first if first + delta == base_offset + int.from_bytes(entry[:4], signed=True) else None

    def _knows(self, base_offset: int) -> bool:
        at = bisect_right(self._bases, base_offset) - 1
        return at >= 0 and self._bases[at] == base_offset

    def _open_log(self, i: int) -> OpenFile:
        """The log file of the i-th segment, as listed: not a successor of the same name."""
        segment = self._segments[i]
        log = self.open_files.get(self.folder, segment.base_offset, files.LOG)
        if log.inode != segment.inode:
            self.open_files.forget(self.folder, segment.base_offset)
            log = self.open_files.get(self.folder, segment.base_offset, files.LOG)
            self._segments[i] = files.SegmentFile(segment.base_offset, log.inode)
        return log

    def _locate_at_once(
        self, offset: int, end_base: int, end_position: int, version: int
    ) -> BatchPosition | None:
        """The common case in a few microseconds: the offset lies in the segment that the list
        names, and the files are those of the list. None in every other case."""
        bases = self._bases if version == self._version else self.base_offsets(version)
        i = bisect_right(bases, offset) - 1
        if i < 0 or bases[i] > end_base:
            return None
        base = bases[i]
        try:
            log = self.open_files.get(self.folder, base, files.LOG)
            index = self._open_index(base, files.INDEX)
        except FileNotFoundError:
            return None
        if log.inode != self._segments[i].inode:
            return None
        end = end_position if base == end_base else INT64_MAX
        if search.locate(log.fd, index.fd, -1, base, offset, 0, end, self._place) != Located.FOUND:
            return None
        return batch_position(base, self._place)

    def _locate_in(self, view: SegmentView, offset: int) -> BatchPosition | None:
        base, fd, place = view.base_offset, view.log.fd, self._place
        index = self.index(base, files.INDEX)
        found = Located.DAMAGED
        if index:
            found = search.locate(fd, index.fd, index.size(), base, offset, 0, view.end, place)
        if found == Located.DAMAGED:  # no index, or one that points between batches
            found = search.locate(fd, -1, 0, base, offset, 0, view.end, place)
        self.check(found, view)
        return batch_position(base, place) if found == Located.FOUND else None

    def check(self, found: int, view: SegmentView) -> None:
        """Raise what a search kernel reports."""
        if found == Located.READ_FAILED:
            os.pread(view.log.fd, 1, 0)  # raises the error itself
            raise OSError(errno.EIO, "read failed", files.path(self.folder, view.base_offset, files.LOG))
        if found == Located.DAMAGED:
            name = files.path(self.folder, view.base_offset, files.LOG)
            raise CorruptLog(f"{name}: something else than a batch of format 2 below byte {view.end}")


def batch_position(segment_base: int, place: NDArray[np.int64]) -> BatchPosition:
    """A BatchPosition from the words that a search kernel filled."""
    position, base_offset, last_offset, size = place.tolist()
    return BatchPosition(segment_base, position, base_offset, last_offset, size)
