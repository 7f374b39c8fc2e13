"""Appends a leader's batches unchanged to a follower's log, with the rows and rules of the drain
kernel.

Rules: Kafka's UnifiedLog.appendAsFollower. The leader has already checked idempotence, sizes and
timestamps.
"""
# mypy: disable-error-code="no-untyped-call"

import numpy as np
from numpy.typing import NDArray

from kbroker.io.append.append_kernel import must_roll, remember
from kbroker.io.append.drain_kernel import index_batches, reserve_ahead, write_batches
from kbroker.io.append.rows import AppendRow, Batch
from kbroker.ipc.layout import Slot
from kbroker.kernels import producers as pr
from kbroker.kernels.batch_header import NO_BATCH, last_offset, whole_batch
from kbroker.kernels.crc32c import crc32c_at
from kbroker.kernels.jit import inlined, kernel
from kbroker.kernels.memory import (
    fence,
    load_acquire,
    load_i8,
    load_i16_be,
    load_i32_be,
    load_i64,
    load_i64_be,
    load_u32_be,
)
from kbroker.kernels.row import Row, Values, word
from kbroker.protocol import batch_layout as rb

Words = NDArray[np.int64]
Table = NDArray[np.int64]


class Copied(Row, writer="io", words=8):
    """Results of a call of the copy kernel."""

    BYTES = word("bytes", "of the buffer that are done with")
    STOP = word("value", "CopyStop")
    ERROR = word("errno", "of a failed write")
    MARKER = word("bytes", "position in the buffer of a written transaction marker, -1: none")
    RECORDS = word("count", "records that were written")
    LAST_OFFSET = word("offset", "of the marker")


class CopyStop(Values):
    """The reason why the copy kernel ended before the last whole batch."""

    END = 0  # nothing whole is left
    ROLL = 1  # the next batch needs a new segment
    EPOCH = 2  # the next batch is of another leader epoch than AppendRow.BATCH_EPOCH
    PRODUCERS = 3  # the producer table is full
    CORRUPT = 4  # the next batch is damaged, or not after the log's end
    FULL = 5  # the batch array is full, or a marker was written: call again


@inlined
def valid_batch(address: int, left: int) -> int:
    """As `whole_batch`; NO_BATCH, too, for another format than 2 or a wrong CRC."""
    size = whole_batch(address, left, rb.HEADER_BYTES)
    if size <= 0:
        return size
    if load_i8(address + rb.MAGIC) != rb.MAGIC_V2:
        return NO_BATCH
    if crc32c_at(address + rb.ATTRIBUTES, size - rb.ATTRIBUTES) != load_u32_be(address + rb.CRC):
        return NO_BATCH
    return size


@inlined
def enter(row: Words, producers: Table, batch: Words, slot: int, address: int, size: int) -> None:
    """Fill a row of the batch array, and enter the batch into the producer table."""
    batch[:] = 0
    batch[Batch.SLOT] = slot
    batch[Batch.ADDRESS] = address
    batch[Batch.LENGTH] = size
    batch[Batch.BASE_OFFSET] = load_i64_be(address + rb.BASE_OFFSET)
    batch[Batch.LAST_OFFSET] = last_offset(address)
    batch[Batch.NEXT] = -1
    batch[Batch.MAX_TIMESTAMP] = load_i64_be(address + rb.MAX_TIMESTAMP)
    batch[Batch.RECORDS] = load_i32_be(address + rb.RECORD_COUNT)
    attributes = load_i16_be(address + rb.ATTRIBUTES)
    producer_id = load_i64_be(address + rb.PRODUCER_ID)
    if producer_id < 0 or attributes & rb.ATTRIBUTE_CONTROL:
        return
    batch[Batch.PRODUCER_ROW] = pr.find_producer(producers, slot, producer_id)
    remember(producers, batch, row, (attributes & rb.ATTRIBUTE_TRANSACTIONAL) != 0)


