"""Publishes changes of a partition's slot to other processes, each change as one group under the
slot's sequence counter.
"""

import numpy as np
from numpy.typing import NDArray

from kbroker.io.append.rows import AppendRow, SyncRow
from kbroker.ipc.layout import Slot, SlotFlag
from kbroker.kernels.jit import inlined
from kbroker.kernels.memory import fence, load_i64, store_release

Words = NDArray[np.int64]
Table = NDArray[np.int64]


def last_stable(high_watermark: int, first_unstable: int) -> int:
    """The last stable offset: no farther than the high watermark, nor into the first open
    transaction (-1: none is)."""
    return min(high_watermark, first_unstable) if first_unstable >= 0 else high_watermark


def sync_moves_mark(flags: int, high_watermark: int, synced_end: int) -> bool:
    """Whether the high watermark follows the durable offset: it does for a single replica with
    write.caching=false."""
    return flags & SlotFlag.ACKS_WAIT == SlotFlag.DURABLE and synced_end > high_watermark


_last_stable = inlined(last_stable)  # Python calls these two as well
_sync_moves_mark = inlined(sync_moves_mark)


@inlined
def _set_last_stable(words: Words, row: Words) -> None:
    words[Slot.LAST_STABLE] = _last_stable(words[Slot.HIGH_WATERMARK], row[AppendRow.FIRST_UNSTABLE])


@inlined
def kept_below(slots: Table, row: Words, slot: int) -> int:
    """The offset below which records satisfy acks=all: with flush.messages they are also on the
    leader's disk."""
    durable = slots[slot, Slot.DURABLE]
    if not slots[slot, Slot.FLAGS] & SlotFlag.REPLICATED:
        return durable
    if row[AppendRow.FLUSH_RECORDS] < AppendRow.NEVER:
        return min(slots[slot, Slot.HIGH_WATERMARK], durable)
    return slots[slot, Slot.HIGH_WATERMARK]


@inlined
def publish(slots: Table, slot: int, row: Words) -> bool:
    """Make the new end of a slot visible as one group; whether the high watermark moved with it."""
    words = slots[slot]
    sequence = words.ctypes.data + 8 * Slot.SEQUENCE
    store_release(sequence, load_i64(sequence) + 1)
    fence()
    words[Slot.LOG_BYTES] += row[AppendRow.POSITION] - words[Slot.ACTIVE_END]
    words[Slot.WRITES] += 1
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
    """Publish the durable offset after a sync, as one group; with write.caching=false the high
    watermark moves with it."""
    words = slots[slot]
    sequence = words.ctypes.data + 8 * Slot.SEQUENCE
    store_release(sequence, load_i64(sequence) + 1)
    fence()
    words[Slot.DURABLE] = max(words[Slot.DURABLE], sync[SyncRow.NEXT_OFFSET])
    if _sync_moves_mark(words[Slot.FLAGS], words[Slot.HIGH_WATERMARK], sync[SyncRow.NEXT_OFFSET]):
        words[Slot.HIGH_WATERMARK] = sync[SyncRow.NEXT_OFFSET]
        words[Slot.HW_BASE] = sync[SyncRow.SEGMENT_BASE]
        words[Slot.HW_POSITION] = sync[SyncRow.POSITION]
        if sync[SyncRow.NEXT_OFFSET] == words[Slot.LOG_END]:  # an empty new segment may begin there
            words[Slot.HW_BASE] = words[Slot.ACTIVE_BASE]
            words[Slot.HW_POSITION] = words[Slot.ACTIVE_END]
        _set_last_stable(words, row)
    store_release(sequence, load_i64(sequence) + 1)
