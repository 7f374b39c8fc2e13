"""Rebuilds index entries and producer state from scanned batch rows, for recovery.

Rows are those of ``batches.scan``. Index rules: LogSegment.recover (an entry for a batch before
which more than index.interval.bytes have gone by since the last entry's batch); producer rules:
ProducerAppendInfo for replicas.
"""
# mypy: disable-error-code="no-untyped-call"

import numpy as np
from numpy.typing import NDArray

from kbroker.kernels import producers as pr
from kbroker.kernels.jit import kernel
from kbroker.kernels.memory import store_i32_be, store_i64_be
from kbroker.kernels.producer_rows import Producer, Sequence
from kbroker.kernels.scan_rows import IndexCarry, ScannedBatch
from kbroker.kernels.search import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES
from kbroker.protocol import batch_layout as b

Words = NDArray[np.int64]
Bytes = NDArray[np.uint8]


@kernel("void(int64[:, ::1], int64, int64, int64, int64, uint8[::1], uint8[::1], int64[::1], int64[::1])")
def index_entries(
    rows: Words,
    count: int,
    base: int,
    interval: int,
    limit: int,
    index: Bytes,
    times: Bytes,
    carry: Words,
    added: Words,
) -> None:
    """Append the index entries of ``count`` rows to ``index`` and ``times``, at most one of
    each for a row.

    added (int64[2]): bytes written to each. limit: segment.index.bytes; entries beyond it are left
    out."""
    index_at = index.ctypes.data
    times_at = times.ctypes.data
    added[:] = 0
    for n in range(count):
        row = rows[n]
        if row[ScannedBatch.MAX_TIMESTAMP] > carry[IndexCarry.MAX_TIMESTAMP]:
            carry[IndexCarry.MAX_TIMESTAMP] = row[ScannedBatch.MAX_TIMESTAMP]
            carry[IndexCarry.MAX_TIMESTAMP_OFFSET] = row[ScannedBatch.LAST_OFFSET]
        if (
            carry[IndexCarry.SINCE_INDEX] > interval
            and carry[IndexCarry.INDEX_BYTES] + OFFSET_ENTRY_BYTES <= limit
        ):
            store_i32_be(index_at + added[0], row[ScannedBatch.LAST_OFFSET] - base)
            store_i32_be(index_at + added[0] + 4, row[ScannedBatch.POSITION])
            added[0] += OFFSET_ENTRY_BYTES
            carry[IndexCarry.INDEX_BYTES] += OFFSET_ENTRY_BYTES
            # the last place is kept for the segment's end
            room = carry[IndexCarry.TIME_INDEX_BYTES] + 2 * TIME_ENTRY_BYTES <= limit
            if room and carry[IndexCarry.MAX_TIMESTAMP] > carry[IndexCarry.LAST_INDEXED_TIMESTAMP]:
                store_i64_be(times_at + added[1], carry[IndexCarry.MAX_TIMESTAMP])
                store_i32_be(times_at + added[1] + 8, carry[IndexCarry.MAX_TIMESTAMP_OFFSET] - base)
                added[1] += TIME_ENTRY_BYTES
                carry[IndexCarry.TIME_INDEX_BYTES] += TIME_ENTRY_BYTES
                carry[IndexCarry.LAST_INDEXED_TIMESTAMP] = carry[IndexCarry.MAX_TIMESTAMP]
            carry[IndexCarry.SINCE_INDEX] = 0
        carry[IndexCarry.SINCE_INDEX] += row[ScannedBatch.SIZE]


@kernel("int64(int64[:, ::1], int64, int64, int64, int64[:, ::1])")
def replay_producers(rows: Words, start: int, count: int, from_offset: int, table: Words) -> int:
    """Enter rows[start:count] of data batches into a producer table (as slot 0); returns the next
    row to check.

    Stops at a control batch of a producer, which Python replays, and when the table has no room.
    Batches wholly below from_offset are passed over."""
    for n in range(start, count):
        row = rows[n]
        producer_id = row[ScannedBatch.PRODUCER_ID]
        if producer_id < 0 or row[ScannedBatch.LAST_OFFSET] < from_offset:
            continue
        if row[ScannedBatch.ATTRIBUTES] & b.ATTRIBUTE_CONTROL:
            return n
        epoch = row[ScannedBatch.PRODUCER_EPOCH]
        found = pr.find_producer(table, 0, producer_id)
        if found < 0:
            if pr.room_of(table) <= 0:
                return n
            found = pr.claim_producer(table, 0, producer_id)
            table[found, Producer.EPOCH] = epoch
        first = row[ScannedBatch.BASE_SEQUENCE]
        last = Sequence.NONE
        if first != Sequence.NONE:
            last = (first + row[ScannedBatch.LAST_OFFSET] - row[ScannedBatch.BASE_OFFSET]) & (
                Sequence.LIMIT - 1
            )
        pr.remember_batch(
            table,
            found,
            epoch,
            first,
            last,
            row[ScannedBatch.BASE_OFFSET],
            row[ScannedBatch.LAST_OFFSET],
            row[ScannedBatch.MAX_TIMESTAMP],
        )
        if (
            row[ScannedBatch.ATTRIBUTES] & b.ATTRIBUTE_TRANSACTIONAL
            and table[found, Producer.TXN_FIRST_OFFSET] < 0
        ):
            table[found, Producer.TXN_FIRST_OFFSET] = row[ScannedBatch.BASE_OFFSET]
    return count
