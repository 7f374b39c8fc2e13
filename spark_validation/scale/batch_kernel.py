"""Writes record batches of load-test records, as producers and broker would have; layout:
loadtest/record.py."""
# mypy: disable-error-code="no-untyped-call"

import numpy as np
from numpy.typing import NDArray

from kbroker.kernels.crc32c import crc32c_at
from kbroker.kernels.jit import inlined, kernel
from kbroker.kernels.memory import store_i16_be, store_i32_be, store_i64_be, store_u8
from kbroker.protocol import batch_layout as b

Words = NDArray[np.int64]
HEADER = 40
MAGIC = 0x4B4C

# words of what a batch is made of
BASE_OFFSET = 0
FIRST_SEQ = 1
FIRST_PARTITION_SEQ = 2
PRODUCER = 3
COUNT = 4
FIRST_NS = 5  # of the first record; each next one STEP_NS later
STEP_NS = 6
POSITION = 7  # out: where the batch starts
WORDS = 8


@inlined
def varint_size(value: int) -> int:
    """Bytes of the zigzag varint of a value that is not negative."""
    size = 1
    rest = value >> 6
    while rest > 0:
        size += 1
        rest >>= 7
    return size


@inlined
def put_varint(at: int, value: int) -> int:
    """Zigzag varint of a value that is not negative; returns the position after it."""
    rest = value << 1
    while rest >= 0x80:
        store_u8(at, (rest & 0x7F) | 0x80)
        rest >>= 7
        at += 1
    store_u8(at, rest)
    return at + 1


@kernel("int64(int64[:, ::1], int64, int64, int64, int64[::1], uint8[::1])")
def write_batches(
    plan: Words, count: int, run: int, value_size: int, keys: Words, out: NDArray[np.uint8]
) -> int:
    """Write ``count`` batches of rows of WORDS one after the other; returns the bytes. keys: of
    their records.

    The producer id of a batch is PRODUCER + 1000, its base sequence FIRST_PARTITION_SEQ:
    idempotence, epoch 0.
    """
    start = out.ctypes.data
    at = start
    taken = 0
    for n in range(count):
        row = plan[n]
        plan[n, POSITION] = at - start
        records = row[COUNT]
        first_ms = row[FIRST_NS] // 1_000_000
        last_ms = (row[FIRST_NS] + (records - 1) * row[STEP_NS]) // 1_000_000
        body = at + b.RECORDS
        for i in range(records):
            intended_ns = row[FIRST_NS] + i * row[STEP_NS]
            # size of the record: attributes, two deltas, key and value with their lengths, no
            # header
            time_delta = intended_ns // 1_000_000 - first_ms
            size = (
                1
                + varint_size(time_delta)
                + varint_size(i)
                + 1
                + 8
                + varint_size(value_size)
                + value_size
                + 1
            )
            body = put_varint(body, size)
            store_u8(body, 0)
            body = put_varint(body + 1, time_delta)
            body = put_varint(body, i)
            body = put_varint(body, 8)
            store_u8(body, 0x6B)
            key = keys[taken]
            taken += 1
            for digit in range(7):
                store_u8(body + 7 - digit, 0x30 + key % 10)
                key //= 10
            body = put_varint(body + 8, value_size)
            store_i16_be(body + 4, MAGIC)
            store_u8(body + 6, 1)
            store_u8(body + 7, 0)
            store_i32_be(body + 8, run)
            store_i32_be(body + 12, row[PRODUCER])
            store_i64_be(body + 16, row[FIRST_SEQ] + i)
            store_i64_be(body + 24, row[FIRST_PARTITION_SEQ] + i)
            store_i64_be(body + 32, intended_ns)
            for byte in range(HEADER, value_size):
                store_u8(body + byte, (byte * 31 + i) & 0xFF)
            store_i32_be(body, crc32c_at(body + 4, value_size - 4))
            store_u8(body + value_size, 0)
            body += value_size + 1
        store_i64_be(at + b.BASE_OFFSET, row[BASE_OFFSET])
        store_i32_be(at + b.LENGTH, body - at - b.LENGTH_OVERHEAD)
        store_i32_be(at + b.PARTITION_LEADER_EPOCH, 0)
        store_u8(at + b.MAGIC, 2)
        store_i16_be(at + b.ATTRIBUTES, 0)
        store_i32_be(at + b.LAST_OFFSET_DELTA, records - 1)
        store_i64_be(at + b.BASE_TIMESTAMP, first_ms)
        store_i64_be(at + b.MAX_TIMESTAMP, last_ms)
        store_i64_be(at + b.PRODUCER_ID, row[PRODUCER] + 1000)
        store_i16_be(at + b.PRODUCER_EPOCH, 0)
        store_i32_be(at + b.BASE_SEQUENCE, row[FIRST_PARTITION_SEQ] & 0x7FFFFFFF)
        store_i32_be(at + b.RECORD_COUNT, records)
        store_i32_be(at + b.CRC, crc32c_at(at + b.ATTRIBUTES, body - at - b.ATTRIBUTES))
        at = body
    return at - start
