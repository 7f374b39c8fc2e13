"""Kernels of the segment source: batch headers of a chunk, records of batches, bytes into Arrow's layout.

Compiled once to the folder of kbroker's own kernels. Addresses are raw: the caller keeps the buffers alive.
"""
# mypy: disable-error-code="no-untyped-call"

import numpy as np
from numpy.typing import NDArray

from kbroker.kernels.batches import MIN_LENGTH, batch_fault, describe
from kbroker.kernels.crc32c import crc32c_at
from kbroker.kernels.jit import inlined, kernel
from kbroker.kernels.memory import copy, load_i32_be, load_i64_be, load_u8, load_u32_be
from kbroker.kernels.scan_rows import ScannedBatch, ScanStop
from kbroker.kernels.wire import read_varint
from kbroker.protocol import batch_layout as b

Words = NDArray[np.int64]
Bytes = NDArray[np.uint8]

FAULT = ScannedBatch.WORDS  # of a batch: a stop code of kbroker.kernels.batches, END when it is sound
BATCH_COLUMNS = ScannedBatch.WORDS + 1

# words of the state of `headers`
CONSUMED = 0  # bytes of the chunk that whole batches took
STOP = 1
STATE_WORDS = 2

# columns of a decoded record
OFFSET = 0
TIMESTAMP = 1  # ms
BATCH = 2  # row of its batch
KEY_AT = 3  # address
KEY_SIZE = 4  # -1: null
VALUE_AT = 5
VALUE_SIZE = 6
RECORD_COLUMNS = 7

LOG_APPEND_TIME = b.ATTRIBUTE_LOG_APPEND_TIME

# columns of `identities`
KEY = 0
PRODUCER = 1
SEQ = 2
PARTITION_SEQ = 3
FLAGS = 4
INTACT = 5
INTENDED_NS = 6
IDENTITY_COLUMNS = 7

VALUE_HEADER = 40
MAGIC_AND_VERSION = 0x4B4C01


@kernel("int64(int64, int64, int64, boolean, int64[:, ::1], int64[::1])")
def headers(address: int, length: int, position: int, check_crc: bool, rows: Words, state: Words) -> int:
    """Rows of the whole batches in a chunk that starts with one; a batch with a wrong CRC or count is kept, marked.

    position: of the chunk in its file. state[STOP]: MORE (rows full), END, TORN (the rest is no whole batch), or
    what makes walking on impossible. Returns the rows filled.
    """
    at = 0
    found = 0
    stop = ScanStop.MORE
    while found < rows.shape[0]:
        left = length - at
        if left <= 0:
            stop = ScanStop.END
            break
        if left < b.HEADER_BYTES:
            stop = ScanStop.TORN
            break
        size = load_i32_be(address + at + b.LENGTH) + b.LENGTH_OVERHEAD
        if size < MIN_LENGTH + b.LENGTH_OVERHEAD:
            stop = ScanStop.BAD_LENGTH
            break
        if size > left:
            stop = ScanStop.TORN
            break
        fault = batch_fault(address + at, size, check_crc)
        describe(address + at, position + at, size, rows, found)
        rows[found, FAULT] = fault
        at += size
        found += 1
    state[CONSUMED] = at
    state[STOP] = stop
    return found


@inlined
def key_number(at: int, size: int) -> int:
    """The number in a key: "k" and seven digits; -1 for other keys."""
    if size != 8 or load_u8(at) != 0x6B:
        return -1
    number = 0
    for n in range(1, 8):
        digit = load_u8(at + n) - 0x30
        if digit < 0 or digit > 9:
            return -1
        number = number * 10 + digit
    return number


