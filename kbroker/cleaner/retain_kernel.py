"""Decides which records of a batch stay, and writes the batch without the others.

Rules: Kafka's Cleaner.shouldRetainRecord and MemoryRecords.filterTo. A batch keeps its base offset,
last offset, producer, sequence and leader epoch whatever is taken out of it; one from which nothing
is taken is copied as it is.
"""
# mypy: disable-error-code="no-untyped-call"

import numpy as np
from numpy.typing import NDArray

from kbroker.cleaner.key_map_kernel import SPECIAL_ATTRIBUTES, find_offset, is_unordered, next_batch
from kbroker.cleaner.rows import CleanStop, KeyMap, Retain
from kbroker.kernels.batch_header import last_offset
from kbroker.kernels.batches import describe
from kbroker.kernels.crc32c import crc32c_at
from kbroker.kernels.jit import inlined, kernel
from kbroker.kernels.keyed_hash import hash128
from kbroker.kernels.memory import (
    copy,
    load_i16_be,
    load_i32_be,
    load_i64_be,
    store_i16_be,
    store_i32_be,
    store_i64_be,
    store_u8,
)
from kbroker.kernels.scan_rows import ScannedBatch
from kbroker.kernels.wire import BAD, read_varint, read_varint32
from kbroker.protocol import batch_layout as b

Words = NDArray[np.int64]
Bytes = NDArray[np.uint8]

NO_HORIZON = -1
MAX_GROWTH = 11  # bytes that a record may grow by when its timestamp delta changes
EMPTY_ATTRIBUTES = b.ATTRIBUTE_LOG_APPEND_TIME | b.ATTRIBUTE_TRANSACTIONAL | b.ATTRIBUTE_CONTROL


@inlined
def _horizon(header: int) -> int:
    """The delete horizon of the batch at an address, else NO_HORIZON."""
    if load_i16_be(header + b.ATTRIBUTES) & b.ATTRIBUTE_DELETE_HORIZON:
        return load_i64_be(header + b.BASE_TIMESTAMP)
    return NO_HORIZON


@inlined
def _decide(
    header: int, address: int, end: int, flags: Bytes, table: Words, state: Words, words: Words
) -> int:
    """Flag the records that stay. TAKEN, DAMAGED, or UNORDERED: all stay. header: of their
    batch."""
    count = load_i32_be(header + b.RECORD_COUNT)
    base_offset = load_i64_be(header + b.BASE_OFFSET)
    last_delta = load_i32_be(header + b.LAST_OFFSET_DELTA)
    base_timestamp = load_i64_be(header + b.BASE_TIMESTAMP)
    horizon = _horizon(header)
    words[Retain.KEPT] = words[Retain.TOMBSTONES] = 0
    words[Retain.MAX_TIMESTAMP] = -1
    position = address
    previous = -1
    for n in range(count):
        size, position = read_varint32(position, end)
        if position == BAD or size < 1 or size > end - position:
            return CleanStop.DAMAGED
        following = position + size
        time_delta, position = read_varint(position + 1, following)
        if position == BAD:
            return CleanStop.DAMAGED
        delta, position = read_varint(
            position, following
        )  # any number: `is_unordered` refuses what does not fit
        if position == BAD:
            return CleanStop.DAMAGED
        length, key = read_varint32(position, following)
        if key == BAD or length > following - key:
            return CleanStop.DAMAGED
        value, position = read_varint32(key + max(length, 0), following)
        if position == BAD or value > following - position:
            return CleanStop.DAMAGED
        if is_unordered(delta, previous, last_delta):
            words[Retain.RECORDS_READ] += count
            words[Retain.RECORDS_KEPT] += count
            words[Retain.KEPT], words[Retain.TOMBSTONES] = count, 0
            return CleanStop.UNORDERED
        previous = delta
        offset = base_offset + delta
        stays = offset > state[KeyMap.LATEST]
        if not stays and length < 0:
            words[Retain.WITHOUT_KEY] += 1
        elif not stays:
            low, high = hash128(key, length, state[KeyMap.SEED])
            stays = offset >= find_offset(table, state[KeyMap.SLOTS], low, high) and (
                value >= 0 or horizon == NO_HORIZON or words[Retain.NOW] < horizon
            )
        flags[n] = stays
        if stays:
            words[Retain.KEPT] += 1
            words[Retain.TOMBSTONES] += value < 0
            words[Retain.MAX_TIMESTAMP] = max(words[Retain.MAX_TIMESTAMP], base_timestamp + time_delta)
        position = following
    words[Retain.RECORDS_READ] += count
    words[Retain.RECORDS_KEPT] += words[Retain.KEPT]
    return CleanStop.TAKEN if position == end else CleanStop.DAMAGED


