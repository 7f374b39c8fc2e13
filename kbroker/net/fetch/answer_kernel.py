"""The answer of a planned fetch: which partitions it holds, its bytes, and the file ranges between them."""

from kbroker.kernels.jit import inlined
from kbroker.kernels.libc import pread
from kbroker.kernels.memory import (
    copy,
    load_i32_be,
    load_i64_be,
    store_i16_be,
    store_i32_be,
    store_i64,
    store_i64_be,
    store_u8,
)
from kbroker.kernels.rows import get, put
from kbroker.kernels.wire import write_count, write_uvarint
from kbroker.net.fetch.read_kernel import next_words, segment_row
from kbroker.net.fetch.request_kernel import FLEXIBLE, LOG_START, SESSIONS, TOPIC_IDS, plan_row
from kbroker.net.rows.connection_kernel import events_left
from kbroker.net.rows.fetch_layout import (
    CX_PART_COUNT,
    CX_PARTS,
    CX_PLAN_COMMITTED,
    CX_PLAN_COUNT,
    CX_PLAN_SESSION,
    NEXT_OFFSET,
    NEXT_POSITION,
    NEXT_SEGMENT,
    NEXT_SLOT,
    NEXT_VERSION,
    PA_FD,
    PA_LENGTH,
    PA_SEGMENT,
    PA_START,
    PART_WORDS,
    PARTS,
    PL_END,
    PL_ENTRY,
    PL_HIGH_WATERMARK,
    PL_INDEX,
    PL_LAST_STABLE,
    PL_LENGTH,
    PL_LOG_START,
    PL_POSITION,
    PL_SEGMENT,
    PL_SELECTED,
    PL_SLOT,
    PL_TO_END,
    PL_TOPIC,
    PL_VERSION,
    SE_TOLD_HIGH_WATERMARK,
    SE_TOLD_LOG_START,
    SG_LOG_FD,
    SS_ID,
)
from kbroker.net.rows.layout import (
    CX_OUT_BYTES,
    CX_OUT_USED,
    CX_SENDFILE_MIN,
    TP_ID_HIGH,
    TP_ID_LOW,
    TP_NAME,
    TP_NAME_LENGTH,
)
from kbroker.protocol import batch_layout as rb

PREFERRED_REPLICA = 11
HEADER_BOUND = 64
TOPIC_BOUND = 300
PARTITION_BOUND = 64


# --- what is in the answer -----------------------------------------------------------------------------------------


@inlined
def select(cx: int) -> int:
    """Mark the partitions that the answer holds; returns how many."""
    session = get(cx, CX_PLAN_SESSION)
    selected = 0
    for number in range(get(cx, CX_PLAN_COUNT)):
        row = plan_row(cx, number)
        told = 1
        if session != 0 and get(row, PL_LENGTH) == 0:
            entry = get(row, PL_ENTRY)
            same = get(entry, SE_TOLD_HIGH_WATERMARK) == get(row, PL_HIGH_WATERMARK)
            told = 0 if same and get(entry, SE_TOLD_LOG_START) == get(row, PL_LOG_START) else 1
        put(row, PL_SELECTED, told)
        selected += told
    return selected


@inlined
def has_room(cx: int) -> bool:
    """Whether headers and small ranges fit into the scratch, and the parts into their table."""
    small = get(cx, CX_SENDFILE_MIN)
    size = HEADER_BOUND
    parts = 1
    for number in range(get(cx, CX_PLAN_COUNT)):
        row = plan_row(cx, number)
        if get(row, PL_SELECTED) != 0:
            size += TOPIC_BOUND + PARTITION_BOUND
            if get(row, PL_LENGTH) < small:
                size += get(row, PL_LENGTH)
            else:
                parts += 2
    if parts > PARTS or events_left(cx) < parts + 64:
        return False
    return size <= get(cx, CX_OUT_BYTES) - get(cx, CX_OUT_USED)


@inlined
def _group(cx: int, number: int) -> int:
    """Selected partitions of one topic that follow each other, from plan row ``number`` on."""
    topic = get(plan_row(cx, number), PL_TOPIC)
    count = 0
    for other in range(number, get(cx, CX_PLAN_COUNT)):
        row = plan_row(cx, other)
        if get(row, PL_SELECTED) != 0:
            if get(row, PL_TOPIC) != topic:
                break
            count += 1
    return count


@inlined
def _groups(cx: int) -> int:
    """Runs of selected partitions of one topic."""
    last = 0
    count = 0
    for number in range(get(cx, CX_PLAN_COUNT)):
        row = plan_row(cx, number)
        if get(row, PL_SELECTED) != 0 and get(row, PL_TOPIC) != last:
            last = get(row, PL_TOPIC)
            count += 1
    return count


# --- building ------------------------------------------------------------------------------------------------------


@inlined
def _add_part(cx: int, segment: int, start: int, length: int, fd: int) -> None:
    count = get(cx, CX_PART_COUNT)
    part = get(cx, CX_PARTS) + count * PART_WORDS * 8
    put(part, PA_SEGMENT, segment)
    put(part, PA_START, start)
    put(part, PA_LENGTH, length)
    put(part, PA_FD, fd)
    put(cx, CX_PART_COUNT, count + 1)