@kernel(
    "void(int64[::1], int64[::1], int64[:, ::1], int64[:, ::1], int64[::1], int64, int64, int64, int64, "
    "int64[::1])"
)
def copy_batches(
    env: Words, row: Words, producers: Table, batches: Table, counters: Words, slot: int, buffer: int,
    length: int, now_ms: int, out: Words,
) -> None:  # fmt: skip
    """Write the whole batches of buffer[0:length] that fit the active segment; results in ``out``
    (Copied).

    Batches wholly below the log's end are passed over. The caller publishes."""
    out[:] = 0
    out[Copied.MARKER] = -1
    position = row[AppendRow.POSITION]
    next_offset = row[AppendRow.NEXT_OFFSET]
    count = 0
    while True:
        address = buffer + out[Copied.BYTES]
        size = valid_batch(address, length - out[Copied.BYTES])
        if size <= 0:
            out[Copied.STOP] = CopyStop.END if size == 0 else CopyStop.CORRUPT
            break
        base = load_i64_be(address + rb.BASE_OFFSET)
        last = last_offset(address)
        if last < next_offset:
            out[Copied.BYTES] += size
            continue
        if base < next_offset:
            out[Copied.STOP] = CopyStop.CORRUPT
            break
        if load_i32_be(address + rb.PARTITION_LEADER_EPOCH) != row[AppendRow.BATCH_EPOCH]:
            out[Copied.STOP] = CopyStop.EPOCH
            break
        largest_ms = load_i64_be(address + rb.MAX_TIMESTAMP)
        if must_roll(row, position, base, address, size, largest_ms, now_ms):
            out[Copied.STOP] = CopyStop.ROLL
            break
        if count == batches.shape[0] or pr.room_of(producers) <= 0:
            out[Copied.STOP] = CopyStop.FULL if count == batches.shape[0] else CopyStop.PRODUCERS
            break
        batch = batches[count]
        enter(row, producers, batch, slot, address, size)
        if position == 0:
            row[AppendRow.FIRST_TIMESTAMP] = batch[Batch.MAX_TIMESTAMP]
        if count > 0:
            batches[count - 1, Batch.NEXT] = count
        count += 1
        position += size
        next_offset = last + 1
        out[Copied.BYTES] += size
        out[Copied.RECORDS] += batch[Batch.RECORDS]
        if load_i16_be(address + rb.ATTRIBUTES) & rb.ATTRIBUTE_CONTROL:
            out[Copied.MARKER] = address - buffer
            out[Copied.LAST_OFFSET] = last
            out[Copied.STOP] = CopyStop.FULL
            break
    if count > 0:
        out[Copied.ERROR] = write_batches(env, row, batches, 0)
        if out[Copied.ERROR] == 0:
            index_batches(env, row, batches, 0, counters)
            row[AppendRow.UNFLUSHED_RECORDS] += out[Copied.RECORDS]
            row[AppendRow.LAST_APPEND_MS] = now_ms
            reserve_ahead(row, now_ms)


@kernel("int64(int64[:, ::1], int64[::1], int64, int64)")
def min_offset_of_members(slots: Table, members: Words, leader_epoch: int, word: int) -> int:
    """The minimum of a word (log end or durable offset) over follower slots; -1 when one of them is
    not following this leader epoch yet, or is being written."""
    smallest = (1 << 63) - 1
    for n in range(members.size):
        words = slots[members[n]]
        sequence = words.ctypes.data + 8 * Slot.SEQUENCE
        before = load_acquire(sequence)
        epoch = words[Slot.LEADER_EPOCH]
        value = load_i64(words.ctypes.data + 8 * word)
        fence()
        if before & 1 or load_i64(sequence) != before or epoch != leader_epoch:
            return -1
        if value < smallest:
            smallest = value
    return smallest


@kernel("int64(int64[:, ::1], int64[:, ::1])")
def any_lagging(slots: Table, pairs: Table) -> int:
    """Whether a follower's log ends below its leader's; pairs: (own slot, leader's slot)."""
    for n in range(pairs.shape[0]):
        if load_acquire(slots[pairs[n, 1]].ctypes.data + 8 * Slot.LOG_END) > slots[pairs[n, 0], Slot.LOG_END]:
            return 1
    return 0
