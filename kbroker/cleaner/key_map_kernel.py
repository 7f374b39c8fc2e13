"""The offset map of one cleaning: hash of a record's key to the key's last offset, filled from record batches.

An entry is 24 bytes: two words of hash and the offset + 1, so that memory of zeros is an empty map. Open addressing
with linear probing; the caller keeps it below its load factor. Kafka's SkimpyOffsetMap, with another hash.
"""
# mypy: disable-error-code="no-untyped-call"

import numpy as np
from numpy.typing import NDArray

from kbroker.kernels.batches import END, batch_fault
from kbroker.kernels.hash128 import hash128
from kbroker.kernels.jit import inlined, kernel
from kbroker.kernels.memory import load_i16_be, load_i32_be, load_i64_be
from kbroker.kernels.wire import BAD, read_varint
from kbroker.protocol import batch_layout as b

Words = NDArray[np.int64]

# words of a map's state
SEED = 0
SLOTS = 1  # in use, of the table's rows
LIMIT = 2  # keys that may be in it
COUNT = 3  # keys that are in it
START = 4  # first dirty offset: records before it are not looked at
LATEST = 5  # every batch up to this offset is in the map
POSITION = 6  # in the buffer: batches before it have been taken
NEXT_SIZE = 7  # of the batch at POSITION, when the buffer ends within it
RECORDS = 8  # seen
MAP_WORDS = 9

# why a walk over a buffer stopped
TAKEN = 0  # up to its end, or to a batch that ends behind it (NEXT_SIZE, 0 when not even that is there)
SPECIAL = 1  # compressed, transactional or control: Python looks at it
FULL = 2
DAMAGED = 3
WHOLE = 4  # it did not: a plain or special batch is there

PLAIN = 0
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
def _map_records(address: int, end: int, count: int, base_offset: int, table: Words, state: Words) -> int:
    """TAKEN, FULL or DAMAGED."""
    position = address
    for _ in range(count):
        size, position = read_varint(position, end)
        if position == BAD or size < 1 or size > end - position:
            return DAMAGED
        following = position + size
        _, position = read_varint(position + 1, following)
        if position == BAD:
            return DAMAGED
        delta, position = read_varint(position, following)
        if position == BAD:
            return DAMAGED
        length, position = read_varint(position, following)
        if position == BAD or length > following - position:
            return DAMAGED
        state[RECORDS] += 1
        if length >= 0 and base_offset + delta >= state[START]:
            if state[COUNT] >= state[LIMIT]:
                return FULL
            low, high = hash128(position, length, state[SEED])
            state[COUNT] += _put(table, state[SLOTS], low, high, base_offset + delta)
        position = following
    return TAKEN if position == end else DAMAGED


@kernel("int64(int64, int64, int64, int64, int64[:, ::1], int64[::1])")
def map_records(address: int, size: int, count: int, base_offset: int, table: Words, state: Words) -> int:
    """Enter the plain records section of one batch. TAKEN, FULL or DAMAGED."""
    return _map_records(address, address + size, count, base_offset, table, state)


@inlined
def next_batch(at: int, left: int) -> tuple[int, int]:
    """The batch at an address, of which so many bytes are there: (WHOLE, TAKEN when it ends behind them, or DAMAGED;
    its size, 0 when not even that is there)."""
    if left < b.RECORDS:
        return TAKEN, 0
    size = load_i32_be(at + b.LENGTH) + b.LENGTH_OVERHEAD
    if size < b.RECORDS:
        return DAMAGED, size
    if size > left:
        return TAKEN, size
    if batch_fault(at, size, True) != END:
        return DAMAGED, size
    return WHOLE, size


@kernel("int64(uint8[::1], int64, int64[:, ::1], int64[::1])")
def map_batches(buffer: NDArray[np.uint8], filled: int, table: Words, state: Words) -> int:
    """Enter the plain batches of a buffer from state[POSITION] on; says why it stopped there."""
    address = buffer.ctypes.data
    while True:
        at = address + state[POSITION]
        found, size = next_batch(at, filled - state[POSITION])
        state[NEXT_SIZE] = size
        if found != WHOLE:
            return found
        base_offset = load_i64_be(at + b.BASE_OFFSET)
        last_offset = base_offset + load_i32_be(at + b.LAST_OFFSET_DELTA)
        if last_offset >= state[START]:
            if load_i16_be(at + b.ATTRIBUTES) & SPECIAL_ATTRIBUTES:
                return SPECIAL
            count = load_i32_be(at + b.RECORD_COUNT)
            found = _map_records(at + b.RECORDS, at + size, count, base_offset, table, state)
            if found != TAKEN:
                return found
            state[LATEST] = max(state[LATEST], last_offset)
        elif load_i16_be(at + b.ATTRIBUTES) & (b.ATTRIBUTE_TRANSACTIONAL | b.ATTRIBUTE_CONTROL):
            return SPECIAL
        state[POSITION] += size


@kernel("int64(int64, int64, int64[:, ::1], int64[::1])")
def lookup(address: int, length: int, table: Words, state: Words) -> int:
    """Last offset of the key at an address, -1 when it is not in the map."""
    low, high = hash128(address, length, state[SEED])
    return find_offset(table, state[SLOTS], low, high)
