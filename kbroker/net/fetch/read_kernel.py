"""Turns the plan of a fetch into file ranges: reads slots, finds positions, applies limits. The
place where a reader's last read ended is remembered, so that its next one needs no search."""

import numpy as np
from numpy.typing import NDArray

from kbroker.ipc.layout import Slot, SlotState
from kbroker.kernels.batch_header import batch_bytes, last_offset, whole_batch
from kbroker.kernels.jit import inlined
from kbroker.kernels.libc import CACHESTAT, SEEK_END, lseek, pread, syscall
from kbroker.kernels.memory import load_i64_be
from kbroker.kernels.rows import get, put
from kbroker.kernels.scan_rows import FoundPlace, Located
from kbroker.kernels.search import locate
from kbroker.net.fetch.request_kernel import plan_row
from kbroker.net.rows import Connection, Context, Outcome, Plan, Read, ReadEnd, Segment, SessionEntry
from kbroker.net.rows.topic_kernel import snapshot
from kbroker.protocol import batch_layout as rb

PAGE = 4096

# results of a search, instead of the number of a segment
FOR_PYTHON = -1  # the segments are not listed, or one of them is not open or damaged
NO_BYTES = -2

Words = NDArray[np.int64]


@inlined
def segment_row(cx: int, number: int) -> int:
    """Address of a segment's row."""
    return get(cx, Context.SEGMENTS) + number * Segment.STRIDE


@inlined
def last_read(row: int, connection_row: int) -> int:
    """Address of the reader's ReadEnd: in the entry of its session, or in the connection."""
    entry = get(row, Plan.ENTRY)
    return entry + 8 * SessionEntry.LAST_READ if entry != 0 else connection_row + 8 * Connection.LAST_READ


@inlined
def remember(row: int, client_row: int, next_offset: int, position: int) -> None:
    """Note where the read of a plan row ends: its reader's next one begins there."""
    end = last_read(row, client_row)
    put(end, ReadEnd.SLOT, get(row, Plan.SLOT) + 1)
    put(end, ReadEnd.OFFSET, next_offset)
    put(end, ReadEnd.SEGMENT, get(row, Plan.SEGMENT))
    put(end, ReadEnd.POSITION, position)
    put(end, ReadEnd.VERSION, get(row, Plan.VERSION))


@inlined
def remember_end(row: int, client_row: int, data: int, length: int) -> None:
    """Remember where the last whole batch of the bytes at an address ends."""
    at = 0
    next_offset = -1
    size = whole_batch(data, length, rb.HEADER_BYTES)
    while size > 0:
        next_offset = last_offset(data + at) + 1
        at += size
        size = whole_batch(data + at, length - at, rb.HEADER_BYTES)
    if next_offset >= 0:
        remember(row, client_row, next_offset, get(row, Plan.POSITION) + at)


@inlined
def resident(cx: int, fd: int, position: int, length: int) -> bool:
    """Whether a range is in the page cache (cachestat)."""
    if get(cx, Context.PROBE) == 0:
        return False
    scratch = get(cx, Context.SCRATCH)
    put(scratch, 0, position)
    put(scratch, 1, length)
    if syscall(CACHESTAT, fd, scratch, scratch + 16, 0) != 0:
        return False
    pages = (position + length - 1) // PAGE - position // PAGE + 1
    return get(scratch, 2) >= pages


@inlined
def _is_listed(cx: int, row: int, number: int) -> bool:
    """Whether a row of Segment is now that of the segment that holds the plan row's offset. The
    table is cleared when it is full, and its rows then have segments of other partitions."""
    read = get(cx, Context.READS) + get(row, Plan.SLOT) * Read.STRIDE
    at, count = number - get(read, Read.FIRST), get(read, Read.COUNT)
    if at < 0 or at >= count or get(read, Read.VERSION) != get(row, Plan.VERSION):
        return False
    offset = get(row, Plan.OFFSET)
    if get(segment_row(cx, number), Segment.BASE) > offset:
        return False
    return at + 1 == count or get(segment_row(cx, number + 1), Segment.BASE) > offset


