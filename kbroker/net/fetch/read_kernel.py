"""From the plan of a fetch to file ranges: slots, positions, limits, residency."""

import numpy as np
from numpy.typing import NDArray

from kbroker.ipc import layout as sm
from kbroker.kernels.jit import inlined
from kbroker.kernels.libc import lseek, pread, syscall
from kbroker.kernels.memory import load_i32_be, load_i64_be
from kbroker.kernels.rows import get, put
from kbroker.kernels.search import FOUND, NOT_HERE, PLACE_POSITION, PLACE_SIZE, locate
from kbroker.net.fetch.request_kernel import plan_row
from kbroker.net.rows.fetch_layout import (
    CN_NEXT,
    CX_PLAN_COMMITTED,
    CX_PLAN_COUNT,
    CX_PLAN_MAX_BYTES,
    CX_PLAN_MAX_WAIT,
    CX_PLAN_MIN_BYTES,
    CX_PLAN_TOTAL,
    CX_PROBE,
    CX_SNAPSHOT,
    NEXT_OFFSET,
    NEXT_POSITION,
    NEXT_SEGMENT,
    NEXT_SLOT,
    NEXT_VERSION,
    PL_END,
    PL_ENTRY,
    PL_EPOCH,
    PL_GENERATION,
    PL_HIGH_WATERMARK,
    PL_LAST_EPOCH,
    PL_LAST_STABLE,
    PL_LENGTH,
    PL_LOG_START,
    PL_MAX_BYTES,
    PL_OFFSET,
    PL_POSITION,
    PL_SEGMENT,
    PL_SLOT,
    PL_TO_END,
    PL_VERSION,
    RD_COUNT,
    RD_FIRST,
    RD_GENERATION,
    RD_VERSION,
    READ_WORDS,
    READY,
    SE_NEXT,
    SEGMENT_WORDS,
    SG_BASE,
    SG_INDEX_FD,
    SG_LOG_FD,
    TO_PYTHON,
    WAITING,
)
from kbroker.net.rows.layout import (
    CX_READS,
    CX_SCRATCH,
    CX_SEGMENTS,
    CX_SLOTS,
)
from kbroker.net.rows.slot_kernel import snapshot
from kbroker.protocol import batch_layout as rb

CACHESTAT = 451
PAGE = 4096
SEEK_END = 2
Words = NDArray[np.int64]


@inlined
def segment_row(cx: int, number: int) -> int:
    """Address of a segment's row."""
    return get(cx, CX_SEGMENTS) + number * SEGMENT_WORDS * 8


@inlined
def next_words(row: int, connection_row: int) -> int:
    """Address of what a plan row's reader remembers: in its session's entry, or the connection."""
    entry = get(row, PL_ENTRY)
    return entry + 8 * SE_NEXT if entry != 0 else connection_row + 8 * CN_NEXT


@inlined
def resident(cx: int, fd: int, position: int, length: int) -> bool:
    """Whether a range is in the page cache (cachestat)."""
    if get(cx, CX_PROBE) == 0:
        return False
    scratch = get(cx, CX_SCRATCH)
    put(scratch, 0, position)
    put(scratch, 1, length)
    if syscall(CACHESTAT, fd, scratch, scratch + 16, 0) != 0:
        return False
    pages = (position + length - 1) // PAGE - position // PAGE + 1
    return get(scratch, 2) >= pages


@inlined
def _remembered(cx: int, row: int, connection_row: int, place: Words) -> int:
    """The segment where the last read ended, when this one goes on there: place is filled; -1 otherwise."""
    words = next_words(row, connection_row)
    if get(words, NEXT_SLOT) != get(row, PL_SLOT) + 1 or get(words, NEXT_OFFSET) != get(row, PL_OFFSET):
        return -1
    if get(words, NEXT_VERSION) != get(row, PL_VERSION):
        return -1
    number = get(words, NEXT_SEGMENT)
    fd = get(segment_row(cx, number), SG_LOG_FD)
    position = get(words, NEXT_POSITION)
    scratch = get(cx, CX_SCRATCH)
    if fd < 0 or pread(fd, scratch, 24, position) < 24:
        return -1
    if load_i64_be(scratch + rb.BASE_OFFSET) > get(row, PL_OFFSET):
        return -1
    place[PLACE_POSITION] = position
    place[PLACE_SIZE] = load_i32_be(scratch + rb.LENGTH) + rb.LENGTH_OVERHEAD
    return number


@inlined
def _search(cx: int, row: int, snap: int, offset: int, place: Words) -> int:
    """The segment with an offset of the plan row's slot: place is filled. -1: Python must look; -2: no bytes."""
    read = get(cx, CX_READS) + get(row, PL_SLOT) * READ_WORDS * 8
    count = get(read, RD_COUNT)
    if count == 0 or get(read, RD_GENERATION) != get(row, PL_GENERATION):
        return -1
    if get(read, RD_VERSION) != get(row, PL_VERSION):
        return -1
    number = get(read, RD_FIRST) + count - 1
    while number > get(read, RD_FIRST) and get(segment_row(cx, number), SG_BASE) > offset:
        number -= 1
    while number < get(read, RD_FIRST) + count:
        segment = segment_row(cx, number)
        fd = get(segment, SG_LOG_FD)
        if fd < 0:
            return -1
        base = get(segment, SG_BASE)
        end = get(snap, sm.SLOT_HW_POSITION)
        if base != get(snap, sm.SLOT_HW_BASE):
            end = lseek(fd, 0, SEEK_END)
        index = get(segment, SG_INDEX_FD)
        index_bytes = lseek(index, 0, SEEK_END) if index >= 0 else 0
        found = locate(fd, index, index_bytes, base, offset, 0, end, place)
        if found == FOUND:
            return number
        if found != NOT_HERE:
            return -1
        if base == get(snap, sm.SLOT_HW_BASE):
            return -2
        number += 1
    return -2