@inlined
def _write_topic(out: int, topic: int, version: int) -> int:
    if version >= TOPIC_IDS:
        store_i64(out, get(topic, TP_ID_HIGH))
        store_i64(out + 8, get(topic, TP_ID_LOW))
        return out + 16
    length = get(topic, TP_NAME_LENGTH)
    if version >= FLEXIBLE:
        out = write_uvarint(out, length + 1)
    else:
        store_i16_be(out, length)
        out += 2
    copy(out, get(topic, TP_NAME), length)
    return out + length


@inlined
def _write_partition(out: int, row: int, version: int, committed: int) -> int:
    """Everything before the records. committed: 1 for read_committed, which is told that nothing was aborted."""
    store_i32_be(out, get(row, PL_INDEX))
    store_i16_be(out + 4, 0)
    store_i64_be(out + 6, get(row, PL_HIGH_WATERMARK))
    store_i64_be(out + 14, get(row, PL_LAST_STABLE))
    out += 22
    if version >= LOG_START:
        store_i64_be(out, get(row, PL_LOG_START))
        out += 8
    if version >= FLEXIBLE:
        store_u8(out, committed)  # aborted transactions: null, or none
        out += 1
    else:
        store_i32_be(out, committed - 1)
        out += 4
    if version >= PREFERRED_REPLICA:
        store_i32_be(out, -1)
        out += 4
    if version >= FLEXIBLE:
        return write_uvarint(out, get(row, PL_LENGTH) + 1)
    store_i32_be(out, get(row, PL_LENGTH))
    return out + 4


@inlined
def _remember(cx: int, row: int, where: int, next_offset: int, position: int) -> None:
    words = next_words(row, where)
    put(words, NEXT_SLOT, get(row, PL_SLOT) + 1)
    put(words, NEXT_OFFSET, next_offset)
    put(words, NEXT_SEGMENT, get(row, PL_SEGMENT))
    put(words, NEXT_POSITION, position)
    put(words, NEXT_VERSION, get(row, PL_VERSION))


@inlined
def _walk_end(cx: int, row: int, where: int, data: int, length: int) -> None:
    """Remember where the last whole batch of the bytes at an address ends."""
    at = 0
    next_offset = -1
    while length - at >= rb.HEADER_BYTES:
        size = load_i32_be(data + at + rb.LENGTH) + rb.LENGTH_OVERHEAD
        if size < rb.HEADER_BYTES or size > length - at:
            break
        next_offset = (
            load_i64_be(data + at + rb.BASE_OFFSET) + load_i32_be(data + at + rb.LAST_OFFSET_DELTA) + 1
        )
        at += size
    if next_offset >= 0:
        _remember(cx, row, where, next_offset, get(row, PL_POSITION) + at)


@inlined
def build(cx: int, where: int, start: int, correlation: int, version: int) -> int:
    """Build the answer at an address, ranges of some size left out as parts; 0 when a file turned out short."""
    compact = version >= FLEXIBLE
    session = get(cx, CX_PLAN_SESSION)
    small = get(cx, CX_SENDFILE_MIN)
    put(cx, CX_PART_COUNT, 0)
    store_i32_be(start + 4, correlation)
    out = start + 8
    if compact:
        store_u8(out, 0)
        out += 1
    store_i32_be(out, 0)
    out += 4
    if version >= SESSIONS:
        store_i16_be(out, 0)
        store_i32_be(out + 2, get(session, SS_ID) if session != 0 else 0)
        out += 6
    out = write_count(out, _groups(cx), compact)
    memory = start
    files = 0
    topic = 0
    for number in range(get(cx, CX_PLAN_COUNT)):
        row = plan_row(cx, number)
        if get(row, PL_SELECTED) == 0:
            continue
        if get(row, PL_TOPIC) != topic:
            if topic != 0 and compact:
                store_u8(out, 0)
                out += 1
            topic = get(row, PL_TOPIC)
            out = _write_topic(out, topic, version)
            out = write_count(out, _group(cx, number), compact)
        out = _write_partition(out, row, version, get(cx, CX_PLAN_COMMITTED))
        length = get(row, PL_LENGTH)
        if length > 0:
            fd = get(segment_row(cx, get(row, PL_SEGMENT)), SG_LOG_FD)
            if length < small:
                if pread(fd, out, length, get(row, PL_POSITION)) < length:
                    return 0
                _walk_end(cx, row, where, out, length)
                out += length
            else:
                if get(row, PL_TO_END) != 0:
                    _remember(cx, row, where, get(row, PL_END), get(row, PL_POSITION) + length)
                _add_part(cx, -1, memory, out - memory, -1)
                _add_part(cx, get(row, PL_SEGMENT), get(row, PL_POSITION), length, fd)
                memory = out
                files += length
        if compact:
            store_u8(out, 0)
            out += 1
    if compact:
        if topic != 0:
            store_u8(out, 0)
            out += 1
        store_u8(out, 0)
        out += 1
    _add_part(cx, -1, memory, out - memory, -1)
    store_i32_be(start, out - start + files - 4)
    return out
