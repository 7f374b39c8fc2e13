"""Offsets by time from segment files, found as in `log/timestamps.py`: only in cached bytes, close to an
index entry.

The read table (`read_table.py`) holds the largest timestamp of each segment. For the segment with the high
watermark it holds the largest timestamp up to where the last search ended, and the next search continues
there. If the table lacks a segment, Python is notified and a thread looks it up (`segment_times.py`);
meanwhile control answers.
"""

import numpy as np
from numpy.typing import NDArray

from kbroker.ipc.layout import Slot
from kbroker.kernels.jit import inlined
from kbroker.kernels.libc import SEEK_END, lseek, pread
from kbroker.kernels.memory import load_i16_be, load_i32_be, load_i64_be
from kbroker.kernels.rows import get, put
from kbroker.kernels.scan_rows import FoundPlace, Located
from kbroker.kernels.search import find_position, find_time, largest_timestamp, locate_time
from kbroker.kernels.wire import read_varint
from kbroker.net.fetch.read_kernel import resident, segment_row
from kbroker.net.produce.compressed_kernel import MOST_BYTES, decompress
from kbroker.net.rows import Context, EventKind, Read, Segment
from kbroker.net.rows.connection_kernel import events_left, tell
from kbroker.protocol import batch_layout as rb

Words = NDArray[np.int64]

ASKS_MAX_TIMESTAMP = -3  # asks for the record with the largest timestamp
ANY_TIMESTAMP = (1 << 62) - 1

# what became of a search; FOUND, too
NOTHING = 1
ELSEWHERE = 2  # control answers

# words of what was found
FOUND_TIMESTAMP = 0
FOUND_OFFSET = 1
FOUND_EPOCH = 2
FOUND_WORDS = 3

# of a log, from an index entry on: a batch of the default largest size, or 160 reads of headers
MOST_WALK = 5 << 18
MOST_BATCHES = 16  # that promise the timestamp without having it in a record that counts
READ_BYTES = 8192  # of a batch at once
MOST_COMPRESSED = rb.RECORDS + MOST_BYTES
LONGEST_HEAD = 32  # of a record: its size, attributes, timestamp and offset


@inlined
def _last_indexed(segment: int, walked: int, largest: Words) -> int:
    """The batch start from which a walk must go on, by the segment's last .timeindex entry."""
    times = get(segment, Segment.TIME_FD)
    index = get(segment, Segment.INDEX_FD)
    entry = np.empty(2, np.int64)
    if times < 0 or index < 0 or find_time(times, lseek(times, 0, SEEK_END), ANY_TIMESTAMP, entry) < 0:
        return walked
    base = get(segment, Segment.BASE)
    position = find_position(index, lseek(index, 0, SEEK_END), base, base + entry[1])
    if position <= walked:
        return walked
    if entry[0] > largest[0]:
        largest[0] = entry[0]
        largest[1] = base + entry[1]
    return position


@inlined
def _walk_to(segment: int, end: int) -> bool:
    """Have the largest timestamp of a segment up to a byte (or CLOSED) in its row; False: it takes too long."""
    walked = get(segment, Segment.WALKED)
    if walked >= end:
        return True
    log = get(segment, Segment.LOG_FD)
    if walked < 0 or log < 0:
        return False
    stop = lseek(log, 0, SEEK_END) if end == Segment.CLOSED else end
    largest = np.empty(2, np.int64)
    largest[0] = get(segment, Segment.LARGEST)
    largest[1] = get(segment, Segment.LARGEST_OFFSET)
    if stop - walked > MOST_WALK:
        walked = _last_indexed(segment, walked, largest)
    if stop - walked > MOST_WALK or largest_timestamp(log, walked, stop, largest) != Located.FOUND:
        return False
    put(segment, Segment.LARGEST, largest[0])
    put(segment, Segment.LARGEST_OFFSET, largest[1])
    put(segment, Segment.WALKED, end)
    return True


@inlined
def _ask(cx: int, read: int, slot: int, timestamp: int) -> int:
    """Request the times of a slot's segments from Python, once."""
    if get(read, Read.ASKED) == 0 and events_left(cx) >= 64:
        put(read, Read.ASKED, 1)
        tell(cx, EventKind.TIMES, -1, slot, timestamp)
    return -1


