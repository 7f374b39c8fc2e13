"""What everybody may see of a slot, each change as one group under its sequence counter."""

import numpy as np
from numpy.typing import NDArray

from kbroker.io.append import append_row as ar
from kbroker.io.append import drain_layout as ds
from kbroker.ipc import layout as sm
from kbroker.kernels.jit import inlined
from kbroker.kernels.memory import fence, load_i64, store_release

Words = NDArray[np.int64]
Table = NDArray[np.int64]


@inlined
def _set_last_stable(words: Words, row: Words) -> None:
    """No farther than the high watermark, nor into the first transaction that is open."""
    stable = words[sm.SLOT_HIGH_WATERMARK]
    if 0 <= row[ar.ROW_FIRST_UNSTABLE] < stable:
        stable = row[ar.ROW_FIRST_UNSTABLE]
    words[sm.SLOT_LAST_STABLE] = stable


@inlined
def publish(slots: Table, slot: int, row: Words) -> bool:
    """Make the new end of a slot visible as one group; whether the high watermark moved with it."""
    words = slots[slot]
    sequence = words.ctypes.data + 8 * sm.SLOT_SEQUENCE
    store_release(sequence, load_i64(sequence) + 1)
    fence()
    words[sm.SLOT_LOG_BYTES] += row[ar.ROW_POSITION] - words[sm.SLOT_ACTIVE_END]
    words[sm.SLOT_LOG_END] = row[ar.ROW_NEXT_OFFSET]
    words[sm.SLOT_ACTIVE_END] = row[ar.ROW_POSITION]
    words[sm.SLOT_MAX_TIMESTAMP] = max(words[sm.SLOT_MAX_TIMESTAMP], row[ar.ROW_MAX_TIMESTAMP])
    moved = not words[sm.SLOT_FLAGS] & sm.ACKS_WAIT
    if moved:
        words[sm.SLOT_HIGH_WATERMARK] = row[ar.ROW_NEXT_OFFSET]
        words[sm.SLOT_HW_BASE] = row[ar.ROW_BASE_OFFSET]
        words[sm.SLOT_HW_POSITION] = row[ar.ROW_POSITION]
    _set_last_stable(words, row)
    store_release(sequence, load_i64(sequence) + 1)
    return moved


@inlined
def publish_durable(slots: Table, row: Words, slot: int, sync: Words) -> None:
    """What a sync has put on disk, as one group; with write.caching=false the high watermark moves with it."""
    words = slots[slot]
    sequence = words.ctypes.data + 8 * sm.SLOT_SEQUENCE
    store_release(sequence, load_i64(sequence) + 1)
    fence()
    words[sm.SLOT_DURABLE] = max(words[sm.SLOT_DURABLE], sync[ds.SYNC_NEXT_OFFSET])
    waits = words[sm.SLOT_FLAGS] & sm.ACKS_WAIT
    if waits == sm.FLAG_DURABLE and sync[ds.SYNC_NEXT_OFFSET] > words[sm.SLOT_HIGH_WATERMARK]:
        words[sm.SLOT_HIGH_WATERMARK] = sync[ds.SYNC_NEXT_OFFSET]
        words[sm.SLOT_HW_BASE] = sync[ds.SYNC_SEGMENT_BASE]
        words[sm.SLOT_HW_POSITION] = sync[ds.SYNC_POSITION]
        if sync[ds.SYNC_NEXT_OFFSET] == words[sm.SLOT_LOG_END]:  # an empty new segment may begin there
            words[sm.SLOT_HW_BASE] = words[sm.SLOT_ACTIVE_BASE]
            words[sm.SLOT_HW_POSITION] = words[sm.SLOT_ACTIVE_END]
        _set_last_stable(words, row)
    store_release(sequence, load_i64(sequence) + 1)
