"""The files of one segment: .log, .index and .timeindex. Creates, opens for appending, finishes
them, and renames them for deletion.

For the entry formats and the rule of zero entries see kbroker/kernels/search.py. Both indexes only
speed up searches and can always be rebuilt from the .log.
"""

import ctypes
import os
import struct
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from kbroker.ipc.crash_point import crash_point
from kbroker.ipc.log_dir_errors import NO_ROOM
from kbroker.kernels.libc import FALLOC_FL_KEEP_SIZE
from kbroker.kernels.search import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES
from kbroker.log import files

SLACK_BYTES = 1 << 16  # blocks beyond the end of a .log that are not worth a truncation
_libc = ctypes.CDLL(None, use_errno=True)
_libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC


class Segment(Struct):
    """One segment as its partition knows it. For the active one the append row, not `size`, is
    authoritative.

    max_timestamp: None until it is needed (see `largest_timestamp`). modified_ms: of the .log
    file. first_timestamp: of the first batch, None until it is needed.
    """

    base_offset: int
    size: int
    modified_ms: int
    max_timestamp: int | None = None
    first_timestamp: int | None = None


class SegmentFds(Struct, frozen=True):
    """Open files of the active segment; closed by its partition."""

    log: int
    index: int
    time_index: int

    def duplicate(self) -> "SegmentFds":
        """New descriptors of the same open files. Raises OSError."""
        made: list[int] = []
        try:
            for fd in (self.log, self.index, self.time_index):
                made.append(os.dup(fd))
        except OSError:
            for fd in made:
                os.close(fd)
            raise
        return SegmentFds(*made)

    def close(self) -> None:
        for fd in (self.log, self.index, self.time_index):
            os.close(fd)


class ActiveState(Struct):
    """The state from which appending to a segment continues: the fields of its append row.
    max_timestamp_offset: last offset of the batch that raised it. first_timestamp: largest of the
    first batch, -1 when the segment is empty."""

    base_offset: int
    position: int
    next_offset: int
    index_bytes: int = 0
    time_index_bytes: int = 0
    since_index: int = 0
    max_timestamp: int = -1
    max_timestamp_offset: int = -1
    last_indexed_timestamp: int = -1
    first_timestamp: int = -1


def open_files(folder: str, base_offset: int, time_index: str = files.TIME_INDEX) -> SegmentFds:
    """Open (and create) a segment's files for appending. time_index: another suffix of it. Raises
    OSError."""
    opened: list[int] = []
    try:
        for suffix in (files.LOG, files.INDEX, time_index):
            opened.append(os.open(files.path(folder, base_offset, suffix), FLAGS, 0o644))
    except OSError:
        for fd in opened:
            os.close(fd)
        raise
    return SegmentFds(*opened)


def reserve(log_fd: int, length: int) -> None:
    """Reserve disk space for a .log up to a length without making the file longer, so that syncs
    need not wait for allocation. Without effect on a file system that cannot reserve."""
    _libc.fallocate(log_fd, FALLOC_FL_KEEP_SIZE, 0, length)


def finish(fds: SegmentFds, state: ActiveState) -> None:
    """Finish a segment that stops being active (LogSegment.onBecomeInactiveSegment): add the last
    time index entry, free preallocated space, cut indexes to their exact length."""
    if state.max_timestamp > state.last_indexed_timestamp:
        relative = state.max_timestamp_offset - state.base_offset
        state.time_index_bytes = append_time(
            fds.time_index, state.time_index_bytes, state.max_timestamp, relative
        )
        state.last_indexed_timestamp = state.max_timestamp
        crash_point("index: last time entry written")
    status = os.fstat(fds.log)
    if status.st_size != state.position or status.st_blocks * 512 > state.position + SLACK_BYTES:
        os.ftruncate(fds.log, state.position)
    set_length(fds.index, state.index_bytes)
    crash_point("index: .log and .index cut")
    set_length(fds.time_index, state.time_index_bytes)


def largest_timestamp(folder: str, segment: Segment) -> int:
    """Largest timestamp of a closed segment (ms), by its time index; the file's age when it has
    none (Kafka's LogSegment.largestTimestamp), so that records without timestamps expire too."""
    if segment.max_timestamp is None:
        last = last_time(files.path(folder, segment.base_offset, files.TIME_INDEX))
        segment.max_timestamp = last[0] if last else -1
    return segment.max_timestamp if segment.max_timestamp >= 0 else segment.modified_ms


