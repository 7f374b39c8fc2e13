"""Scans the structure of a Produce request, v3 to v13, in the arena: checks every length before
anything is done. It ends at the first sign of more topics or partitions than one request may have:
Python reads such a request in slices.

The scan changes nothing. A malformed request closes the connection; one that does not fit into the
rings and tables now stays where it is and is tried again.
"""

from kbroker.kernels.batch_header import whole_batch_of_any_format
from kbroker.kernels.codes import Code
from kbroker.kernels.jit import inlined
from kbroker.kernels.memory import load_i8, load_i16_be, load_i32_be
from kbroker.kernels.rows import get, put
from kbroker.kernels.wire import read_length, skip_tags
from kbroker.net.rows import Context, ProduceVersion
from kbroker.protocol import batch_layout as rb

MALFORMED = 0
READY = 1
BYTES_PER_RESULT = 48
BYTES_PER_TOPIC = 24


@inlined
def most_partitions(cx: int) -> int:
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
    Context.SCAN_COUNT above `most_partitions`, no other word is read."""
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
    most = most_partitions(cx)
    if topics > most:
        return _too_many(cx, topics)
    bound = 32
    transactional = False
    corrupt = (
        False  # Kafka looks for transactions first, and a batch it cannot step over fails the whole request
    )
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
        count += partitions
        if count > most:
            return _too_many(cx, count)
        bound += BYTES_PER_TOPIC + length + partitions * BYTES_PER_RESULT
        for _ in range(partitions):
            if end - position < 4:
                return MALFORMED
            length, position = read_length(position + 4, end, compact, True)
            if position < 0 or length < -1 or length > end - position:
                return MALFORMED
            if length >= 0 and not transactional and not corrupt:
                size = whole_batch_of_any_format(position, length)
                corrupt = size < 0
                if size >= rb.HEADER_BYTES:
                    transactional = load_i8(position + rb.ATTRIBUTES + 1) & rb.ATTRIBUTE_TRANSACTIONAL != 0
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
    if transactional and transactional_id == 0:
        refused = Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    put(cx, Context.SCAN_ID, transactional_id if transactional else 0)
    put(cx, Context.SCAN_ID_BYTES, id_bytes)
    put(cx, Context.SCAN_REFUSED, refused)
    put(cx, Context.SCAN_COUNT, count)
    put(cx, Context.SCAN_BOUND, bound)
    return READY
