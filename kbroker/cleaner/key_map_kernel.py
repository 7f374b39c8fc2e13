"""The offset map of one cleaning: hash of a record's key to the key's last offset, filled from
record batches.

An entry is 24 bytes: two words of hash and the offset + 1, so that memory of zeros is an empty map.
Open addressing with linear probing; the caller keeps it below its load factor. Kafka's
SkimpyOffsetMap, with another hash.
"""
# mypy: disable-error-code="no-untyped-call"

import numpy as np
from numpy.typing import NDArray

from kbroker.cleaner.rows import CleanStop, KeyMap
from kbroker.kernels.batch_header import batch_bytes, last_offset
from kbroker.kernels.batches import batch_fault
from kbroker.kernels.jit import inlined, kernel
from kbroker.kernels.keyed_hash import hash128
from kbroker.kernels.memory import load_i16_be, load_i32_be, load_i64_be
from kbroker.kernels.scan_rows import ScanStop
from kbroker.kernels.wire import BAD, read_varint, read_varint32
from kbroker.protocol import batch_layout as b

Words = NDArray[np.int64]

SPECIAL_ATTRIBUTES = b.ATTRIBUTE_CODEC_MASK | b.ATTRIBUTE_TRANSACTIONAL | b.ATTRIBUTE_CONTROL


@inlined
def find_offset(table: Words, slots: int, low: int, high: int) -> int:
    """Last offset of a key by its hash, -1 when it is not in the map."""
    at = (low & 0x7FFFFFFFFFFFFFFF) % slots
    while table[at, 2] != 0:
        if table[at, 0] == low and table[at, 1] == high:
            return table[at, 2] - 1
        at += 1
        if at == slots:
            at = 0
    return -1


@inlined
def _put(table: Words, slots: int, low: int, high: int, offset: int) -> int:
    """Set a key's offset; 1 when the key is new."""
    at = (low & 0x7FFFFFFFFFFFFFFF) % slots
    while table[at, 2] != 0:
        if table[at, 0] == low and table[at, 1] == high:
            table[at, 2] = offset + 1
            return 0
        at += 1
        if at == slots:
            at = 0
    table[at, 0] = low
    table[at, 1] = high
    table[at, 2] = offset + 1
    return 1


@inlined
def is_unordered(delta: int, previous: int, last_delta: int) -> bool:
    """Whether a record's offset delta is not above the previous one's (-1: none), or is above the
    batch's last one. Producers choose the deltas of plain batches, as with Apache Kafka."""
    return delta <= previous or delta > last_delta


@inlined
def _map_records(
    address: int, end: int, count: int, base_offset: int, last_delta: int, table: Words, state: Words
) -> int:
    """TAKEN, FULL, DAMAGED, or UNORDERED: the records before the unordered one are entered."""
    position = address
    previous = -1
    for _ in range(count):
        size, position = read_varint32(position, end)
        if position == BAD or size < 1 or size > end - position:
            return CleanStop.DAMAGED
        following = position + size
        _, position = read_varint(position + 1, following)
        if position == BAD:
            return CleanStop.DAMAGED
        delta, position = read_varint(
            position, following
        )  # any number: `is_unordered` refuses what does not fit
        if position == BAD:
            return CleanStop.DAMAGED
        length, position = read_varint32(position, following)
        if position == BAD or length > following - position:
            return CleanStop.DAMAGED
        if is_unordered(delta, previous, last_delta):
            return CleanStop.UNORDERED
        previous = delta
        state[KeyMap.RECORDS] += 1
        if length >= 0 and base_offset + delta >= state[KeyMap.START]:
            if state[KeyMap.COUNT] >= state[KeyMap.LIMIT]:
                return CleanStop.FULL
            low, high = hash128(position, length, state[KeyMap.SEED])
            state[KeyMap.COUNT] += _put(table, state[KeyMap.SLOTS], low, high, base_offset + delta)
        position = following
    return CleanStop.TAKEN if position == end else CleanStop.DAMAGED


@kernel("int64(int64, int64, int64, int64, int64, int64[:, ::1], int64[::1])")
def map_records(
    address: int, size: int, count: int, base_offset: int, last_delta: int, table: Words, state: Words
) -> int:
    """Enter the plain records section of one batch. TAKEN, FULL, DAMAGED or UNORDERED."""
    return _map_records(address, address + size, count, base_offset, last_delta, table, state)


@inlined
def next_batch(at: int, left: int) -> tuple[int, int]:
    """Find the end of the batch at an address, of which ``left`` bytes are there: (WHOLE, TAKEN
    when it ends after them, or DAMAGED; its size, 0 when the size is not there either)."""
    if left < b.RECORDS:
        return CleanStop.TAKEN, 0
    size = batch_bytes(at)
    if size < b.RECORDS:
        return CleanStop.DAMAGED, size
    if size > left:
        return CleanStop.TAKEN, size
    if batch_fault(at, size, True) != ScanStop.END:
        return CleanStop.DAMAGED, size
    return CleanStop.WHOLE, size


@kernel("int64(uint8[::1], int64, int64[:, ::1], int64[::1])")
def map_batches(buffer: NDArray[np.uint8], filled: int, table: Words, state: Words) -> int:
    """Enter the plain batches of a buffer from state[POSITION] on; says why it stopped there."""
    address = buffer.ctypes.data
    while True:
        at = address + state[KeyMap.POSITION]
        found, size = next_batch(at, filled - state[KeyMap.POSITION])
        state[KeyMap.NEXT_SIZE] = size
        if found != CleanStop.WHOLE:
            return found
        base_offset = load_i64_be(at + b.BASE_OFFSET)
        last = last_offset(at)
        if last >= state[KeyMap.START]:
            if load_i16_be(at + b.ATTRIBUTES) & SPECIAL_ATTRIBUTES:
                return CleanStop.SPECIAL
            count = load_i32_be(at + b.RECORD_COUNT)
            delta = load_i32_be(at + b.LAST_OFFSET_DELTA)
            found = _map_records(at + b.RECORDS, at + size, count, base_offset, delta, table, state)
            if found != CleanStop.TAKEN and found != CleanStop.UNORDERED:
                return found
            state[KeyMap.LATEST] = max(state[KeyMap.LATEST], last)
        elif load_i16_be(at + b.ATTRIBUTES) & (b.ATTRIBUTE_TRANSACTIONAL | b.ATTRIBUTE_CONTROL):
            return CleanStop.SPECIAL
        state[KeyMap.POSITION] += size


@kernel("int64(int64, int64, int64[:, ::1], int64[::1])")
def lookup(address: int, length: int, table: Words, state: Words) -> int:
    """Last offset of the key at an address, -1 when it is not in the map."""
    low, high = hash128(address, length, state[KeyMap.SEED])
    return find_offset(table, state[KeyMap.SLOTS], low, high)