@inlined
def _remembered(cx: int, row: int, connection_row: int, place: Words) -> int:
    """The segment where the reader's last read ended, if this read continues there: place is
    filled; -1 otherwise."""
    end = last_read(row, connection_row)
    if get(end, ReadEnd.SLOT) != get(row, Plan.SLOT) + 1 or get(end, ReadEnd.OFFSET) != get(row, Plan.OFFSET):
        return -1
    if get(end, ReadEnd.VERSION) != get(row, Plan.VERSION):
        return -1
    number = get(end, ReadEnd.SEGMENT)
    if not _is_listed(cx, row, number):
        return -1
    segment = segment_row(cx, number)
    fd = get(segment, Segment.LOG_FD)
    position = get(end, ReadEnd.POSITION)
    scratch = get(cx, Context.SCRATCH)
    if fd < 0 or pread(fd, scratch, 24, position) < 24:
        return -1
    base = load_i64_be(scratch + rb.BASE_OFFSET)
    # below the segment's: the last read ended with the segment before it, which had this row
    if base > get(row, Plan.OFFSET) or base < get(segment, Segment.BASE):
        return -1
    place[FoundPlace.POSITION] = position
    place[FoundPlace.SIZE] = batch_bytes(scratch)
    return number


@inlined
def _search(cx: int, row: int, snap: int, offset: int, place: Words) -> int:
    """The segment with an offset of the plan row's slot: place is filled; or FOR_PYTHON,
    NO_BYTES."""
    read = get(cx, Context.READS) + get(row, Plan.SLOT) * Read.STRIDE
    count = get(read, Read.COUNT)
    if count == 0 or get(read, Read.GENERATION) != get(row, Plan.GENERATION):
        return FOR_PYTHON
    if get(read, Read.VERSION) != get(row, Plan.VERSION):
        return FOR_PYTHON
    number = get(read, Read.FIRST) + count - 1
    while number > get(read, Read.FIRST) and get(segment_row(cx, number), Segment.BASE) > offset:
        number -= 1
    while number < get(read, Read.FIRST) + count:
        segment = segment_row(cx, number)
        fd = get(segment, Segment.LOG_FD)
        if fd < 0:
            return FOR_PYTHON
        base = get(segment, Segment.BASE)
        end = get(snap, Slot.HW_POSITION)
        if base != get(snap, Slot.HW_BASE):
            end = lseek(fd, 0, SEEK_END)
        index = get(segment, Segment.INDEX_FD)
        index_bytes = lseek(index, 0, SEEK_END) if index >= 0 else 0
        found = locate(fd, index, index_bytes, base, offset, 0, end, place)
        if found == Located.FOUND:
            return number
        if found != Located.NOT_HERE:
            return FOR_PYTHON
        if base == get(snap, Slot.HW_BASE):
            return NO_BYTES
        number += 1
    return NO_BYTES


@inlined
def _plan_range(
    cx: int, row: int, snap: int, connection_row: int, left: int, min_one: bool, place: Words
) -> int:
    """Set the plan row's file range; READY or TO_PYTHON."""
    number = _remembered(cx, row, connection_row, place)
    if number < 0:
        number = _search(cx, row, snap, get(row, Plan.OFFSET), place)
        if number == FOR_PYTHON:
            return Outcome.TO_PYTHON
        if number < 0:
            return Outcome.READY
    segment = segment_row(cx, number)
    fd = get(segment, Segment.LOG_FD)
    last = get(segment, Segment.BASE) == get(snap, Slot.HW_BASE)
    end = get(snap, Slot.HW_POSITION) if last else lseek(fd, 0, SEEK_END)
    position = place[FoundPlace.POSITION]
    max_bytes = min(left, get(row, Plan.MAX_BYTES))
    if max_bytes < place[FoundPlace.SIZE]:
        if max_bytes < 0:  # an error
            return Outcome.TO_PYTHON
        if not min_one:
            return Outcome.READY
        max_bytes = place[FoundPlace.SIZE]
    length = min(max_bytes, end - position)
    if length <= 0:
        return Outcome.TO_PYTHON
    if not resident(cx, fd, position, length):
        return Outcome.TO_PYTHON
    put(row, Plan.SEGMENT, number)
    put(row, Plan.POSITION, position)
    put(row, Plan.LENGTH, length)
    put(row, Plan.TO_END, 1 if last and position + length == end else 0)
    return Outcome.READY