@inlined
def _first_segment(cx: int, read: int, offset: int) -> int:
    """Number of the segment that an offset's number says."""
    low = get(read, Read.FIRST)
    high = low + get(read, Read.COUNT)
    while high - low > 1:
        middle = (low + high) // 2
        if get(segment_row(cx, middle), Segment.BASE) <= offset:
            low = middle
        else:
            high = middle
    return low


@inlined
def segment_of_time(cx: int, slot: int, timestamp: int) -> int:
    """Address of the row of the segment to look into, 0: there is none, -1: not known; the slot is in the snapshot."""
    snap = get(cx, Context.SNAPSHOT)
    read = get(cx, Context.READS) + slot * Read.STRIDE
    version = get(snap, Slot.SEGMENTS_VERSION)
    if version & 1 != 0:
        return -1
    if (
        get(read, Read.COUNT) == 0
        or get(read, Read.GENERATION) != get(snap, Slot.GENERATION)
        or get(read, Read.VERSION) != version
    ):
        return _ask(cx, read, slot, timestamp)
    number = _first_segment(cx, read, get(snap, Slot.LOG_START))
    segment = segment_row(cx, number)
    behind = segment_row(cx, get(read, Read.FIRST) + get(read, Read.COUNT))
    reached = 0
    while segment < behind and get(segment, Segment.BASE) <= get(snap, Slot.HW_BASE):
        last = get(segment, Segment.BASE) == get(snap, Slot.HW_BASE)
        if not _walk_to(segment, get(snap, Slot.HW_POSITION) if last else Segment.CLOSED):
            return _ask(cx, read, slot, timestamp)
        largest = get(segment, Segment.LARGEST)
        if timestamp != ASKS_MAX_TIMESTAMP and largest >= timestamp:
            reached = segment
            break
        if timestamp == ASKS_MAX_TIMESTAMP and largest > (
            get(reached, Segment.LARGEST) if reached != 0 else -1
        ):
            reached = segment
        segment += Segment.STRIDE
    if reached != 0 and (get(reached, Segment.LOG_FD) < 0 or get(reached, Segment.TIME_FD) < 0):
        return _ask(cx, read, slot, timestamp)
    return reached


@inlined
def _record_head(position: int, end: int) -> tuple[int, int, int, int]:
    """Head of the record at an address: deltas of timestamp and offset, size, what follows it; -1: broken."""
    size, behind = read_varint(position, end)
    if behind < 0 or size < 1:
        return 0, 0, 0, -1
    timestamp, at = read_varint(behind + 1, end)
    if at < 0:
        return 0, 0, 0, -1
    offset, at = read_varint(at, end)
    return timestamp, offset, size, behind if at >= 0 else -1


@inlined
def _search_batch(
    cx: int, log: int, place: Words, timestamp: int, start_offset: int, buffer: int, found: Words
) -> int:
    """The first record of a batch at or after a timestamp and an offset: FOUND, NOTHING or ELSEWHERE."""
    position = place[FoundPlace.POSITION]
    size = place[FoundPlace.SIZE]
    filled = min(size, READ_BYTES)
    if not resident(cx, log, position, filled) or pread(log, buffer, filled, position) < filled:
        return ELSEWHERE
    attributes = load_i16_be(buffer + rb.ATTRIBUTES)
    base_offset = load_i64_be(buffer + rb.BASE_OFFSET)
    base_timestamp = load_i64_be(buffer + rb.BASE_TIMESTAMP)
    append_time = attributes & rb.ATTRIBUTE_LOG_APPEND_TIME != 0
    largest = load_i64_be(buffer + rb.MAX_TIMESTAMP)
    count = load_i32_be(buffer + rb.RECORD_COUNT)
    found[FOUND_EPOCH] = load_i32_be(buffer + rb.PARTITION_LEADER_EPOCH)
    at = buffer + rb.RECORDS
    end = buffer + filled
    left = size - filled  # of the batch, in the file
    if attributes & rb.ATTRIBUTE_CODEC_MASK != 0:
        if size > MOST_COMPRESSED or not resident(cx, log, position, size):
            return ELSEWHERE
        if pread(log, buffer, size, position) < size:
            return ELSEWHERE
        at = get(cx, Context.PLAIN)
        end = at + decompress(
            cx, buffer + rb.RECORDS, size - rb.RECORDS, attributes & rb.ATTRIBUTE_CODEC_MASK
        )
        left = 0
    for _ in range(count):
        if end - at < LONGEST_HEAD and left > 0:
            more = position + size - left + at - end
            filled = min(position + size - more, READ_BYTES)
            if (
                filled <= 0
                or not resident(cx, log, more, filled)
                or pread(log, buffer, filled, more) < filled
            ):
                return ELSEWHERE
            left = position + size - more - filled
            at = buffer
            end = buffer + filled
        later, offset, record_bytes, behind = _record_head(at, end)
        if behind < 0:
            return ELSEWHERE
        found[FOUND_TIMESTAMP] = largest if append_time else base_timestamp + later
        found[FOUND_OFFSET] = base_offset + offset
        if found[FOUND_TIMESTAMP] >= timestamp and found[FOUND_OFFSET] >= start_offset:
            return Located.FOUND
        at = behind + record_bytes
    return NOTHING