@inlined
def _plan_range(
    cx: int, row: int, snap: int, connection_row: int, left: int, min_one: bool, place: Words
) -> int:
    """Set the plan row's file range; READY or TO_PYTHON."""
    number = _remembered(cx, row, connection_row, place)
    if number < 0:
        number = _search(cx, row, snap, get(row, PL_OFFSET), place)
        if number == -1:
            return TO_PYTHON
        if number < 0:
            return READY
    segment = segment_row(cx, number)
    fd = get(segment, SG_LOG_FD)
    last = get(segment, SG_BASE) == get(snap, sm.SLOT_HW_BASE)
    end = get(snap, sm.SLOT_HW_POSITION) if last else lseek(fd, 0, SEEK_END)
    position = place[PLACE_POSITION]
    most = min(left, get(row, PL_MAX_BYTES))
    if most < place[PLACE_SIZE]:
        if not min_one:
            return READY
        most = place[PLACE_SIZE]
    length = min(most, end - position)
    if length <= 0:
        return TO_PYTHON
    if not resident(cx, fd, position, length):
        return TO_PYTHON
    put(row, PL_SEGMENT, number)
    put(row, PL_POSITION, position)
    put(row, PL_LENGTH, length)
    put(row, PL_TO_END, 1 if last and position + length == end else 0)
    return READY


@inlined
def _check(row: int, snap: int) -> bool:
    """Whether a partition can be read without any error."""
    if get(snap, sm.SLOT_STATE) != sm.STATE_ONLINE or get(snap, sm.SLOT_GENERATION) != get(
        row, PL_GENERATION
    ):
        return False
    epoch = get(row, PL_EPOCH)
    if (epoch >= 0 and epoch != get(snap, sm.SLOT_LEADER_EPOCH)) or get(row, PL_LAST_EPOCH) >= 0:
        return False
    offset = get(row, PL_OFFSET)
    return offset >= get(snap, sm.SLOT_LOG_START) and offset <= get(snap, sm.SLOT_LOG_END)


@inlined
def _end_at_last_stable(cx: int, row: int, snap: int, place: Words) -> bool:
    """Let a read_committed reader see no farther than the last stable offset: the snapshot's high watermark and its
    place become that offset's. False: Python must look, because transactions of the range were aborted, or files are
    being replaced."""
    if get(row, PL_OFFSET) <= get(snap, sm.SLOT_LAST_ABORTED) or get(row, PL_VERSION) & 1 != 0:
        return False
    stable = get(snap, sm.SLOT_LAST_STABLE)
    put(row, PL_END, stable)
    if stable < get(snap, sm.SLOT_HIGH_WATERMARK) and get(row, PL_OFFSET) < stable:
        number = _search(cx, row, snap, stable, place)
        if number < 0:
            return False
        put(snap, sm.SLOT_HW_BASE, get(segment_row(cx, number), SG_BASE))
        put(snap, sm.SLOT_HW_POSITION, place[PLACE_POSITION])
    return True


@inlined
def plan_reads(cx: int, connection_row: int) -> int:
    """Set the ranges of the whole plan: READY, WAITING when there are too few bytes, or TO_PYTHON."""
    snap = get(cx, CX_SNAPSHOT)
    left = get(cx, CX_PLAN_MAX_BYTES)
    min_one = True
    total = 0
    place = np.empty(4, np.int64)
    for number in range(get(cx, CX_PLAN_COUNT)):
        row = plan_row(cx, number)
        slot = get(cx, CX_SLOTS) + get(row, PL_SLOT) * sm.SLOT_WORDS * 8
        if snapshot(slot, snap) == 0 or not _check(row, snap):
            return TO_PYTHON
        put(row, PL_HIGH_WATERMARK, get(snap, sm.SLOT_HIGH_WATERMARK))
        put(row, PL_LAST_STABLE, get(snap, sm.SLOT_LAST_STABLE))
        put(row, PL_LOG_START, get(snap, sm.SLOT_LOG_START))
        put(row, PL_VERSION, get(snap, sm.SLOT_SEGMENTS_VERSION))
        put(row, PL_SEGMENT, -1)
        put(row, PL_LENGTH, 0)
        put(row, PL_END, get(snap, sm.SLOT_HIGH_WATERMARK))
        if get(cx, CX_PLAN_COMMITTED) != 0 and not _end_at_last_stable(cx, row, snap, place):
            return TO_PYTHON
        if get(row, PL_OFFSET) < get(row, PL_END):
            if _plan_range(cx, row, snap, connection_row, left, min_one, place) == TO_PYTHON:
                return TO_PYTHON
            length = get(row, PL_LENGTH)
            if length > 0:
                min_one = False
                left = max(0, left - length)
                total += length
    put(cx, CX_PLAN_TOTAL, total)
    if total >= get(cx, CX_PLAN_MIN_BYTES) or get(cx, CX_PLAN_MAX_WAIT) <= 0:
        return READY
    return WAITING
