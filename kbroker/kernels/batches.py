"""Walking record batches (magic 2) of a segment file: validation, recovery scan, header replay.

Files are read by pread, never mapped: a truncation by their owner then shows as a short read, not
as SIGBUS. A walk ends by Kafka's rules (FileLogInputStream, DefaultRecordBatch.ensureValid), with
two more checks: offsets must rise, and a magic above 2 is damage.
"""
# mypy: disable-error-code="no-untyped-call"

import numpy as np
from numpy.typing import NDArray

from kbroker.kernels.batch_header import MIN_LEGACY_RECORD, batch_bytes, last_offset
from kbroker.kernels.crc32c import crc32c_at
from kbroker.kernels.jit import inlined, kernel
from kbroker.kernels.libc import pread
from kbroker.kernels.memory import (
    load_i8,
    load_i16_be,
    load_i32_be,
    load_i64_be,
    load_u8,
    load_u32_be,
    wrapped,
)
from kbroker.kernels.scan_rows import ScannedBatch, ScanState, ScanStop
from kbroker.protocol import batch_layout as b

Rows = NDArray[np.int64]

CONTROL_PEEK = 128  # bytes after the header that hold a control record
SPARSE_BYTES = 1 << 14  # from this size of batches on headers are read one by one


@inlined
def batch_fault(address: int, size: int, check_crc: bool) -> int:
    """The fault of the batch of ``size`` bytes (LENGTH included) at an address; END when there is
    none."""
    magic = load_i8(address + b.MAGIC)
    if magic == 0 or magic == 1:
        return ScanStop.OLD_MAGIC
    if magic != b.MAGIC_V2:
        return ScanStop.BAD_MAGIC
    if size < b.HEADER_BYTES:
        return ScanStop.BAD_LENGTH
    if check_crc and load_u32_be(address + b.CRC) != crc32c_at(address + b.ATTRIBUTES, size - b.ATTRIBUTES):
        return ScanStop.BAD_CRC
    delta = load_i32_be(address + b.LAST_OFFSET_DELTA)
    count = load_i32_be(address + b.RECORD_COUNT)
    if delta < 0 or count < 0 or count > delta + 1:
        return ScanStop.BAD_COUNT
    return ScanStop.END


@inlined
def _varint_size(address: int) -> int:
    """Bytes of the varint at an address, at most 10: the timestamp delta has 64 bits."""
    size = 1
    while size < 10 and load_u8(address + size - 1) >= 0x80:
        size += 1
    return size


@inlined
def _control(address: int, rows: Rows, row: int) -> None:
    """Type and coordinator epoch of an uncompressed control batch's only record.

    Record: length varint, attributes, timestamp delta varint, offset delta varint, key length
    varint, key (version int16, type int16), value length varint, value (version int16, coordinator
    epoch int32).
    """
    at = address + b.RECORDS
    at += _varint_size(at) + 1
    at += _varint_size(at)
    at += _varint_size(at)
    at += _varint_size(at)
    rows[row, ScannedBatch.CONTROL_TYPE] = load_i16_be(at + 2)
    at += 4
    at += _varint_size(at)
    rows[row, ScannedBatch.COORDINATOR_EPOCH] = load_i32_be(at + 2)


