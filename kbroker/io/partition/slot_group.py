"""What an open log says about itself in its partition slot: the IO worker's group of fields, under its sequence."""

import numpy as np
from numpy.typing import NDArray

from kbroker.io.append import append_row as ar
from kbroker.ipc import layout
from kbroker.kernels.sequence import write_group

Words = NDArray[np.int64]


def publish(
    words: Words,
    row: Words,
    log_start: int,
    start_epoch: int,
    segments: int,
    epoch_start: int,
    *,
    state: int | None = None,
    high_watermark: int | None = None,
    high_watermark_place: tuple[int, int] | None = None,
    durable: int | None = None,
    changed: bool = False,
    changing: bool = False,
) -> None:
    """Write the whole group from an append row.

    start_epoch: leader epoch of the log start offset. epoch_start: see SLOT_EPOCH_START. state, high_watermark and
    durable stay when not given.
    high_watermark_place: (segment base, position) of a high watermark below the log's end. changed: the list of segment
    files changed; changing: it is about to, and until then it is neither the old nor the new one (the version is odd).
    """
    fields = {
        layout.SLOT_LEADER_EPOCH: int(row[ar.ROW_LEADER_EPOCH]),
        layout.SLOT_LOG_START: log_start,
        layout.SLOT_START_EPOCH: start_epoch,
        layout.SLOT_LOG_END: int(row[ar.ROW_NEXT_OFFSET]),
        layout.SLOT_ACTIVE_BASE: int(row[ar.ROW_BASE_OFFSET]),
        layout.SLOT_ACTIVE_END: int(row[ar.ROW_POSITION]),
        layout.SLOT_LOG_BYTES: int(row[ar.ROW_OTHER_BYTES] + row[ar.ROW_POSITION]),
        layout.SLOT_SEGMENT_COUNT: segments,
        layout.SLOT_EPOCH_START: epoch_start,
        layout.SLOT_LAST_ABORTED: int(row[ar.ROW_LAST_ABORTED]),
        layout.SLOT_MAX_TIMESTAMP: max(int(words[layout.SLOT_MAX_TIMESTAMP]), int(row[ar.ROW_MAX_TIMESTAMP])),
    }
    mark = int(words[layout.SLOT_HIGH_WATERMARK]) if high_watermark is None else high_watermark
    mark = min(mark, fields[layout.SLOT_LOG_END])
    fields[layout.SLOT_HIGH_WATERMARK] = mark
    if mark == fields[layout.SLOT_LOG_END]:
        high_watermark_place = fields[layout.SLOT_ACTIVE_BASE], fields[layout.SLOT_ACTIVE_END]
    if high_watermark_place is not None:
        fields[layout.SLOT_HW_BASE], fields[layout.SLOT_HW_POSITION] = high_watermark_place
    unstable = int(row[ar.ROW_FIRST_UNSTABLE])
    fields[layout.SLOT_LAST_STABLE] = min(mark, unstable) if unstable >= 0 else mark
    if state is not None:
        fields[layout.SLOT_STATE] = state
    if durable is not None:
        fields[layout.SLOT_DURABLE] = durable
    if changed:
        fields[layout.SLOT_SEGMENTS_VERSION] = (int(words[layout.SLOT_SEGMENTS_VERSION]) // 2 + 1) * 2
    elif changing:
        fields[layout.SLOT_SEGMENTS_VERSION] = int(words[layout.SLOT_SEGMENTS_VERSION]) | 1
    write_group(words, np.array(list(fields), np.int64), np.array(list(fields.values()), np.int64))
