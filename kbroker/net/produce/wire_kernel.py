"""The wire format of Produce, v3 to v13: reads the structure of a request in the arena, and writes
the answer from the request's frame and its result rows.

Reading checks every length before anything is done, and changes nothing. It ends at the first sign
of more topics or partitions than one request may have: Python reads such a request in slices. A
malformed request closes the connection; a request that does not fit into the rings and tables now
stays where it is and is retried.
"""

from kbroker.kernels.batch_header import whole_batch_of_any_format
from kbroker.kernels.codes import Code
from kbroker.kernels.jit import inlined
from kbroker.kernels.memory import (
    copy,
    load_i16_be,
    load_i32_be,
    load_i64_be,
    store_i16_be,
    store_i32_be,
    store_i64_be,
    store_u8,
)
from kbroker.kernels.rows import get, put
from kbroker.kernels.wire import read_length, skip_tags, write_count, write_no_tags
from kbroker.net.produce.check_kernel import is_transactional
from kbroker.net.rows import Context, ProduceVersion, Request, Result
from kbroker.protocol import batch_layout as rb

MALFORMED = 0
READY = 1
BYTES_PER_RESULT = 48
BYTES_PER_TOPIC = 24
ANYWHERE = 1 << 62  # the request was scanned: every length in it fits


@inlined
def max_partitions(cx: int) -> int:
    """Maximum number of partitions in a request that kernels serve."""
    return get(cx, Context.EVENT_CAPACITY) // 2


@inlined
def _too_many(cx: int, count: int) -> int:
    put(cx, Context.SCAN_ID, 0)
    put(cx, Context.SCAN_COUNT, count)
    return READY


@inlined
def scan(cx: int, position: int, end: int, version: int) -> int:
    """Read a body's structure into the Context.SCAN words; MALFORMED unless every length fits. With
    Context.SCAN_COUNT above `max_partitions`, no other word is read. Context.SCAN_REFUSED may be
    INVALID_PRODUCER_ID_MAPPING for partitions that do not count: see `has_several_producers`."""
    compact = version >= ProduceVersion.FLEXIBLE
    length, position = read_length(position, end, compact, False)
    if position < 0 or length > end - position:
        return MALFORMED
    transactional_id = position if length >= 0 else 0
    id_bytes = length
    position += max(length, 0)
    if end - position < 6:
        return MALFORMED
    put(cx, Context.SCAN_ACKS, load_i16_be(position))
    put(cx, Context.SCAN_TIMEOUT, load_i32_be(position + 2))
    position += 6
    put(cx, Context.SCAN_TOPICS, position)
    topics, position = read_length(position, end, compact, True)
    if position < 0 or topics < 0 or topics > end - position:
        return MALFORMED
    count = 0
    limit = max_partitions(cx)
    if topics > limit:
        return _too_many(cx, topics)
    bound = 32
    transactional = several = False
    producer = epoch = -1
    empty = 0
    # Kafka looks for transactions first, and a batch that it cannot skip fails the whole request
    corrupt = False
    for _ in range(topics):
        if version >= ProduceVersion.TOPIC_IDS:
            length = 16
        else:
            length, position = read_length(position, end, compact, False)
        if position < 0 or length < 0 or length > end - position:
            return MALFORMED
        position += length
        partitions, position = read_length(position, end, compact, True)
        if position < 0 or partitions < 0 or partitions > end - position:
            return MALFORMED
        if partitions == 0:
            empty = 1
        count += partitions
        if count > limit:
            return _too_many(cx, count)
        bound += BYTES_PER_TOPIC + length + partitions * BYTES_PER_RESULT
        for _ in range(partitions):
            if end - position < 4:
                return MALFORMED
            length, position = read_length(position + 4, end, compact, True)
            if position < 0 or length < -1 or length > end - position:
                return MALFORMED
            if length >= 0 and not corrupt:
                size = whole_batch_of_any_format(position, length)
                corrupt = size < 0 and not transactional
                if is_transactional(position, size):
                    transactional = True
                    other = load_i64_be(position + rb.PRODUCER_ID)
                    other_epoch = load_i16_be(position + rb.PRODUCER_EPOCH)
                    several = several or (producer >= 0 and (other != producer or other_epoch != epoch))
                    producer = other
                    epoch = other_epoch
            position += max(length, 0)
            if compact:
                position = skip_tags(position, end)
                if position < 0:
                    return MALFORMED
        if compact:
            position = skip_tags(position, end)
            if position < 0:
                return MALFORMED
    if compact:
        position = skip_tags(position, end)
    if position < 0:  # bytes after the end are legal, some clients send them
        return MALFORMED
    refused = Code.CORRUPT_MESSAGE if corrupt else Code.NONE
    if several:
        refused = Code.INVALID_PRODUCER_ID_MAPPING
    if transactional and transactional_id == 0:
        refused = Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    put(cx, Context.SCAN_ID, transactional_id if transactional else 0)
    put(cx, Context.SCAN_ID_BYTES, id_bytes)
    put(cx, Context.SCAN_REFUSED, refused)
    put(cx, Context.SCAN_EMPTY, empty)
    put(cx, Context.SCAN_COUNT, count)
    put(cx, Context.SCAN_BOUND, bound)
    return READY


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
    out = write_no_tags(out, compact)
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
            out = write_no_tags(out, compact)
    store_i32_be(out, get(cx, Context.THROTTLE_MS))
    out += 4
    out = write_no_tags(out, compact)
    store_i32_be(start, out - start - 4)
    return out - start