@inlined
def _varint_size(value: int) -> int:
    zigzag = (value << 1) ^ (value >> 63)
    size = 1
    while zigzag < 0 or zigzag > 0x7F:
        zigzag = (zigzag >> 7) & 0x01FFFFFFFFFFFFFF
        size += 1
    return size


@inlined
def _write_varint(at: int, value: int) -> int:
    zigzag = (value << 1) ^ (value >> 63)
    while zigzag < 0 or zigzag > 0x7F:
        store_u8(at, (zigzag & 0x7F) | 0x80)
        zigzag = (zigzag >> 7) & 0x01FFFFFFFFFFFFFF
        at += 1
    store_u8(at, zigzag)
    return at + 1


@inlined
def _copy_records(address: int, end: int, count: int, flags: Bytes, shift: int, target: int) -> int:
    """Write the flagged records, their timestamp deltas raised by ``shift``; returns the address
    after them."""
    position = address
    for n in range(count):
        start = position
        size, position = read_varint32(position, end)
        following = position + size
        if flags[n]:
            if shift == 0:
                copy(target, start, following - start)
                target += following - start
            else:
                old, rest = read_varint(position + 1, following)
                target = _write_varint(target, 1 + _varint_size(old + shift) + following - rest)
                store_u8(target, 0)
                target = _write_varint(target + 1, old + shift)
                copy(target, rest, following - rest)
                target += following - rest
        position = following
    return target


@kernel("int64(int64, int64, int64, uint8[::1], int64[:, ::1], int64[::1], int64[::1])")
def decide(
    header: int, address: int, size: int, flags: Bytes, table: Words, state: Words, words: Words
) -> int:
    """Flag the records of one plain records section that stay (flags: a byte each); counts go to
    ``words``. header: of their batch."""
    return _decide(header, address, address + size, flags, table, state, words)


@kernel("int64(int64, int64, int64, uint8[::1], int64, int64)")
def copy_records(address: int, size: int, count: int, flags: Bytes, shift: int, target: int) -> int:
    """Write the flagged records of a records section to ``target`` (size + MAX_GROWTH a record);
    returns their bytes.

    shift: old base timestamp - new one."""
    return _copy_records(address, address + size, count, flags, shift, target) - target


@inlined
def _write_empty(at: int, target: int) -> int:
    """A batch of no records that keeps offsets, producer and sequence
    (DefaultRecordBatch.writeEmptyHeader)."""
    copy(target, at, b.RECORDS)
    store_i32_be(target + b.LENGTH, b.RECORDS - b.LENGTH_OVERHEAD)
    store_i16_be(target + b.ATTRIBUTES, load_i16_be(at + b.ATTRIBUTES) & EMPTY_ATTRIBUTES)
    store_i64_be(target + b.BASE_TIMESTAMP, -1)
    store_i32_be(target + b.RECORD_COUNT, 0)
    store_i32_be(target + b.CRC, crc32c_at(target + b.ATTRIBUTES, b.RECORDS - b.ATTRIBUTES))
    return b.RECORDS


@kernel("int64(int64, int64)")
def write_empty(at: int, target: int) -> int:
    """Write the empty batch that stands for the one at an address; returns its bytes."""
    return _write_empty(at, target)


@inlined
def _write_filtered(at: int, size: int, flags: Bytes, horizon: int, words: Words, target: int) -> int:
    """Write an uncompressed batch with its flagged records only; horizon: a new delete horizon,
    else NO_HORIZON."""
    count = load_i32_be(at + b.RECORD_COUNT)
    base_timestamp = load_i64_be(at + b.BASE_TIMESTAMP)
    attributes = load_i16_be(at + b.ATTRIBUTES)
    copy(target, at, b.RECORDS)
    shift = 0
    if horizon != NO_HORIZON:
        shift = base_timestamp - horizon
        store_i64_be(target + b.BASE_TIMESTAMP, horizon)
        attributes |= b.ATTRIBUTE_DELETE_HORIZON
        store_i16_be(target + b.ATTRIBUTES, attributes)
    end = _copy_records(at + b.RECORDS, at + size, count, flags, shift, target + b.RECORDS)
    if not attributes & b.ATTRIBUTE_LOG_APPEND_TIME:
        store_i64_be(target + b.MAX_TIMESTAMP, words[Retain.MAX_TIMESTAMP])
    store_i32_be(target + b.LENGTH, end - target - b.LENGTH_OVERHEAD)
    store_i32_be(target + b.RECORD_COUNT, words[Retain.KEPT])
    store_i32_be(target + b.CRC, crc32c_at(target + b.ATTRIBUTES, end - target - b.ATTRIBUTES))
    return end - target


