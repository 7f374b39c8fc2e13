"""Binary search of segment indexes and the header walk after it, in one call without mapping a
file.

.index entries are (relative offset int32, position int32), .timeindex entries (timestamp int64,
relative offset int32), big-endian, sorted. An index that its broker had preallocated and could not
trim ends in zeros: a zero entry counts as the end (position 0 is never indexed, because an entry
follows index.interval.bytes of data).
"""
# mypy: disable-error-code="no-untyped-call"

import numpy as np
from numpy.typing import NDArray

from kbroker.kernels.batch_header import batch_bytes, last_offset
from kbroker.kernels.jit import inlined, kernel
from kbroker.kernels.libc import SEEK_END, lseek, pread
from kbroker.kernels.memory import INT64_MAX, load_i8, load_i32_be, load_i64_be
from kbroker.kernels.scan_rows import FoundPlace, Located
from kbroker.protocol import batch_layout as b

Words = NDArray[np.int64]

OFFSET_ENTRY_BYTES = 8
TIME_ENTRY_BYTES = 12
TAIL_BYTES = 1536  # of both entry sizes a multiple: readers near the end need two reads of the index
WALK_BYTES = 8192  # at index.interval.bytes=4096 mostly one read from the entry to the batch


@inlined
def _key(entry: int, width: int, slot: int) -> int:
    """Sort key of the entry at an address; a zero entry after the first slot is past the end."""
    if width == OFFSET_ENTRY_BYTES:
        key = load_i32_be(entry)
        return INT64_MAX if key == 0 and load_i32_be(entry + 4) == 0 else key
    key = load_i64_be(entry)
    return INT64_MAX if key == 0 and slot > 0 and load_i32_be(entry + 8) == 0 else key


@inlined
def lower_bound(fd: int, entries: int, width: int, target: int, buffer: int) -> int:
    """Slot of the last entry whose key is <= target, -1 if none; buffer: address of TAIL_BYTES
    bytes.

    A failed read counts as "none": a search over a vanished index only means a longer walk.
    """
    low, high = 0, entries  # the answer + 1 lies in [low, high]
    tail = TAIL_BYTES // width
    if entries > tail:
        first = entries - tail
        if pread(fd, buffer, width, first * width) < width:
            return -1
        if _key(buffer, width, first) <= target:
            low = first
        else:
            high = first
    while high - low > tail:
        middle = (low + high) // 2
        if pread(fd, buffer, width, middle * width) < width:
            return -1
        if _key(buffer, width, middle) <= target:
            low = middle
        else:
            high = middle
    if high == low:
        return low - 1
    start = low
    count = pread(fd, buffer, (high - low) * width, low * width) // width
    high = start + count
    while low < high:
        middle = (low + high) // 2
        if _key(buffer + (middle - start) * width, width, middle) <= target:
            low = middle + 1
        else:
            high = middle
    return low - 1


