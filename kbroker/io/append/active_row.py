"""The append row of an open partition, filled from and read back as an ActiveState."""

import random

import numpy as np
from numpy.typing import NDArray

from kbroker.config.topic import TopicConfig
from kbroker.io.append import append_row as ar
from kbroker.io.files.segment import ActiveState, SegmentFds

Row = NDArray[np.int64]
LONG_MAX = (1 << 63) - 1


def point(row: Row, fds: SegmentFds | None) -> None:
    """The files that the drain kernel writes; None: it has to ask for them first."""
    row[ar.ROW_LOG_FD] = ar.NO_FD if fds is None else fds.log
    row[ar.ROW_INDEX_FD] = ar.NO_FD if fds is None else fds.index
    row[ar.ROW_TIME_INDEX_FD] = ar.NO_FD if fds is None else fds.time_index


def fill(row: Row, state: ActiveState, fds: SegmentFds | None) -> None:
    """Point a row at a segment and its state; limits come from `apply_config`."""
    point(row, fds)
    row[ar.ROW_BASE_OFFSET] = state.base_offset
    row[ar.ROW_POSITION] = state.position
    row[ar.ROW_NEXT_OFFSET] = state.next_offset
    row[ar.ROW_INDEX_BYTES] = state.index_bytes
    row[ar.ROW_TIME_INDEX_BYTES] = state.time_index_bytes
    row[ar.ROW_SINCE_INDEX] = state.since_index
    row[ar.ROW_MAX_TIMESTAMP] = state.max_timestamp
    row[ar.ROW_MAX_TIMESTAMP_OFFSET] = state.max_timestamp_offset
    row[ar.ROW_LAST_INDEXED_TIMESTAMP] = state.last_indexed_timestamp
    row[ar.ROW_FIRST_TIMESTAMP] = state.first_timestamp


def state_of(row: Row) -> ActiveState:
    """The state as the drain kernel left it."""
    return ActiveState(
        base_offset=int(row[ar.ROW_BASE_OFFSET]),
        position=int(row[ar.ROW_POSITION]),
        next_offset=int(row[ar.ROW_NEXT_OFFSET]),
        index_bytes=int(row[ar.ROW_INDEX_BYTES]),
        time_index_bytes=int(row[ar.ROW_TIME_INDEX_BYTES]),
        since_index=int(row[ar.ROW_SINCE_INDEX]),
        max_timestamp=int(row[ar.ROW_MAX_TIMESTAMP]),
        max_timestamp_offset=int(row[ar.ROW_MAX_TIMESTAMP_OFFSET]),
        last_indexed_timestamp=int(row[ar.ROW_LAST_INDEXED_TIMESTAMP]),
        first_timestamp=int(row[ar.ROW_FIRST_TIMESTAMP]),
    )


def apply_config(row: Row, config: TopicConfig, created_ms: int, jitter_ms: int) -> None:
    """Limits of the append path. created_ms, jitter_ms: of the active segment (see `new_jitter`)."""
    segment_ms = max(config.max_segment_ms - jitter_ms, 0)
    row[ar.ROW_INDEX_INTERVAL] = config.index_interval_bytes
    row[ar.ROW_SEGMENT_BYTES] = config.segment_bytes
    row[ar.ROW_INDEX_LIMIT] = config.segment_index_bytes
    row[ar.ROW_SEGMENT_MS] = min(segment_ms, ar.NEVER)
    row[ar.ROW_ROLL_AT_MS] = min(created_ms + segment_ms, ar.NEVER)
    row[ar.ROW_FLUSH_RECORDS] = min(config.flush_messages, ar.NEVER)
    row[ar.ROW_FLUSH_MS] = min(config.flush_ms, ar.NEVER)


def begin_reserving(row: Row, most: int) -> None:
    """Nothing is reserved behind the end, and a first stretch begins with the next append (`reserve_kernel`). most:
    bytes of the largest chunk, 0 for no reserving in this segment."""
    row[ar.ROW_RESERVED] = row[ar.ROW_RESERVED_MS] = 0
    row[ar.ROW_RESERVE_MOST] = most
    row[ar.ROW_RESERVE_AT] = row[ar.ROW_POSITION] if most else ar.NEVER


def new_jitter(config: TopicConfig) -> int:
    """What one segment rolls earlier by: random below segment.jitter.ms, so that logs do not roll together."""
    most = min(config.segment_jitter_ms, config.segment_ms)
    return random.randrange(most) if most > 0 else 0
