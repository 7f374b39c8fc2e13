"""Builds the answer to a Produce request, v3 to v13, from the request's frame and its result
rows."""

from kbroker.kernels.jit import inlined
from kbroker.kernels.memory import copy, load_i32_be, store_i16_be, store_i32_be, store_i64_be, store_u8
from kbroker.kernels.rows import get
from kbroker.kernels.wire import read_length, skip_tags, write_count
from kbroker.net.rows import Context, ProduceVersion, Request, Result

ANYWHERE = 1 << 62  # the request was scanned: every length in it fits


@inlined
def _write_partition(out: int, row: int, index: int, version: int) -> int:
    store_i32_be(out, index)
    store_i16_be(out + 4, get(row, Result.ERROR))
    store_i64_be(out + 6, get(row, Result.BASE_OFFSET))
    store_i64_be(out + 14, get(row, Result.APPEND_TIME))
    out += 22
    if version >= ProduceVersion.LOG_START_OFFSET:
        store_i64_be(out, get(row, Result.LOG_START))
        out += 8
    if version >= ProduceVersion.FLEXIBLE:
        store_u8(out, 1)  # no record errors
        store_u8(out + 1, 0)  # no message
        store_u8(out + 2, 0)  # no tags
        out += 3
    elif version >= ProduceVersion.RECORD_ERRORS:
        store_i32_be(out, 0)
        store_i16_be(out + 4, -1)
        out += 6
    return out


@inlined
def write_answer(cx: int, number: int, out: int) -> int:
    """Build the framed answer to request row ``number`` at an address; returns its bytes (<=
    Request.BOUND)."""
    request = get(cx, Context.REQUESTS) + number * Request.STRIDE
    version = get(request, Request.VERSION)
    compact = version >= ProduceVersion.FLEXIBLE
    start = out
    store_i32_be(out + 4, get(request, Request.CORRELATION))
    out += 8
    if compact:
        store_u8(out, 0)
        out += 1
    topics, position = read_length(get(request, Request.TOPICS), ANYWHERE, compact, True)
    out = write_count(out, topics, compact)
    result = get(request, Request.RESULT)
    for _ in range(topics):
        begin = position
        if version >= ProduceVersion.TOPIC_IDS:
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
            row = get(cx, Context.RESULTS) + result * Result.STRIDE
            out = _write_partition(out, row, index, version)
            result = get(row, Result.NEXT)
        if compact:
            position = skip_tags(position, ANYWHERE)
            store_u8(out, 0)
            out += 1
    store_i32_be(out, get(cx, Context.THROTTLE_MS))
    out += 4
    if compact:
        store_u8(out, 0)
        out += 1
    store_i32_be(start, out - start - 4)
    return out - start
