"""Publishes changes of a partition's slot to other processes, each change as one group under the slot's
sequence counter.
"""

import numpy as np
from numpy.typing import NDArray

from kbroker.io.append.rows import AppendRow, SyncRow
from kbroker.ipc.layout import Slot, SlotFlag
from kbroker.kernels.jit import inlined
from kbroker.kernels.memory import fence, load_i64, store_release

Words = NDArray[np.int64]
Table = NDArray[np.int64]


@inlined
def _set_last_stable(words: Words, row: Words) -> None:
    """No farther than the high watermark, nor into the first transaction that is open."""
    stable = words[Slot.HIGH_WATERMARK]
    if 0 <= row[AppendRow.FIRST_UNSTABLE] < stable:
        stable = row[AppendRow.FIRST_UNSTABLE]
    words[Slot.LAST_STABLE] = stable


@inlined
def publish(slots: Table, slot: int, row: Words) -> bool:
    """Make the new end of a slot visible as one group; whether the high watermark moved with it."""
    words = slots[slot]
    sequence = words.ctypes.data + 8 * Slot.SEQUENCE
    store_release(sequence, load_i64(sequence) + 1)
    fence()
    words[Slot.LOG_BYTES] += row[AppendRow.POSITION] - words[Slot.ACTIVE_END]
    words[Slot.LOG_END] = row[AppendRow.NEXT_OFFSET]
    words[Slot.ACTIVE_END] = row[AppendRow.POSITION]
    words[Slot.MAX_TIMESTAMP] = max(words[Slot.MAX_TIMESTAMP], row[AppendRow.MAX_TIMESTAMP])
    moved = not words[Slot.FLAGS] & SlotFlag.ACKS_WAIT
    if moved:
        words[Slot.HIGH_WATERMARK] = row[AppendRow.NEXT_OFFSET]
        words[Slot.HW_BASE] = row[AppendRow.BASE_OFFSET]
        words[Slot.HW_POSITION] = row[AppendRow.POSITION]
    _set_last_stable(words, row)
    store_release(sequence, load_i64(sequence) + 1)
    return moved


@inlined
def publish_durable(slots: Table, row: Words, slot: int, sync: Words) -> None:
    """Publish the durable offset after a sync, as one group; with write.caching=false the high watermark
    moves with it."""
    words = slots[slot]
    sequence = words.ctypes.data + 8 * Slot.SEQUENCE
    store_release(sequence, load_i64(sequence) + 1)
    fence()
    words[Slot.DURABLE] = max(words[Slot.DURABLE], sync[SyncRow.NEXT_OFFSET])
    waits = words[Slot.FLAGS] & SlotFlag.ACKS_WAIT
    if waits == SlotFlag.DURABLE and sync[SyncRow.NEXT_OFFSET] > words[Slot.HIGH_WATERMARK]:
        words[Slot.HIGH_WATERMARK] = sync[SyncRow.NEXT_OFFSET]
        words[Slot.HW_BASE] = sync[SyncRow.SEGMENT_BASE]
        words[Slot.HW_POSITION] = sync[SyncRow.POSITION]
        if sync[SyncRow.NEXT_OFFSET] == words[Slot.LOG_END]:  # an empty new segment may begin there
            words[Slot.HW_BASE] = words[Slot.ACTIVE_BASE]
            words[Slot.HW_POSITION] = words[Slot.ACTIVE_END]
        _set_last_stable(words, row)
    store_release(sequence, load_i64(sequence) + 1)
