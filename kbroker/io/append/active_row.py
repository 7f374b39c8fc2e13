"""The append row of an open partition, filled from and read back as an ActiveState."""

import random

import numpy as np
from numpy.typing import NDArray

from kbroker.config.topic import TopicConfig
from kbroker.io.append.rows import AppendRow
from kbroker.io.files.segment import ActiveState, SegmentFds

Row = NDArray[np.int64]
LONG_MAX = (1 << 63) - 1


def point(row: Row, fds: SegmentFds | None) -> None:
    """The files that the drain kernel writes; None: it has to ask for them first."""
    row[AppendRow.LOG_FD] = AppendRow.NO_FD if fds is None else fds.log
    row[AppendRow.INDEX_FD] = AppendRow.NO_FD if fds is None else fds.index
    row[AppendRow.TIME_INDEX_FD] = AppendRow.NO_FD if fds is None else fds.time_index


def fill(row: Row, state: ActiveState, fds: SegmentFds | None) -> None:
    """Point a row at a segment and its state; limits come from `apply_config`."""
    point(row, fds)
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


def state_of(row: Row) -> ActiveState:
    """The state as the drain kernel left it."""
    return ActiveState(
        base_offset=int(row[AppendRow.BASE_OFFSET]),
        position=int(row[AppendRow.POSITION]),
        next_offset=int(row[AppendRow.NEXT_OFFSET]),
        index_bytes=int(row[AppendRow.INDEX_BYTES]),
        time_index_bytes=int(row[AppendRow.TIME_INDEX_BYTES]),
        since_index=int(row[AppendRow.SINCE_INDEX]),
        max_timestamp=int(row[AppendRow.MAX_TIMESTAMP]),
        max_timestamp_offset=int(row[AppendRow.MAX_TIMESTAMP_OFFSET]),
        last_indexed_timestamp=int(row[AppendRow.LAST_INDEXED_TIMESTAMP]),
        first_timestamp=int(row[AppendRow.FIRST_TIMESTAMP]),
    )


def apply_config(row: Row, config: TopicConfig, created_ms: int, jitter_ms: int) -> None:
    """Limits of the append path. created_ms, jitter_ms: of the active segment (see `new_jitter`)."""
    segment_ms = max(config.max_segment_ms - jitter_ms, 0)
    row[AppendRow.INDEX_INTERVAL] = config.index_interval_bytes
    row[AppendRow.SEGMENT_BYTES] = config.segment_bytes
    row[AppendRow.INDEX_LIMIT] = config.segment_index_bytes
    row[AppendRow.SEGMENT_MS] = min(segment_ms, AppendRow.NEVER)
    row[AppendRow.ROLL_AT_MS] = min(created_ms + segment_ms, AppendRow.NEVER)
    row[AppendRow.FLUSH_RECORDS] = min(config.flush_messages, AppendRow.NEVER)
    row[AppendRow.FLUSH_MS] = min(config.flush_ms, AppendRow.NEVER)


def begin_reserving(row: Row, most: int) -> None:
    """Nothing is reserved after the end, and a first stretch begins with the next append (`reserve_kernel`).
    most: bytes of the largest chunk, 0 for no reserving in this segment."""
    row[AppendRow.RESERVED] = row[AppendRow.RESERVED_MS] = 0
    row[AppendRow.RESERVE_MOST] = most
    row[AppendRow.RESERVE_AT] = row[AppendRow.POSITION] if most else AppendRow.NEVER


def new_jitter(config: TopicConfig) -> int:
    """Jitter of one segment's roll, in ms: random below segment.jitter.ms, so that logs roll apart."""
    most = min(config.segment_jitter_ms, config.segment_ms)
    return random.randrange(most) if most > 0 else 0