@kernel("int64(int64, int64, int64, int64)")
def find_position(fd: int, index_bytes: int, base: int, offset: int) -> int:
    """Byte position of the last .index entry at or before an offset, 0 when there is none."""
    buffer = np.empty(TAIL_BYTES, np.uint8)
    address = buffer.ctypes.data
    slot = lower_bound(fd, index_bytes // OFFSET_ENTRY_BYTES, OFFSET_ENTRY_BYTES, offset - base, address)
    if slot < 0 or pread(fd, address, OFFSET_ENTRY_BYTES, slot * OFFSET_ENTRY_BYTES) < OFFSET_ENTRY_BYTES:
        return 0
    return load_i32_be(address + 4)


@kernel("int64(int64, int64, int64, int64[::1])")
def find_time(fd: int, index_bytes: int, timestamp: int, out: Words) -> int:
    """Slot of the last .timeindex entry at or before a timestamp, -1 if none.

    out[0], out[1] take its timestamp and relative offset."""
    buffer = np.empty(TAIL_BYTES, np.uint8)
    address = buffer.ctypes.data
    slot = lower_bound(fd, index_bytes // TIME_ENTRY_BYTES, TIME_ENTRY_BYTES, timestamp, address)
    if slot < 0 or pread(fd, address, TIME_ENTRY_BYTES, slot * TIME_ENTRY_BYTES) < TIME_ENTRY_BYTES:
        return -1
    out[0] = load_i64_be(address)
    out[1] = load_i32_be(address + 8)
    return slot


@inlined
def _read_header(log_fd: int, buffer: int, position: int, start: int, filled: int) -> tuple[int, int, int]:
    """Read the header of the batch at a position into the buffer, with as many bytes after it as
    there is room for; after a batch that is much larger than the buffer the header alone.

    buffer: address of WALK_BYTES bytes, of which `filled` are those of the file from `start` on.
    Returns FOUND, NOT_HERE (the file ends before), DAMAGED or READ_FAILED; start; filled.
    """
    if position + b.RECORDS > start + filled:
        large = position - start - filled > WALK_BYTES // 2
        start = position
        filled = pread(log_fd, buffer, b.RECORDS if large else WALK_BYTES, position)
        if filled < 0:
            return Located.READ_FAILED, start, filled
        if filled < b.RECORDS:
            return Located.NOT_HERE, start, filled
    at = buffer + (position - start)
    size = batch_bytes(at)
    if load_i8(at + b.MAGIC) != b.MAGIC_V2 or size < b.HEADER_BYTES:
        return Located.DAMAGED, start, filled
    return Located.FOUND, start, filled


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64[::1])")
def locate(
    log_fd: int,
    index_fd: int,
    index_bytes: int,
    base: int,
    offset: int,
    hint: int,
    end: int,
    place: Words,
) -> int:
    """The first batch of a segment whose last offset is >= offset, among those that start below
    byte ``end``.

    index_fd -1: walk from hint. index_bytes -1: all that the file holds. hint: a batch start known
    to lie at or before the offset (else 0). place (int64[FoundPlace.WORDS]) is filled on FOUND.
    """
    buffer = np.empty(WALK_BYTES, np.uint8)
    address = buffer.ctypes.data
    position = hint
    if index_fd >= 0:
        if index_bytes < 0:
            index_bytes = lseek(
                index_fd, 0, SEEK_END
            )  # all processes read with pread: the file offset is free
        slot = lower_bound(
            index_fd, index_bytes // OFFSET_ENTRY_BYTES, OFFSET_ENTRY_BYTES, offset - base, address
        )
        if (
            slot >= 0
            and pread(index_fd, address, OFFSET_ENTRY_BYTES, slot * OFFSET_ENTRY_BYTES) == OFFSET_ENTRY_BYTES
        ):
            position = max(position, load_i32_be(address + 4))
    start, filled = position, 0
    while position + b.RECORDS <= end:
        result, start, filled = _read_header(log_fd, address, position, start, filled)
        if result != Located.FOUND:
            return result
        at = address + (position - start)
        size = batch_bytes(at)
        base_offset = load_i64_be(at + b.BASE_OFFSET)
        last = last_offset(at)
        if last >= offset:
            place[FoundPlace.POSITION] = position
            place[FoundPlace.BASE_OFFSET] = base_offset
            place[FoundPlace.LAST_OFFSET] = last
            place[FoundPlace.SIZE] = size
            return Located.FOUND
        position += size
    return Located.NOT_HERE


@kernel("int64(int64, int64, int64, int64, int64[::1])")
def locate_time(log_fd: int, position: int, end: int, timestamp: int, place: Words) -> int:
    """The first batch from a batch start on whose largest timestamp is >= timestamp; as
    `locate`."""
    buffer = np.empty(WALK_BYTES, np.uint8)
    address = buffer.ctypes.data
    start, filled = position, 0
    while position + b.RECORDS <= end:
        result, start, filled = _read_header(log_fd, address, position, start, filled)
        if result != Located.FOUND:
            return result
        at = address + (position - start)
        size = batch_bytes(at)
        if load_i64_be(at + b.MAX_TIMESTAMP) >= timestamp:
            place[FoundPlace.POSITION] = position
            place[FoundPlace.BASE_OFFSET] = load_i64_be(at + b.BASE_OFFSET)
            place[FoundPlace.LAST_OFFSET] = last_offset(at)
            place[FoundPlace.SIZE] = size
            return Located.FOUND
        position += size
    return Located.NOT_HERE


@kernel("int64(int64, int64, int64, int64[::1])")
def largest_timestamp(log_fd: int, position: int, end: int, out: Words) -> int:
    """Largest timestamp of the batches from a batch start on, without those that compaction has
    emptied: out[0] the timestamp (raised only), out[1] the last offset of the first batch that has
    it, out[2] where the last batch ends. Returns FOUND, DAMAGED or Located.READ_FAILED."""
    buffer = np.empty(WALK_BYTES, np.uint8)
    address = buffer.ctypes.data
    start, filled = position, 0
    out[2] = position
    while position + b.RECORDS <= end:
        result, start, filled = _read_header(log_fd, address, position, start, filled)
        if result != Located.FOUND:
            return Located.FOUND if result == Located.NOT_HERE else result
        at = address + (position - start)
        size = batch_bytes(at)
        timestamp = load_i64_be(at + b.MAX_TIMESTAMP)
        if timestamp > out[0] and load_i32_be(at + b.RECORD_COUNT) > 0:
            out[0] = timestamp
            out[1] = last_offset(at)
        position += size
        out[2] = position
    return Located.FOUND