@inlined
def _search_segment(cx: int, segment: int, timestamp: int, start_offset: int, end: int, found: Words) -> int:
    """The first record of a segment at or after a timestamp and an offset, below a byte."""
    log = get(segment, Segment.LOG_FD)
    times = get(segment, Segment.TIME_FD)
    index = get(segment, Segment.INDEX_FD)
    base = get(segment, Segment.BASE)
    entry = np.empty(2, np.int64)
    offset = base
    if find_time(times, lseek(times, 0, SEEK_END), timestamp, entry) >= 0:
        offset += entry[1]
    position = 0
    if index >= 0:
        position = find_position(index, lseek(index, 0, SEEK_END), base, max(offset, start_offset))
    place = np.empty(FoundPlace.WORDS, np.int64)
    buffer = np.empty(MOST_COMPRESSED, np.uint8)
    for _ in range(MOST_BATCHES):
        stop = min(end, position + MOST_WALK)
        if position < 0 or not resident(cx, log, position, min(READ_BYTES, max(stop - position, 1))):
            return ELSEWHERE
        result = locate_time(log, position, stop, timestamp, place)
        if result != Located.FOUND:
            return NOTHING if result == Located.NOT_HERE and stop == end else ELSEWHERE
        result = _search_batch(cx, log, place, timestamp, start_offset, buffer.ctypes.data, found)
        if result != NOTHING:
            return result
        position = place[FoundPlace.POSITION] + place[FoundPlace.SIZE]
    return ELSEWHERE


@inlined
def offset_by_time(cx: int, segment: int, timestamp: int, found: Words) -> int:
    """The record that a timestamp (or ASKS_MAX_TIMESTAMP) asks for, in the segment that `segment_of_time` gave: FOUND,
    NOTHING or ELSEWHERE."""
    snap = get(cx, Context.SNAPSHOT)
    start = get(snap, Slot.LOG_START)
    end = get(snap, Slot.HW_POSITION)
    if get(segment, Segment.BASE) != get(snap, Slot.HW_BASE):
        end = lseek(get(segment, Segment.LOG_FD), 0, SEEK_END)
    if timestamp != ASKS_MAX_TIMESTAMP:
        return _search_segment(cx, segment, timestamp, start, end, found)
    index = get(segment, Segment.INDEX_FD)
    if index < 0:
        return ELSEWHERE
    base = get(segment, Segment.BASE)
    position = find_position(index, lseek(index, 0, SEEK_END), base, get(segment, Segment.LARGEST_OFFSET))
    stop = min(end, position + MOST_WALK)
    if position < 0 or not resident(
        cx, get(segment, Segment.LOG_FD), position, min(READ_BYTES, max(stop - position, 1))
    ):
        return ELSEWHERE
    place = np.empty(FoundPlace.WORDS, np.int64)
    result = locate_time(get(segment, Segment.LOG_FD), position, stop, get(segment, Segment.LARGEST), place)
    if result != Located.FOUND:
        return NOTHING if result == Located.NOT_HERE and stop == end else ELSEWHERE
    buffer = np.empty(MOST_COMPRESSED, np.uint8)
    result = _search_batch(
        cx, get(segment, Segment.LOG_FD), place, get(segment, Segment.LARGEST), 0, buffer.ctypes.data, found
    )
    return Located.FOUND if result == Located.FOUND else ELSEWHERE
