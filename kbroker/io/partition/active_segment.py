"""The active segment of a log: its open files, and its state in the append row that the drain
kernel works on."""

import os
import random

import numpy as np
from numpy.typing import NDArray

from kbroker.config.topic import TopicConfig
from kbroker.io.append.rows import AppendRow, AppendState
from kbroker.io.files.segment import ActiveState, SegmentFds, finish, open_files, reserve
from kbroker.log import files

Words = NDArray[np.int64]


class ActiveSegment:
    """Runs in: io. Owner: the log's LogSegments. While the log is open, the row is authoritative
    for the segment.

    row: an AppendRow. reserve_max_bytes: bytes of the largest chunk that the drain reserves, 0
    for none.
    """

    def __init__(self, row: Words, folder: str, reserve_max_bytes: int) -> None:
        self.row = row
        self.reserve_max_bytes = reserve_max_bytes
        self.is_open = False
        self._folder = folder
        self._fds: SegmentFds | None = None  # None while its files are closed
        self._created_ms = 0
        self._jitter_ms = 0

    # --- its place in the log ------------------------------------------------------------------------------

    @property
    def base_offset(self) -> int:
        return int(self.row[AppendRow.BASE_OFFSET])

    @property
    def position(self) -> int:
        """Bytes that hold whole batches."""
        return int(self.row[AppendRow.POSITION])

    @property
    def next_offset(self) -> int:
        return int(self.row[AppendRow.NEXT_OFFSET])

    @property
    def log_bytes(self) -> int:
        """Bytes of the whole log."""
        return int(self.row[AppendRow.OTHER_BYTES]) + self.position

    @property
    def max_timestamp(self) -> int:
        """Largest timestamp (ms), -1 when no record has one."""
        return int(self.row[AppendRow.MAX_TIMESTAMP])

    @property
    def largest_timestamp(self) -> int:
        """Largest timestamp (ms); the time of the last append or of its creation when no record has
        one."""
        largest = self.max_timestamp
        return largest if largest >= 0 else int(self.row[AppendRow.LAST_APPEND_MS]) or self._created_ms

    @property
    def state(self) -> ActiveState:
        """The segment's state, as the drain kernel left it."""
        row = self.row
        return ActiveState(
            base_offset=self.base_offset,
            position=self.position,
            next_offset=self.next_offset,
            index_bytes=int(row[AppendRow.INDEX_BYTES]),
            time_index_bytes=int(row[AppendRow.TIME_INDEX_BYTES]),
            since_index=int(row[AppendRow.SINCE_INDEX]),
            max_timestamp=self.max_timestamp,
            max_timestamp_offset=int(row[AppendRow.MAX_TIMESTAMP_OFFSET]),
            last_indexed_timestamp=int(row[AppendRow.LAST_INDEXED_TIMESTAMP]),
            first_timestamp=int(row[AppendRow.FIRST_TIMESTAMP]),
        )

    # --- beginning a segment -------------------------------------------------------------------------------

    def load(self, state: ActiveState, first_unstable: int, has_aborted: bool) -> None:
        """Point the row at the segment of a log that was just loaded; nothing may be appended
        yet."""
        self.is_open = True
        self.row[:] = 0
        self.row[AppendRow.FIRST_UNSTABLE] = first_unstable
        self.row[AppendRow.LAST_ABORTED] = state.next_offset - 1 if has_aborted else -1
        self.point(state, None)

    def point(self, state: ActiveState, fds: SegmentFds | None) -> None:
        """Point the row at a segment; limits come from `start`."""
        self._set_files(fds)
        row = self.row
        row[AppendRow.BASE_OFFSET] = state.base_offset
        row[AppendRow.POSITION] = state.position
        row[AppendRow.NEXT_OFFSET] = state.next_offset
        row[AppendRow.INDEX_BYTES] = state.index_bytes
        row[AppendRow.TIME_INDEX_BYTES] = state.time_index_bytes
        row[AppendRow.SINCE_INDEX] = state.since_index
        row[AppendRow.MAX_TIMESTAMP] = state.max_timestamp
        row[AppendRow.MAX_TIMESTAMP_OFFSET] = state.max_timestamp_offset
        row[AppendRow.LAST_INDEXED_TIMESTAMP] = state.last_indexed_timestamp
        row[AppendRow.FIRST_TIMESTAMP] = state.first_timestamp

    def start(self, config: TopicConfig, other_bytes: int, now_ms: int) -> None:
        """Begin the segment's age and limits. other_bytes: of all older segments."""
        self._created_ms = now_ms
        self._jitter_ms = new_jitter(config)
        if config.preallocate:
            reserve(self.files.log, config.segment_bytes)
        begin_reserving(self.row, 0 if config.preallocate else self.reserve_max_bytes)
        self.set_other_bytes(other_bytes)
        self.configure(config)

    def grow_until(self, until_ms: int) -> None:
        """Let the segment grow until it is no longer small, or a time has come, before it is
        rolled; 0: it need not."""
        self.row[AppendRow.GROW_UNTIL_MS] = until_ms

    def set_other_bytes(self, other_bytes: int) -> None:
        """Bytes of all older segments."""
        self.row[AppendRow.OTHER_BYTES] = other_bytes

    def configure(self, config: TopicConfig) -> None:
        """Limits of the append path, from the next append on."""
        row = self.row
        segment_ms = max(config.max_segment_ms - self._jitter_ms, 0)
        row[AppendRow.INDEX_INTERVAL] = config.index_interval_bytes
        row[AppendRow.SEGMENT_BYTES] = config.segment_bytes
        row[AppendRow.INDEX_LIMIT] = config.segment_index_bytes
        row[AppendRow.SEGMENT_MS] = min(segment_ms, AppendRow.NEVER)
        row[AppendRow.ROLL_AT_MS] = min(self._created_ms + segment_ms, AppendRow.NEVER)
        row[AppendRow.FLUSH_RECORDS] = min(config.flush_messages, AppendRow.NEVER)
        row[AppendRow.FLUSH_MS] = min(config.flush_ms, AppendRow.NEVER)

    def free_reserved(self, max_bytes: int) -> None:
        """Free the blocks that are reserved after the end. max_bytes: the new reserve_max_bytes.
        Raises OSError."""
        os.ftruncate(self.files.log, self.position)
        begin_reserving(self.row, max_bytes)

    # --- epochs and transactions -----------------------------------------------------------------------

    @property
    def leader_epoch(self) -> int:
        """The epoch of appended batches. In a follower it is its leader's, or -1 until its log
        agrees with the leader's."""
        return int(self.row[AppendRow.LEADER_EPOCH])

    @leader_epoch.setter
    def leader_epoch(self, epoch: int) -> None:
        self.row[AppendRow.LEADER_EPOCH] = epoch

    @property
    def first_unstable(self) -> int:
        """First offset of the earliest open transaction, -1 when there is none."""
        return int(self.row[AppendRow.FIRST_UNSTABLE])

    @first_unstable.setter
    def first_unstable(self, offset: int) -> None:
        self.row[AppendRow.FIRST_UNSTABLE] = offset

    def hold_stable(self, first: int, until: int) -> None:
        """Hold the last stable offset at `first` while the high watermark is below `until`; 0: do
        not."""
        self.row[AppendRow.ENDED_FIRST] = first
        self.row[AppendRow.ENDED_UNTIL] = until

    @property
    def last_aborted(self) -> int:
        """The last offset at which an aborted transaction ends, -1 if there is none."""
        return int(self.row[AppendRow.LAST_ABORTED])

    def note_aborted(self, last_offset: int) -> None:
        """An aborted transaction ends at an offset."""
        self.row[AppendRow.LAST_ABORTED] = max(last_offset, self.last_aborted)

    def note_copied_epoch(self, epoch: int) -> None:
        """The last batch that was copied has this leader epoch; -1: none."""
        self.row[AppendRow.BATCH_EPOCH] = epoch

    def take_unflushed(self) -> int:
        """The number of records since the last sync; the count is reset."""
        records = int(self.row[AppendRow.UNFLUSHED_RECORDS])
        self.row[AppendRow.UNFLUSHED_RECORDS] = 0
        return records

    def set_unsynced(self, rolled: bool, names: bool) -> None:
        """Note what waits for a sync besides the .log: closed segments (rolled), file names."""
        self.row[AppendRow.ROLLED] = rolled
        self.row[AppendRow.PLAIN_SYNC] = not names and not rolled

    # --- its files -----------------------------------------------------------------------------------------

    @property
    def files(self) -> SegmentFds:
        """The open files; opens them when they are not. Raises OSError."""
        if not self.is_open:
            raise ValueError(f"{self._folder} is not open")
        if self._fds is None:
            self._set_files(open_files(self._folder, self.base_offset))
        assert self._fds is not None
        return self._fds

    def _set_files(self, fds: SegmentFds | None) -> None:
        """Set the files that the drain kernel writes; None: they must be opened first."""
        self._fds = fds
        self.row[AppendRow.LOG_FD] = AppendRow.NO_FD if fds is None else fds.log
        self.row[AppendRow.INDEX_FD] = AppendRow.NO_FD if fds is None else fds.index
        self.row[AppendRow.TIME_INDEX_FD] = AppendRow.NO_FD if fds is None else fds.time_index

    def open_files(self) -> None:
        """Open the files if they are closed, so that the drain kernel can append. Raises
        OSError."""
        self._set_files(self.files)

    def duplicate_log(self) -> int:
        """The .log under a descriptor of its own. Files that are closed stay closed. Raises
        OSError."""
        if self._fds is not None:
            return os.dup(self._fds.log)
        return os.open(files.path(self._folder, self.base_offset, files.LOG), os.O_RDWR | os.O_CLOEXEC)

    def close_files(self) -> None:
        """Close the files until they are needed. The data must be synced first: a write-back error
        of a closed file would go unnoticed."""
        if (fds := self.take_files()) is not None:
            fds.close()

    def take_files(self) -> SegmentFds | None:
        """Take the open files out, None if they are closed."""
        fds = self._fds
        if fds is not None:
            self._set_files(None)
        return fds

    def close(self) -> SegmentFds | None:
        """Close the row; returns the open files."""
        self.is_open = False
        return self.take_files()

    def finish(self) -> ActiveState:
        """Cut the files to their exact length, as when a segment stops being active; returns its
        state."""
        state = self.state
        finish(self.files, state)
        return state

    def cut_to_state(self) -> None:
        """Truncate the bytes that a failed append left after the published end. Raises OSError."""
        fds, state = self.files, self.state
        os.ftruncate(fds.log, state.position)
        os.ftruncate(fds.index, state.index_bytes)
        os.ftruncate(fds.time_index, state.time_index_bytes)

    def relocate(self, folder: str, reserve_max_bytes: int) -> None:
        """Continue in a folder that holds the same files. Raises OSError."""
        self._folder, self.reserve_max_bytes = folder, reserve_max_bytes
        self._set_files(open_files(folder, self.base_offset))
        begin_reserving(self.row, reserve_max_bytes)

    # --- appends -----------------------------------------------------------------------------------

    def let_append(self) -> None:
        """Open the row to the drain kernel."""
        self.row[AppendRow.STATE] = AppendState.OPEN

    def stop_appends(self) -> None:
        self.row[AppendRow.STATE] = AppendState.CLOSED

    def refuse_appends(self) -> None:
        """Close the row to the drain kernel, because the disk is full."""
        self.row[AppendRow.STATE] = AppendState.DISK_FULL

    def count_cut(self) -> None:
        """Count a truncation: a sync that began before it covers other records."""
        self.row[AppendRow.CUTS] += 1
        self.row[AppendRow.SYNC_END] = 0

    @property
    def is_disk_full(self) -> bool:
        """Whether produce is refused until the disk has free space."""
        return bool(self.row[AppendRow.STATE] == AppendState.DISK_FULL)


def begin_reserving(row: Words, max_bytes: int) -> None:
    """No blocks are reserved after the end; the next append reserves the first chunk, of at most
    max_bytes (`reserve_ahead`). 0: none is reserved."""
    row[AppendRow.RESERVED] = row[AppendRow.RESERVED_MS] = 0
    row[AppendRow.RESERVE_MAX] = max_bytes
    row[AppendRow.RESERVE_AT] = row[AppendRow.POSITION] if max_bytes else AppendRow.NEVER


def new_jitter(config: TopicConfig) -> int:
    """Jitter of one segment's roll, in ms: random below segment.jitter.ms, so that logs roll at
    different times."""
    max_jitter_ms = min(config.segment_jitter_ms, config.segment_ms)
    return random.randrange(max_jitter_ms) if max_jitter_ms > 0 else 0