@kernel("int64(int64[:, ::1], int64[::1], int64[::1], int64[::1], int64, int64[:, ::1], uint8[::1])")
def records(
    rows: Words, picked: Words, addresses: Words, lengths: Words, count: int, out: Words, damaged: Bytes
) -> int:
    """Decode the plain records sections of ``count`` batches into rows of ``out`` (RECORD_COLUMNS); returns how many.

    picked: row of each batch; addresses, lengths: of its records section. damaged[n] is set for a batch with a
    malformed record, whose further records are left out. out must have room for all RECORD_COUNTs.
    """
    made = 0
    for n in range(count):
        row = picked[n]
        base = rows[row, ScannedBatch.BASE_OFFSET]
        first_timestamp = rows[row, ScannedBatch.BASE_TIMESTAMP]
        append_time = rows[row, ScannedBatch.ATTRIBUTES] & LOG_APPEND_TIME
        at, end = addresses[n], addresses[n] + lengths[n]
        for _ in range(rows[row, ScannedBatch.RECORD_COUNT]):
            size, at = read_varint(at, end)
            if at < 0 or size < 1 or size > end - at:
                damaged[n] = 1
                break
            stop = at + size
            time_delta, at = read_varint(at + 1, stop)
            if at < 0:
                damaged[n] = 1
                break
            offset_delta, at = read_varint(at, stop)
            if at < 0:
                damaged[n] = 1
                break
            key_size, at = read_varint(at, stop)
            if at < 0 or key_size > stop - at:
                damaged[n] = 1
                break
            key_at = at
            if key_size > 0:
                at += key_size
            value_size, at = read_varint(at, stop)
            if at < 0 or value_size > stop - at:
                damaged[n] = 1
                break
            out[made, OFFSET] = base + offset_delta
            out[made, TIMESTAMP] = (
                rows[row, ScannedBatch.MAX_TIMESTAMP] if append_time else first_timestamp + time_delta
            )
            out[made, BATCH] = row
            out[made, KEY_AT] = key_at
            out[made, KEY_SIZE] = max(key_size, -1)
            out[made, VALUE_AT] = at
            out[made, VALUE_SIZE] = max(value_size, -1)
            made += 1
            at = stop
        if at != end:
            damaged[n] = 1
    return made


@kernel("int64(int64[:, ::1], int64, int64, int64, int32[::1], uint8[::1], int64)")
def gather(
    found: Words, column: int, start: int, stop: int, ends: NDArray[np.int32], valid: Bytes, data: int
) -> int:
    """Append keys or values of records [start, stop), as Arrow wants a binary column; returns nulls.

    column: KEY_AT or VALUE_AT; ends: ends[start] is where the bytes go on, further ones are filled in; valid: bitmap,
    zeros from start on; data: address of room for all bytes.
    """
    at = np.int64(ends[start])
    nulls = 0
    for n in range(start, stop):
        size = found[n, column + 1]
        if size < 0:
            nulls += 1
        else:
            copy(data + at, found[n, column], size)
            at += size
            valid[n >> 3] |= 1 << (n & 7)
        ends[n + 1] = at
    return nulls


@kernel("void(int64[:, ::1], int64, int64, int64, int64[:, ::1])")
def identities(found: Words, start: int, stop: int, run: int, out: Words) -> None:
    """Decode the headers of load-test records [start, stop); layout: loadtest/record.py.

    run: 31 bits, -1 takes any. out: rows of IDENTITY_COLUMNS. A value that is not ours has producer, seq and
    partition_seq -1; INTACT is 1 when the checksum is right and the value is of this run.
    """
    for n in range(start, stop):
        row = n - start
        out[row, KEY] = key_number(found[n, KEY_AT], found[n, KEY_SIZE])
        at, size = found[n, VALUE_AT], found[n, VALUE_SIZE]
        ours = size >= VALUE_HEADER and (load_u32_be(at + 4) >> 8) == MAGIC_AND_VERSION
        if not ours:
            out[row, PRODUCER] = -1
            out[row, SEQ] = -1
            out[row, PARTITION_SEQ] = -1
            out[row, FLAGS] = 0
            out[row, INTACT] = 0
            out[row, INTENDED_NS] = -1
            continue
        whole = load_u32_be(at) == crc32c_at(at + 4, size - 4)
        out[row, PRODUCER] = load_u32_be(at + 12)
        out[row, SEQ] = load_i64_be(at + 16)
        out[row, PARTITION_SEQ] = load_i64_be(at + 24)
        out[row, FLAGS] = load_u8(at + 7)
        out[row, INTACT] = whole and (run < 0 or load_u32_be(at + 8) == run)
        out[row, INTENDED_NS] = load_i64_be(at + 32)
