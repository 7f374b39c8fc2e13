"""The files of one segment: creates, opens for appending, finishes them, and renames them for deletion."""

import ctypes
import os
from dataclasses import dataclass
from pathlib import Path

from kbroker.io.files import index
from kbroker.ipc.crash_point import crash_point
from kbroker.kernels.libc import FALLOC_FL_KEEP_SIZE
from kbroker.log import files

SLACK_BYTES = 1 << 16  # blocks beyond the end of a .log that are not worth a truncation
_libc = ctypes.CDLL(None, use_errno=True)
_libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC


@dataclass(slots=True)
class Segment:
    """One segment as its partition knows it. For the active one the append row, not `size`, is the truth.

    max_timestamp: None until it is asked for (see `largest_timestamp`). modified_ms: of the .log file. first_timestamp:
    of the first batch, None until it is asked for.
    """

    base_offset: int
    size: int
    modified_ms: int
    max_timestamp: int | None = None
    first_timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class SegmentFds:
    """Open files of the active segment; closed by its partition."""

    log: int
    index: int
    time_index: int

    def close(self) -> None:
        for fd in (self.log, self.index, self.time_index):
            os.close(fd)


@dataclass(slots=True)
class ActiveState:
    """Where appending to a segment goes on: the fields of its append row. max_timestamp_offset: last offset of the
    batch that raised it. first_timestamp: largest of the first batch, -1 when the segment is empty."""

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


def open_files(folder: str, base_offset: int) -> SegmentFds:
    """Open (and create) a segment's files for appending. Raises OSError."""
    opened: list[int] = []
    try:
        for suffix in (files.LOG, files.INDEX, files.TIME_INDEX):
            opened.append(os.open(files.path(folder, base_offset, suffix), FLAGS, 0o644))
    except OSError:
        for fd in opened:
            os.close(fd)
        raise
    return SegmentFds(*opened)


def reserve(log_fd: int, length: int) -> None:
    """Reserve disk space for a .log up to a length without making the file longer, so that syncs need not wait for
    allocation. A file system that cannot do it is none the worse."""
    _libc.fallocate(log_fd, FALLOC_FL_KEEP_SIZE, 0, length)


def finish(fds: SegmentFds, state: ActiveState) -> None:
    """Finish a segment that stops being active (LogSegment.onBecomeInactiveSegment): add the last time index
    entry, free preallocated space, cut indexes to their exact length."""
    if state.max_timestamp > state.last_indexed_timestamp:
        relative = state.max_timestamp_offset - state.base_offset
        state.time_index_bytes = index.append_time(
            fds.time_index, state.time_index_bytes, state.max_timestamp, relative
        )
        state.last_indexed_timestamp = state.max_timestamp
        crash_point("index: last time entry written")
    status = os.fstat(fds.log)
    if status.st_size != state.position or status.st_blocks * 512 > state.position + SLACK_BYTES:
        os.ftruncate(fds.log, state.position)
    index.set_length(fds.index, state.index_bytes)
    crash_point("index: .log and .index cut")
    index.set_length(fds.time_index, state.time_index_bytes)


def largest_timestamp(folder: str, segment: Segment) -> int:
    """Largest timestamp of a closed segment (ms), by its time index; the file's age when it has none (Kafka's
    LogSegment.largestTimestamp), so that records without timestamps expire too."""
    if segment.max_timestamp is None:
        last = index.last_time(files.path(folder, segment.base_offset, files.TIME_INDEX))
        segment.max_timestamp = last[0] if last else -1
    return segment.max_timestamp if segment.max_timestamp >= 0 else segment.modified_ms


def mark_deleted(folder: str, base_offset: int) -> list[str]:
    """Rename a segment's files and its producer snapshot to ``.deleted``; returns the new paths."""
    renamed = []
    for suffix in (*files.SEGMENT_SUFFIXES, files.SNAPSHOT):
        path = Path(files.path(folder, base_offset, suffix))
        try:
            renamed.append(str(path.rename(f"{path}{files.DELETED}")))
            crash_point("retention: file renamed")
        except FileNotFoundError:
            continue
    return renamed