@inlined
def _is_readable(row: int, snap: int) -> bool:
    """Whether a partition can be read without any error."""
    if get(snap, Slot.STATE) != SlotState.ONLINE or get(snap, Slot.GENERATION) != get(row, Plan.GENERATION):
        return False
    epoch = get(row, Plan.CURRENT_LEADER_EPOCH)
    if (epoch >= 0 and epoch != get(snap, Slot.LEADER_EPOCH)) or get(row, Plan.LAST_FETCHED_EPOCH) >= 0:
        return False
    offset = get(row, Plan.OFFSET)
    return offset >= get(snap, Slot.LOG_START) and offset <= get(snap, Slot.LOG_END)


@inlined
def _end_at_last_stable(cx: int, row: int, snap: int, place: Words) -> bool:
    """Let a read_committed reader see no farther than the last stable offset: the snapshot's high
    watermark and its place become that offset's. False: Python must read, because transactions of
    the range were aborted, or files are being replaced."""
    if get(row, Plan.OFFSET) <= get(snap, Slot.LAST_ABORTED) or get(row, Plan.VERSION) & 1 != 0:
        return False
    stable = get(snap, Slot.LAST_STABLE)
    put(row, Plan.END, stable)
    if stable < get(snap, Slot.HIGH_WATERMARK) and get(row, Plan.OFFSET) < stable:
        number = _search(cx, row, snap, stable, place)
        if number < 0:
            return False
        put(snap, Slot.HW_BASE, get(segment_row(cx, number), Segment.BASE))
        put(snap, Slot.HW_POSITION, place[FoundPlace.POSITION])
    return True


@inlined
def plan_reads(cx: int, connection_row: int) -> int:
    """Set the ranges of the whole plan: READY, WAITING when there are too few bytes, or
    TO_PYTHON."""
    snap = get(cx, Context.SNAPSHOT)
    left = get(cx, Context.PLAN_MAX_BYTES)
    min_one = True
    total = 0
    place = np.empty(4, np.int64)
    for number in range(get(cx, Context.PLAN_COUNT)):
        row = plan_row(cx, number)
        slot = get(cx, Context.SLOTS) + get(row, Plan.SLOT) * Slot.STRIDE
        if snapshot(slot, snap) == 0 or not _is_readable(row, snap):
            return Outcome.TO_PYTHON
        put(row, Plan.HIGH_WATERMARK, get(snap, Slot.HIGH_WATERMARK))
        put(row, Plan.LAST_STABLE, get(snap, Slot.LAST_STABLE))
        put(row, Plan.LOG_START, get(snap, Slot.LOG_START))
        put(row, Plan.VERSION, get(snap, Slot.SEGMENTS_VERSION))
        put(row, Plan.SEGMENT, -1)
        put(row, Plan.LENGTH, 0)
        put(row, Plan.END, get(snap, Slot.HIGH_WATERMARK))
        if get(cx, Context.PLAN_COMMITTED) != 0 and not _end_at_last_stable(cx, row, snap, place):
            return Outcome.TO_PYTHON
        if get(row, Plan.OFFSET) < get(row, Plan.END):
            if _plan_range(cx, row, snap, connection_row, left, min_one, place) == Outcome.TO_PYTHON:
                return Outcome.TO_PYTHON
            length = get(row, Plan.LENGTH)
            if length > 0:
                min_one = False
                left = max(0, left - length)
                total += length
    if total >= get(cx, Context.PLAN_MIN_BYTES) or get(cx, Context.PLAN_MAX_WAIT) <= 0:
        return Outcome.READY
    return Outcome.WAITING