@inlined
def describe(address: int, position: int, size: int, rows: Rows, row: int) -> None:
    """Fill a row from the batch header at an address."""
    base = load_i64_be(address + b.BASE_OFFSET)
    attributes = load_i16_be(address + b.ATTRIBUTES)
    count = load_i32_be(address + b.RECORD_COUNT)
    rows[row, ScannedBatch.POSITION] = position
    rows[row, ScannedBatch.SIZE] = size
    rows[row, ScannedBatch.BASE_OFFSET] = base
    rows[row, ScannedBatch.LAST_OFFSET] = wrapped(last_offset(address))
    rows[row, ScannedBatch.MAX_TIMESTAMP] = load_i64_be(address + b.MAX_TIMESTAMP)
    rows[row, ScannedBatch.BASE_TIMESTAMP] = load_i64_be(address + b.BASE_TIMESTAMP)
    rows[row, ScannedBatch.LEADER_EPOCH] = load_i32_be(address + b.PARTITION_LEADER_EPOCH)
    rows[row, ScannedBatch.ATTRIBUTES] = attributes
    rows[row, ScannedBatch.PRODUCER_ID] = load_i64_be(address + b.PRODUCER_ID)
    rows[row, ScannedBatch.PRODUCER_EPOCH] = load_i16_be(address + b.PRODUCER_EPOCH)
    rows[row, ScannedBatch.BASE_SEQUENCE] = load_i32_be(address + b.BASE_SEQUENCE)
    rows[row, ScannedBatch.RECORD_COUNT] = count
    rows[row, ScannedBatch.CONTROL_TYPE] = -1
    rows[row, ScannedBatch.COORDINATOR_EPOCH] = -1
    if attributes & b.ATTRIBUTE_CONTROL and count > 0 and size >= b.HEADER_BYTES + 12:
        _control(address, rows, row)


@kernel("int64(int64, int64, int64, int64, boolean, uint8[::1], int64[:, ::1], int64[::1])")
def scan(
    fd: int,
    end: int,
    highest_offset: int,
    max_rows: int,
    check_crc: bool,
    buffer: NDArray[np.uint8],
    rows: Rows,
    state: Rows,
) -> int:
    """Rows of the batches from NEXT_POSITION of the state up to byte ``end`` of a segment file;
    returns how many.

    state (int64[ScanState.WORDS]) is advanced over good batches and STOP is the reason why the walk
    ended; call again while it is MORE. check_crc=False reads headers only. buffer: at least 512
    bytes; for CRC CONTROL_PEEK more than the largest batch (see ScanStop.NEED_BUFFER).
    highest_offset: largest that a record of this segment may have.
    """
    address = buffer.ctypes.data
    capacity = buffer.size - CONTROL_PEEK  # reading a control record may pass the end of the read bytes
    position = state[ScanState.NEXT_POSITION]
    lowest = state[ScanState.NEXT_OFFSET]
    start, filled = position, 0  # the buffer holds file bytes [start, start + filled)
    found = size = 0
    stop = ScanStop.MORE
    while found < max_rows:
        left = end - position
        if left <= 0:
            stop = ScanStop.END
            break
        if left < b.MAGIC + 1:
            stop = ScanStop.TORN
            break
        need = min(left, b.HEADER_BYTES + CONTROL_PEEK)
        if position + need > start + filled:
            start = position
            sparse = size >= SPARSE_BYTES and not check_crc
            filled = pread(fd, address, need if sparse else min(capacity, left), position)
            if filled < need:
                stop = ScanStop.READ_FAILED if filled < 0 else ScanStop.TORN
                break
        at = address + (position - start)
        size = batch_bytes(at)
        if size < MIN_LEGACY_RECORD + b.LENGTH_OVERHEAD:
            stop = ScanStop.BAD_LENGTH
            break
        if size > left:
            stop = ScanStop.TORN
            break
        if check_crc and position + size > start + filled:
            if size > capacity:
                state[ScanState.NEXT_SIZE] = size
                stop = ScanStop.NEED_BUFFER
                break
            start = position
            filled = pread(fd, address, min(capacity, left), position)
            if filled < size:
                stop = ScanStop.READ_FAILED if filled < 0 else ScanStop.TORN
                break
            at = address
        fault = batch_fault(at, size, check_crc)
        if fault != ScanStop.END:
            stop = fault
            break
        describe(at, position, size, rows, found)
        # a base offset that is too high by itself: its last one may have wrapped around
        base, last = rows[found, ScannedBatch.BASE_OFFSET], rows[found, ScannedBatch.LAST_OFFSET]
        if base < lowest or base > highest_offset or last > highest_offset:
            stop = ScanStop.BAD_OFFSET
            break
        lowest = last + 1
        position += size
        found += 1
    state[ScanState.NEXT_POSITION] = position
    state[ScanState.NEXT_OFFSET] = lowest
    state[ScanState.STOP] = stop
    return found
