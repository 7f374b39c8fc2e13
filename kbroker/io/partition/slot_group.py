"""An open log's fields in its partition slot: the IO worker's group, written under its sequence."""

import numpy as np
from numpy.typing import NDArray

from kbroker.io.append.rows import AppendRow
from kbroker.ipc.layout import Slot
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

    start_epoch: leader epoch of the log start offset. epoch_start: see Slot.EPOCH_START. state, high_watermark and
    durable stay when not given.
    high_watermark_place: (segment base, position) of a high watermark below the log's end. changed: the list of segment
    files changed; changing: it is about to, and until then it is neither the old nor the new one (the version is odd).
    """
    fields = {
        Slot.LEADER_EPOCH: int(row[AppendRow.LEADER_EPOCH]),
        Slot.LOG_START: log_start,
        Slot.START_EPOCH: start_epoch,
        Slot.LOG_END: int(row[AppendRow.NEXT_OFFSET]),
        Slot.ACTIVE_BASE: int(row[AppendRow.BASE_OFFSET]),
        Slot.ACTIVE_END: int(row[AppendRow.POSITION]),
        Slot.LOG_BYTES: int(row[AppendRow.OTHER_BYTES] + row[AppendRow.POSITION]),
        Slot.SEGMENT_COUNT: segments,
        Slot.EPOCH_START: epoch_start,
        Slot.LAST_ABORTED: int(row[AppendRow.LAST_ABORTED]),
        Slot.MAX_TIMESTAMP: max(int(words[Slot.MAX_TIMESTAMP]), int(row[AppendRow.MAX_TIMESTAMP])),
    }
    mark = int(words[Slot.HIGH_WATERMARK]) if high_watermark is None else high_watermark
    mark = min(mark, fields[Slot.LOG_END])
    fields[Slot.HIGH_WATERMARK] = mark
    if mark == fields[Slot.LOG_END]:
        high_watermark_place = fields[Slot.ACTIVE_BASE], fields[Slot.ACTIVE_END]
    if high_watermark_place is not None:
        fields[Slot.HW_BASE], fields[Slot.HW_POSITION] = high_watermark_place
    unstable = int(row[AppendRow.FIRST_UNSTABLE])
    fields[Slot.LAST_STABLE] = min(mark, unstable) if unstable >= 0 else mark
    if state is not None:
        fields[Slot.STATE] = state
    if durable is not None:
        fields[Slot.DURABLE] = durable
    if changed:
        fields[Slot.SEGMENTS_VERSION] = (int(words[Slot.SEGMENTS_VERSION]) // 2 + 1) * 2
    elif changing:
        fields[Slot.SEGMENTS_VERSION] = int(words[Slot.SEGMENTS_VERSION]) | 1
    write_group(words, np.array(list(fields), np.int64), np.array(list(fields.values()), np.int64))
