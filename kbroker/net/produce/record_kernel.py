"""Walks over the records of an uncompressed batch: structure, timestamps, keys (Kafka's
DefaultRecord.readFrom).

Kafka reads every record of a produced batch before it appends. `partial_record_kernel` walks over
compressed ones.
"""

from kbroker.kernels.jit import inlined
from kbroker.kernels.memory import load_i32_be, load_i64_be
from kbroker.kernels.rows import put
from kbroker.kernels.wire import read_varint, read_varint32
from kbroker.net.rows import Context
from kbroker.protocol import batch_layout as rb

WALK_FINE = 0
WALK_BROKEN = 1  # not the records the header promises
WALK_DAMAGED = 3  # a size of more than 5 bytes: Kafka has no error of its own for it
WALK_REFUSED = 2  # a timestamp out of range or a missing key: the records have errors of their own


@inlined
def _skip_field(position: int, end: int) -> int:
    """Position after a varint length and its bytes (none when negative), -1 when they do not
    fit."""
    size, position = read_varint32(position, end)
    if position < 0 or size > end - position:
        return -1
    return position + size if size > 0 else position


@inlined
def _skip_headers(position: int, end: int) -> int:
    count, position = read_varint32(position, end)
    if position < 0 or count < 0 or count > end - position:
        return -1
    for _ in range(count):
        size, position = read_varint32(position, end)
        if position < 0 or size < 0 or size > end - position:
            return -1
        position = _skip_field(position + size, end)
        if position < 0:
            return -1
    return position


@inlined
def walk_records(cx: int, address: int, length: int, need_keys: bool, oldest: int, newest: int) -> int:
    """Check the records of the batch at an address; sets Context.WALK_MAX_TIMESTAMP (-1 when no
    record has one).

    oldest, newest: the timestamps allowed; -1 (no timestamp) always is.
    """
    position = address + rb.RECORDS
    end = address + length
    base = load_i64_be(address + rb.BASE_TIMESTAMP)
    count = load_i32_be(address + rb.RECORD_COUNT)
    largest = -1
    outcome = WALK_FINE
    for _ in range(count):
        start = position
        size, position = read_varint32(start, end)
        if position < 0 and end - start >= 5:
            return WALK_DAMAGED
        if position < 0 or size < 1 or size > end - position:
            return WALK_BROKEN
        stop = position + size
        delta, position = read_varint(position + 1, stop)
        if position < 0:
            return WALK_BROKEN
        timestamp = base + delta
        largest = max(largest, timestamp)
        if timestamp != -1 and (timestamp < oldest or timestamp > newest):
            outcome = WALK_REFUSED
        _, position = read_varint32(position, stop)
        if position < 0:
            return WALK_BROKEN
        key, position = read_varint32(position, stop)
        if position < 0 or key > stop - position:
            return WALK_BROKEN
        if key > 0:
            position += key
        elif key < 0 and need_keys:
            outcome = WALK_REFUSED
        position = _skip_field(position, stop)
        if position < 0:
            return WALK_BROKEN
        position = _skip_headers(position, stop)
        if position != stop:
            return WALK_BROKEN
    if position != end:
        return WALK_BROKEN
    put(cx, Context.WALK_MAX_TIMESTAMP, largest)
    return outcome
