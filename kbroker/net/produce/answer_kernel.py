"""The answer to a Produce request, v3 to v13, built from the request's frame and its result rows."""

from kbroker.kernels.jit import inlined
from kbroker.kernels.memory import copy, load_i32_be, store_i16_be, store_i32_be, store_i64_be, store_u8
from kbroker.kernels.rows import get
from kbroker.kernels.wire import read_length, skip_tags, write_count
from kbroker.net.produce.scan_kernel import FLEXIBLE, TOPIC_IDS
from kbroker.net.rows.layout import (
    CX_REQUESTS,
    CX_RESULTS,
    CX_THROTTLE_MS,
    REQUEST_WORDS,
    RESULT_WORDS,
    RQ_CORRELATION,
    RQ_RESULT,
    RQ_TOPICS,
    RQ_VERSION,
    RS_APPEND_TIME,
    RS_BASE_OFFSET,
    RS_ERROR,
    RS_LOG_START,
    RS_NEXT,
)

LOG_START_OFFSET = 5  # first versions of fields
RECORD_ERRORS = 8
ANYWHERE = 1 << 62  # the request was scanned: every length in it fits


@inlined
def _write_partition(out: int, row: int, index: int, version: int) -> int:
    store_i32_be(out, index)
    store_i16_be(out + 4, get(row, RS_ERROR))
    store_i64_be(out + 6, get(row, RS_BASE_OFFSET))
    store_i64_be(out + 14, get(row, RS_APPEND_TIME))
    out += 22
    if version >= LOG_START_OFFSET:
        store_i64_be(out, get(row, RS_LOG_START))
        out += 8
    if version >= FLEXIBLE:
        store_u8(out, 1)  # no record errors
        store_u8(out + 1, 0)  # no message
        store_u8(out + 2, 0)  # no tags
        out += 3
    elif version >= RECORD_ERRORS:
        store_i32_be(out, 0)
        store_i16_be(out + 4, -1)
        out += 6
    return out


@inlined
def write_answer(cx: int, number: int, out: int) -> int:
    """Build the framed answer to request row ``number`` at an address; returns its bytes (<= RQ_BOUND)."""
    request = get(cx, CX_REQUESTS) + number * REQUEST_WORDS * 8
    version = get(request, RQ_VERSION)
    compact = version >= FLEXIBLE
    start = out
    store_i32_be(out + 4, get(request, RQ_CORRELATION))
    out += 8
    if compact:
        store_u8(out, 0)
        out += 1
    topics, position = read_length(get(request, RQ_TOPICS), ANYWHERE, compact, True)
    out = write_count(out, topics, compact)
    result = get(request, RQ_RESULT)
    for _ in range(topics):
        begin = position
        if version >= TOPIC_IDS:
            position += 16
        else:
            length, position = read_length(position, ANYWHERE, compact, False)
            position += length
        copy(out, begin, position - begin)
        out += position - begin
        partitions, position = read_length(position, ANYWHERE, compact, True)
        out = write_count(out, partitions, compact)
        for _ in range(partitions):
            index = load_i32_be(position)
            length, position = read_length(position + 4, ANYWHERE, compact, True)
            position += max(length, 0)
            if compact:
                position = skip_tags(position, ANYWHERE)
            row = get(cx, CX_RESULTS) + result * RESULT_WORDS * 8
            out = _write_partition(out, row, index, version)
            result = get(row, RS_NEXT)
        if compact:
            position = skip_tags(position, ANYWHERE)
            store_u8(out, 0)
            out += 1
    store_i32_be(out, get(cx, CX_THROTTLE_MS))
    out += 4
    if compact:
        store_u8(out, 0)
        out += 1
    store_i32_be(start, out - start - 4)
    return out - start