@inlined
def _contains(offsets: Words, offset: int) -> bool:
    """Whether an offset is among the sorted ones."""
    low, high = 0, offsets.size
    while low < high:
        middle = (low + high) // 2
        if offsets[middle] < offset:
            low = middle + 1
        else:
            high = middle
    return low < offsets.size and offsets[low] == offset


@inlined
def _write_kept(at: int, size: int, flags: Bytes, last_offsets: Words, words: Words, target: int) -> int:
    """Write what stays of a batch, given its flags; returns the bytes, 0 when nothing stays."""
    count = load_i32_be(at + b.RECORD_COUNT)
    new_horizon = NO_HORIZON
    if words[Retain.TOMBSTONES] > 0 and _horizon(at) == NO_HORIZON:
        new_horizon = words[Retain.NEW_HORIZON]
    if count > 0 and words[Retain.KEPT] == count and new_horizon == NO_HORIZON:
        copy(target, at, size)
        return size
    if words[Retain.KEPT] > 0:
        words[Retain.CHANGED] += 1
        return _write_filtered(at, size, flags, new_horizon, words, target)
    written = 0
    last = last_offset(at)
    sequenced = load_i64_be(at + b.PRODUCER_ID) >= 0 and _contains(last_offsets, last)
    if sequenced or words[Retain.POSITION] + size == words[Retain.KEEP_END]:
        written = _write_empty(at, target)
    words[Retain.CHANGED] += written != size
    return written


@kernel(
    "int64(uint8[::1], int64, uint8[::1], int64[:, ::1], uint8[::1], int64[::1], int64[:, ::1], int64[::1], int64[::1])"
)
def filter_batches(
    buffer: Bytes,
    filled: int,
    out: Bytes,
    rows: Words,
    flags: Bytes,
    last_offsets: Words,
    table: Words,
    state: Words,
    words: Words,
) -> int:
    """Filter the plain batches of a buffer from words[POSITION] on into ``out`` and its ``rows``;
    says why it stopped.

    last_offsets: sorted; of the last batch of each active producer, which stays for its sequence.
    state: of the map."""
    address = buffer.ctypes.data
    target = out.ctypes.data
    while True:
        at = address + words[Retain.POSITION]
        found, size = next_batch(at, filled - words[Retain.POSITION])
        words[Retain.NEXT_SIZE] = size
        if found != CleanStop.WHOLE:
            return found
        attributes = load_i16_be(at + b.ATTRIBUTES)
        if attributes & SPECIAL_ATTRIBUTES:
            return CleanStop.SPECIAL
        count = load_i32_be(at + b.RECORD_COUNT)
        max_bytes = size + MAX_GROWTH * count
        if (
            words[Retain.OUT] + max_bytes > out.size
            or words[Retain.ROWS] == rows.shape[0]
            or count > flags.size
        ):
            words[Retain.NEXT_SIZE] = max_bytes
            return CleanStop.OUT_FULL
        if _decide(at, at + b.RECORDS, at + size, flags, table, state, words) == CleanStop.DAMAGED:
            return CleanStop.DAMAGED
        written = _write_kept(at, size, flags, last_offsets, words, target + words[Retain.OUT])
        if written > 0:
            here = target + words[Retain.OUT]
            describe(here, words[Retain.FILE_POSITION] + words[Retain.OUT], written, rows, words[Retain.ROWS])
            if words[Retain.KEPT] == 0:
                # no record has it: not for the time index
                rows[words[Retain.ROWS], ScannedBatch.MAX_TIMESTAMP] = -1
            words[Retain.OUT] += written
            words[Retain.ROWS] += 1
        words[Retain.POSITION] += size
