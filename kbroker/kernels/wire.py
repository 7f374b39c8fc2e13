"""Kafka's wire types in raw memory: reading with bounds, where a position of -1 says malformed, and
writing."""

from kbroker.kernels.jit import inlined
from kbroker.kernels.memory import (
    copy,
    load_i16_be,
    load_i32_be,
    load_u8,
    store_i16_be,
    store_i32_be,
    store_u8,
)

BAD = -1
MAX_TAGS = 64  # Kafka has none in what kernels read; millions would be skipped in one go


@inlined
def _read_groups(position: int, end: int, max_bits: int) -> tuple[int, int]:
    """Groups of 7 bits up to one without the continuation bit: (value, position after it)."""
    value = 0
    shift = 0
    while position < end and shift < max_bits:
        byte = load_u8(position)
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    return 0, BAD


@inlined
def read_uvarint(position: int, end: int) -> tuple[int, int]:
    """Unsigned varint of up to 32 bits: (value, position after it)."""
    value, position = _read_groups(position, end, 35)
    return (value, position) if value < 1 << 32 else (0, BAD)


@inlined
def read_varint(position: int, end: int) -> tuple[int, int]:
    """Zigzag varint of up to 64 bits: (value, position after it)."""
    value, position = _read_groups(position, end, 70)
    return ((value >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(value & 1), position


@inlined
def read_varint32(position: int, end: int) -> tuple[int, int]:
    """Zigzag varint of at most 5 bytes: (value, position after it). What the fifth has beyond 32
    bits is left out, as by Kafka."""
    value, position = _read_groups(position, end, 35)
    value &= 0xFFFFFFFF
    return (value >> 1) ^ -(value & 1), position


@inlined
def read_length(position: int, end: int, compact: bool, wide: bool) -> tuple[int, int]:
    """Length of a string (int16), or with ``wide`` of bytes or an array (int32), -1 for null;
    compact: uvarint - 1."""
    if compact:
        value, position = read_uvarint(position, end)
        return value - 1, position
    if wide:
        if position + 4 > end:
            return 0, BAD
        return load_i32_be(position), position + 4
    if position + 2 > end:
        return 0, BAD
    return load_i16_be(position), position + 2


@inlined
def skip_tags(position: int, end: int) -> int:
    """Position after a tag section; of more than MAX_TAGS, BAD."""
    count, position = read_uvarint(position, end)
    if position < 0 or count > end - position or count > MAX_TAGS:
        return BAD
    for _ in range(count):
        _, position = read_uvarint(position, end)
        if position < 0:
            return BAD
        size, position = read_uvarint(position, end)
        if position < 0 or size > end - position:
            return BAD
        position += size
    return position


@inlined
def skip_request_header(position: int, end: int, compact: bool) -> int:
    """Position of a request's body, given that of its header (the API key)."""
    if end - position < 10:
        return BAD
    length = load_i16_be(position + 8)
    position += 10
    if length > end - position or length < -1:
        return BAD
    if length > 0:
        position += length
    return skip_tags(position, end) if compact else position


@inlined
def write_uvarint(out: int, value: int) -> int:
    """Write an unsigned varint; returns the address after it."""
    while value > 0x7F:
        store_u8(out, (value & 0x7F) | 0x80)
        out += 1
        value >>= 7
    store_u8(out, value)
    return out + 1


@inlined
def write_no_tags(out: int, compact: bool) -> int:
    """Write an empty tag section, where the version has them."""
    if compact:
        store_u8(out, 0)
        out += 1
    return out


@inlined
def write_count(out: int, count: int, compact: bool) -> int:
    """Write an array's length."""
    if compact:
        return write_uvarint(out, count + 1)
    store_i32_be(out, count)
    return out + 4


@inlined
def write_string(out: int, address: int, length: int, compact: bool) -> int:
    """Write a string that is not null, given its bytes."""
    if compact:
        out = write_uvarint(out, length + 1)
    else:
        store_i16_be(out, length)
        out += 2
    copy(out, address, length)
    return out + length


@inlined
def write_answer_head(out: int, compact: bool, throttled: bool, topics: int) -> int:
    """Write what follows the correlation id of an answer that begins with topics: tags, throttle
    time, count."""
    out = write_no_tags(out, compact)
    if throttled:
        store_i32_be(out, 0)
        out += 4
    return write_count(out, topics, compact)