def mark_deleted(folder: str, base_offset: int) -> list[str]:
    """Rename a segment's files and its producer snapshot to ``.deleted``; returns the new paths. If
    there is no room for a longer name, a file is removed at once: one that stayed would be the
    log's again after the next start. Raises OSError."""
    renamed = []
    for suffix in (*files.SEGMENT_SUFFIXES, files.SNAPSHOT):
        path = Path(files.path(folder, base_offset, suffix))
        try:
            renamed.append(str(path.rename(f"{path}{files.DELETED}")))
            crash_point("retention: file renamed")
        except FileNotFoundError:
            continue
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            path.unlink(missing_ok=True)
    return renamed


# --- indexes -----------------------------------------------------------------------------------------------

OFFSET = struct.Struct(">ii")
TIME = struct.Struct(">qi")
LOWEST_RELATIVE = -1


class IndexEnds(NamedTuple):
    """Valid bytes of both indexes of a segment, and their last entries (relative offset, position),
    (timestamp, relative offset); (-1, 0) and (-1, 0) where there is none."""

    index_bytes: int
    last_relative: int
    last_position: int
    time_index_bytes: int
    last_timestamp: int
    last_timestamp_relative: int


def read_ends(index_fd: int, time_index_fd: int, log_bytes: int) -> IndexEnds | None:
    """The ends of the entries of both indexes; None when one of them cannot be trusted: it points
    beyond ``log_bytes``, its entries do not rise, or its length fits no entries."""
    if os.fstat(index_fd).st_size % OFFSET_ENTRY_BYTES or os.fstat(time_index_fd).st_size % TIME_ENTRY_BYTES:
        return None
    index_bytes = _used(index_fd, OFFSET_ENTRY_BYTES)
    time_bytes = _used(time_index_fd, TIME_ENTRY_BYTES)
    relative, position = LOWEST_RELATIVE, 0
    if index_bytes:
        first = OFFSET.unpack(os.pread(index_fd, OFFSET_ENTRY_BYTES, 0))
        relative, position = OFFSET.unpack(
            os.pread(index_fd, OFFSET_ENTRY_BYTES, index_bytes - OFFSET_ENTRY_BYTES)
        )
        if (
            relative < first[0]
            or first[0] < 0
            or position < first[1]
            or first[1] <= 0
            or position >= log_bytes
        ):
            return None
    timestamp, timestamp_relative = -1, 0
    if time_bytes:
        first = TIME.unpack(os.pread(time_index_fd, TIME_ENTRY_BYTES, 0))
        timestamp, timestamp_relative = TIME.unpack(
            os.pread(time_index_fd, TIME_ENTRY_BYTES, time_bytes - TIME_ENTRY_BYTES)
        )
        if (
            timestamp < first[0]
            or first[0] < 0
            or timestamp_relative < first[1]
            or first[1] < 0
            or log_bytes == 0
        ):
            return None
    return IndexEnds(index_bytes, relative, position, time_bytes, timestamp, timestamp_relative)


def truncate_after(index_fd: int, time_index_fd: int, relative: int) -> None:
    """Remove entries whose relative offset is >= relative (AbstractIndex.truncateTo), and trailing
    zeros."""
    for fd, entry, key in ((index_fd, OFFSET, 0), (time_index_fd, TIME, 1)):
        low, high = 0, _used(fd, entry.size) // entry.size
        while low < high:
            middle = (low + high) // 2
            if entry.unpack(os.pread(fd, entry.size, middle * entry.size))[key] < relative:
                low = middle + 1
            else:
                high = middle
        set_length(fd, low * entry.size)


def set_length(fd: int, length: int) -> None:
    """Cut (or extend) a file where needed: a truncation costs a journal entry even when nothing
    changes, and on some file systems one to zero makes the next close wait for the disk."""
    if os.fstat(fd).st_size != length:
        os.ftruncate(fd, length)


def append_time(fd: int, at: int, timestamp: int, relative: int) -> int:
    """Write a .timeindex entry at a byte; returns the bytes after it."""
    files.pwrite_all(fd, TIME.pack(timestamp, relative), at)
    return at + TIME_ENTRY_BYTES


def last_time(path: str) -> tuple[int, int] | None:
    """Last (timestamp, relative offset) of a .timeindex file, None when it is missing or empty."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        used = _used(fd, TIME_ENTRY_BYTES)
        return TIME.unpack(os.pread(fd, TIME_ENTRY_BYTES, used - TIME_ENTRY_BYTES)) if used else None
    finally:
        os.close(fd)


def _used(fd: int, width: int) -> int:
    """Bytes up to the last whole entry that is not zero. A lone first entry of zeros counts as
    unused."""
    size = os.fstat(fd).st_size
    size -= size % width
    zero = bytes(width)
    if size == 0 or os.pread(fd, width, size - width) != zero:
        return size
    low, high = 0, size // width - 1  # entries [high, end) are zero
    while low < high:
        middle = (low + high) // 2
        if os.pread(fd, width, middle * width) == zero:
            high = middle
        else:
            low = middle + 1
    return low * width
