"""LZ4 frames, as producers send them, decompressed into memory of ours; with XXH32, which their
checksums are.

Frame and block format: lz4_Frame_format.md and lz4_Block_format.md of the LZ4 project. Only
certainly valid data is decompressed: a block that the reference decoder may refuse, or a feature
that producers do not use, is left to a library.
"""

from kbroker.kernels.jit import inlined
from kbroker.kernels.memory import copy, load_i32, load_i64, load_u8, store_i64, store_u8

FRAME_MAGIC = 0x184D2204
INDEPENDENT = 0x60  # flags: version 1, blocks that need none before them
CONTENT_SIZE = 0x08
CONTENT_CHECKSUM = 0x04
STORED = 1 << 31  # bit of a block's size: it is not compressed
SLACK_BYTES = 8  # that may be written beyond the room given
MIN_MATCH = 4
LAST_LITERALS = 5  # a block ends with so many literals at least
BEFORE_MATCH = 8  # bytes of input, and of room for output, that a block has left where a match begins
ROOM_FOR_MATCH = 12
WORD = 0xFFFFFFFF
PRIME_1, PRIME_2, PRIME_3, PRIME_4, PRIME_5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393


@inlined
def _load_u32(address: int) -> int:
    return load_i32(address) & WORD


@inlined
def _rotated(word: int, bits: int) -> int:
    return ((word << bits) | (word >> (32 - bits))) & WORD


@inlined
def _lane(lane: int, address: int) -> int:
    return (_rotated((lane + _load_u32(address) * PRIME_2) & WORD, 13) * PRIME_1) & WORD


@inlined
def xxh32(address: int, length: int) -> int:
    """XXH32 with seed 0 of the bytes at an address."""
    end = address + length
    found = PRIME_5
    if length >= 16:
        one, two, three, four = (PRIME_1 + PRIME_2) & WORD, PRIME_2, 0, (-PRIME_1) & WORD
        while address + 16 <= end:
            one, two = _lane(one, address), _lane(two, address + 4)
            three, four = _lane(three, address + 8), _lane(four, address + 12)
            address += 16
        found = _rotated(one, 1) + _rotated(two, 7) + _rotated(three, 12) + _rotated(four, 18)
    found = (found + length) & WORD
    while address + 4 <= end:
        found = (_rotated((found + _load_u32(address) * PRIME_3) & WORD, 17) * PRIME_4) & WORD
        address += 4
    while address < end:
        found = (_rotated((found + load_u8(address) * PRIME_5) & WORD, 11) * PRIME_1) & WORD
        address += 1
    found = ((found ^ (found >> 15)) * PRIME_2) & WORD
    found = ((found ^ (found >> 13)) * PRIME_3) & WORD
    return found ^ (found >> 16)


@inlined
def copy_match(at: int, offset: int, length: int) -> None:
    """Repeat the bytes that lie `offset` bytes before, as often as needed; may write SLACK_BYTES
    more."""
    if offset >= length:
        copy(at, at - offset, length)
    elif offset >= 8:
        for step in range(0, length, 8):
            store_i64(at + step, load_i64(at + step - offset))
    else:
        for step in range(length):
            store_u8(at + step, load_u8(at + step - offset))


@inlined
def _long_length(length: int, position: int, end: int) -> tuple[int, int]:
    """A length of 15 or more continues in the bytes that follow: (length, position after it), or
    (-1, ...)."""
    while position < end:
        byte = load_u8(position)
        position += 1
        length += byte
        if byte != 255:
            return length, position
    return -1, position


@inlined
def _block(position: int, end: int, out: int, room: int) -> int:
    """Decompress a block; its size, -1: it does not fit, or it may be damaged."""
    at = out
    limit = out + room
    while position < end:
        token = load_u8(position)
        position += 1
        length = token >> 4
        if length == 15:
            length, position = _long_length(length, position, end)
        if length < 0 or length > end - position or length > limit - at:
            return -1
        copy(at, position, length)
        at += length
        position += length
        if position == end:
            return at - out
        if end - position < BEFORE_MATCH or limit - at < ROOM_FOR_MATCH:
            return -1
        offset = load_u8(position) | load_u8(position + 1) << 8
        position += 2
        length = token & 15
        if length == 15:
            length, position = _long_length(length, position, end)
            if length < 0:
                return -1
        length += MIN_MATCH
        if offset == 0 or offset > at - out or length > limit - LAST_LITERALS - at:
            return -1
        copy_match(at, offset, length)
        at += length
    return -1


@inlined
def _blocks(position: int, end: int, max_block: int, out: int, room: int) -> tuple[int, int]:
    """All blocks of a frame: (bytes written, position after the end mark), or (-1, ...). max_block:
    bytes of a block."""
    at = out
    while end - position >= 4:
        size = _load_u32(position)
        position += 4
        if size == 0:
            return at - out, position
        limit = min(max_block, out + room - at)
        stored = size & STORED != 0
        size &= STORED - 1
        if size > end - position or size > max_block or (stored and size > limit):
            return -1, position
        if stored:
            copy(at, position, size)
            written = size
        else:
            written = _block(position, position + size, at, limit)
        if written < 0:
            return -1, position
        at += written
        position += size
    return -1, position


@inlined
def lz4_frame(source: int, length: int, out: int, room: int) -> int:
    """Decompress the one frame at an address to `out`; its size, -1: a library must check it."""
    if length < 7 or load_i32(source) != FRAME_MAGIC:
        return -1
    flags, sizes = load_u8(source + 4), load_u8(source + 5)
    if flags & ~(CONTENT_SIZE | CONTENT_CHECKSUM) != INDEPENDENT or sizes & 0x8F or sizes < 0x40:
        return -1
    head = 10 if flags & CONTENT_SIZE else 2
    if length < 4 + head + 1 or (xxh32(source + 4, head) >> 8) & 0xFF != load_u8(source + 4 + head):
        return -1
    end = source + length
    written, position = _blocks(source + 5 + head, end, 1 << (8 + 2 * (sizes >> 4)), out, room)
    if written < 0 or (flags & CONTENT_SIZE and load_i64(source + 6) != written):
        return -1
    if flags & CONTENT_CHECKSUM:
        if end - position < 4 or _load_u32(position) != xxh32(out, written):
            return -1
        position += 4
    return written if position == end else -1
