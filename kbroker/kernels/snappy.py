"""Snappy, raw or in the framing of snappy-java (xerial), decompressed into memory of ours.

Format: format_description.txt of the snappy project. Damaged data, and data that does not fit, is
left to a library.
"""

from kbroker.kernels.jit import inlined
from kbroker.kernels.lz4 import copy_match
from kbroker.kernels.memory import copy, load_i32_be, load_i64_be, load_u8
from kbroker.kernels.wire import read_uvarint

XERIAL_MAGIC = 0x82534E4150505900 - (1 << 64)  # as a signed word
XERIAL_HEADER_BYTES = 16
LITERAL, NEAR, FAR = 0, 1, 2
MAX_SHORT_LITERAL = 60


@inlined
def _little(position: int, width: int) -> int:
    value = 0
    for index in range(width):
        value |= load_u8(position + index) << (8 * index)
    return value


@inlined
def _raw(position: int, end: int, out: int, room: int) -> int:
    """Decompress a raw block; its size, or -1."""
    size, position = read_uvarint(position, end)
    if position < 0 or size > room:
        return -1
    at = out
    stop = out + size
    while position < end:
        tag = load_u8(position)
        position += 1
        kind = tag & 3
        length = (tag >> 2) + 1
        width = length - MAX_SHORT_LITERAL if length > MAX_SHORT_LITERAL else 0
        if kind != LITERAL:
            width = 1 << (kind - 1)
        if width > end - position:
            return -1
        word = _little(position, width)
        position += width
        if kind == LITERAL:
            length = word + 1 if width else length
            if length > end - position or length > stop - at:
                return -1
            copy(at, position, length)
            position += length
        else:
            if kind == NEAR:
                length = 4 + (tag >> 2 & 7)
                word |= (tag >> 5) << 8
            if word == 0 or word > at - out or length > stop - at:
                return -1
            copy_match(at, word, length)
        at += length
    return size if at == stop else -1


@inlined
def snappy(source: int, length: int, out: int, room: int) -> int:
    """Decompress the data at an address to `out` (and up to SLACK_BYTES more); its size, -1: for a
    library."""
    position = source
    end = source + length
    if length < XERIAL_HEADER_BYTES or load_i64_be(source) != XERIAL_MAGIC:
        return _raw(source, end, out, room)
    position += XERIAL_HEADER_BYTES
    at = out
    while position < end:
        if end - position < 4:
            return -1
        size = load_i32_be(position)
        position += 4
        if size <= 0 or size > end - position:
            return -1
        written = _raw(position, position + size, at, out + room - at)
        if written < 0:
            return -1
        at += written
        position += size
    return at - out
