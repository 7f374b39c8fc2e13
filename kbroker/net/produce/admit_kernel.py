"""Reads a Produce request, v3 to v13, in the arena, has each of its batches checked, and pushes
append entries.

`scan` reads the structure: it checks every length before anything is done, and changes nothing. It
ends at the first sign of more topics or partitions than one request may have: Python reads such a
request in slices. A malformed request closes the connection; a request that does not fit into the
rings and tables now stays where it is and is retried.
"""

from kbroker.ipc.layout import AppendEntry, Counter, Slot
from kbroker.ipc.ring import HEAD, pack_acks, ring_entry, ring_free
from kbroker.kernels.batch_header import batch_bytes, whole_batch_of_any_format
from kbroker.kernels.codes import Code
from kbroker.kernels.jit import inlined, kernel
from kbroker.kernels.memory import (
    load_i16_be,
    load_i32_be,
    load_i64,
    load_i64_be,
    store_i64,
    store_release,
)
from kbroker.kernels.rows import get, put
from kbroker.kernels.wire import read_length, skip_tags
from kbroker.net.produce.check_kernel import (
    NEEDS_PYTHON,
    UNKNOWN_TOPIC,
    check_result,
    check_single,
    check_slot,
    is_of_transactional_producer,
    is_transactional,
    is_without_log_start,
)
from kbroker.net.produce.queue_kernel import take_result
from kbroker.net.rows import (
    Connection,
    Context,
    EventKind,
    May,
    Partition,
    ProduceVersion,
    Request,
    Result,
    ResultState,
    Token,
    Topic,
    Worker,
)
from kbroker.net.rows.connection_kernel import connection_row, push_event
from kbroker.net.rows.topic_kernel import may_use, topic_by_id, topic_by_name
from kbroker.protocol import batch_layout as rb

MALFORMED = 0
READY = 1
TOO_MANY = 5  # more topics or partitions than kernels serve: Python's
BYTES_PER_RESULT = 48
BYTES_PER_TOPIC = 24

_pack_acks = inlined(pack_acks)


@inlined
def scan(cx: int, position: int, end: int, version: int) -> int:
    """Read a body's structure into the Context.SCAN words: READY, MALFORMED unless every length
    fits, or TOO_MANY, with which the words do not count. Context.SCAN_REFUSED may be
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
    limit = get(cx, Context.EVENT_CAPACITY) // 2
    if topics > limit:
        return TOO_MANY
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
            return TOO_MANY
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
def rings_have_room(cx: int, count: int) -> bool:
    """Whether every worker's append ring takes ``count`` more entries, or is half empty."""
    capacity = get(cx, Context.RING_ENTRIES)
    count = min(count, capacity // 2)
    for worker in range(get(cx, Context.WORKER_COUNT)):
        row = get(cx, Context.WORKERS) + worker * Worker.STRIDE
        if ring_free(get(row, Worker.APPEND), capacity) < count:
            return False
    return True


@inlined
def ring_has_room(cx: int, worker: int) -> bool:
    """Whether a worker's append ring takes one more entry."""
    row = get(cx, Context.WORKERS) + worker * Worker.STRIDE
    return ring_free(get(row, Worker.APPEND), get(cx, Context.RING_ENTRIES)) > 0


@inlined
def push_append(cx: int, result: int) -> None:
    """Put the batch of a result row into its owner's ring, which has room."""
    row = get(cx, Context.RESULTS) + result * Result.STRIDE
    request = get(cx, Context.REQUESTS) + get(row, Result.REQUEST) * Request.STRIDE
    worker = get(cx, Context.WORKERS) + get(row, Result.WORKER) * Worker.STRIDE
    ring = get(worker, Worker.APPEND)
    number = load_i64(ring + HEAD)
    entry = ring_entry(ring, get(cx, Context.RING_ENTRIES), number)
    put(entry, AppendEntry.OPERATION, get(row, Result.OPERATION))
    put(entry, AppendEntry.SLOT, get(row, Result.SLOT))
    put(entry, AppendEntry.GENERATION, get(row, Result.GENERATION))
    put(entry, AppendEntry.ADDRESS, get(row, Result.ADDRESS))
    put(entry, AppendEntry.LENGTH, get(row, Result.LENGTH))
    tag = (number & Token.NUMBER_MASK) << Token.RESULT_BITS
    put(entry, AppendEntry.TOKEN, get(cx, Context.TOKEN_EPOCH) | tag | result)
    put(entry, AppendEntry.ACKS, _pack_acks(get(request, Request.ACKS), get(request, Request.TIMEOUT)))
    put(entry, AppendEntry.NANOSECONDS, get(cx, Context.NOW_NS))
    store_release(ring + HEAD, number + 1)
    put(row, Result.NUMBER, number)
    put(row, Result.STATE, ResultState.WAITING)
    put(worker, Worker.PUSHED, get(worker, Worker.PUSHED) + 1)


@inlined
def _read_topic(cx: int, position: int, end: int, version: int) -> tuple[int, int, int, int]:
    """A topic of a scanned request: its row, or 0, its name and the bytes of that (0 where topics
    have ids), and the position of its partitions."""
    if version >= ProduceVersion.TOPIC_IDS:
        return topic_by_id(cx, position), 0, 0, position + 16
    name_bytes, name = read_length(position, end, version >= ProduceVersion.FLEXIBLE, False)
    return topic_by_name(cx, name, name_bytes), name, name_bytes, name + name_bytes


@inlined
def _partition(cx: int, topic: int, index: int) -> int:
    """Row of a topic's partition, 0 when it has no such partition. topic: address of its row, or
    0."""
    if topic == 0 or index < 0 or index >= get(topic, Topic.COUNT):
        return 0
    return get(cx, Context.PARTITIONS) + (get(topic, Topic.PARTITIONS) + index) * Partition.STRIDE


@inlined
def has_several_producers(cx: int, client_row: int, end: int, version: int) -> bool:
    """Whether the transactional batches of the scanned request are of more than one producer id, or
    epoch of it. As in Kafka those do not count whose partition is refused before."""
    compact = version >= ProduceVersion.FLEXIBLE
    topics, position = read_length(get(cx, Context.SCAN_TOPICS), end, compact, True)
    producer = epoch = -1
    for _ in range(topics):
        topic, _, _, position = _read_topic(cx, position, end, version)
        allowed = topic != 0 and may_use(cx, client_row, topic, May.WRITE)
        partitions, position = read_length(position, end, compact, True)
        for _ in range(partitions):
            index = load_i32_be(position)
            length, position = read_length(position + 4, end, compact, True)
            if (
                allowed
                and _partition(cx, topic, index) != 0
                and check_single(position, length, version) == Code.NONE
                and is_of_transactional_producer(position, batch_bytes(position))
            ):
                other = load_i64_be(position + rb.PRODUCER_ID)
                other_epoch = load_i16_be(position + rb.PRODUCER_EPOCH)
                if producer >= 0 and (other != producer or other_epoch != epoch):
                    return True
                producer = other
                epoch = other_epoch
            position += max(length, 0)
            if compact:
                position = skip_tags(position, end)
        if compact:
            position = skip_tags(position, end)
    return False


@inlined
def _admit_partition(
    cx: int, request: int, topic: int, partition: int, address: int, length: int, result: int
) -> int:
    """Check one partition's records: NONE, an error, NEEDS_PYTHON, REFUSED or CHECK_LATER."""
    version = get(request, Request.VERSION)
    acks = get(request, Request.ACKS)
    row = get(cx, Context.RESULTS) + result * Result.STRIDE
    error = check_single(address, length, version)
    if error != Code.NONE:
        return error
    if acks < -1 or acks > 1:
        return Code.INVALID_REQUIRED_ACKS
    if get(topic, Topic.INTERNAL) != 0:
        return Code.INVALID_TOPIC_EXCEPTION
    number = get(partition, Partition.SLOT)
    slot = get(cx, Context.SLOTS) + number * Slot.STRIDE
    error = check_slot(slot, get(partition, Partition.GENERATION))
    if error != Code.NONE:
        return error
    size = batch_bytes(address)
    put(row, Result.SLOT, number)
    put(row, Result.GENERATION, get(partition, Partition.GENERATION))
    put(row, Result.WORKER, get(slot, Slot.OWNER))
    put(row, Result.ADDRESS, address - get(cx, Context.ARENA))
    put(row, Result.LENGTH, size)
    put(row, Result.LOG_START, get(slot, Slot.LOG_START))
    return check_result(cx, row, slot, length)


@inlined
def _note_failure(cx: int, slot: int) -> None:
    counter = get(cx, Context.COUNTERS) + (slot * Counter.WORDS + Counter.FAILED_PRODUCE) * 8
    store_i64(counter, load_i64(counter) + 1)


@inlined
def admit(cx: int, connection: int, number: int, end: int) -> int:
    """Check and push every partition of the scanned request ``number``; returns how many are left
    to Python.

    Result rows and events have room for all (the caller looked). An entry whose ring is full is
    left to Python.
    """
    request = get(cx, Context.REQUESTS) + number * Request.STRIDE
    version = get(request, Request.VERSION)
    compact = version >= ProduceVersion.FLEXIBLE
    unknown = (
        Code.UNKNOWN_TOPIC_ID if version >= ProduceVersion.TOPIC_IDS else Code.UNKNOWN_TOPIC_OR_PARTITION
    )
    refused = get(cx, Context.SCAN_REFUSED)
    topics, position = read_length(get(request, Request.TOPICS), end, compact, True)
    last = -1
    pending = 0
    left = 0
    client_row = connection_row(cx, connection)
    for _ in range(topics):
        denied = 0
        topic, name, name_bytes, position = _read_topic(cx, position, end, version)
        partitions, position = read_length(position, end, compact, True)
        for _ in range(partitions):
            index = load_i32_be(position)
            length, position = read_length(position + 4, end, compact, True)
            result = take_result(cx, number)
            row = get(cx, Context.RESULTS) + result * Result.STRIDE
            if last < 0:
                put(request, Request.RESULT, result)
            else:
                put(get(cx, Context.RESULTS) + last * Result.STRIDE, Result.NEXT, result)
            last = result
            partition = _partition(cx, topic, index)
            if refused != Code.NONE:
                error = refused
            elif topic != 0 and not may_use(cx, client_row, topic, May.WRITE):
                error = Code.TOPIC_AUTHORIZATION_FAILED
                denied += 1
            elif topic == 0 and name != 0 and get(client_row, Connection.ACCESS) != 0:
                error = UNKNOWN_TOPIC
                put(row, Result.ADDRESS, name - get(cx, Context.ARENA))
                put(row, Result.LENGTH, name_bytes)
            elif partition == 0:
                error = unknown if topic == 0 else Code.UNKNOWN_TOPIC_OR_PARTITION
            else:
                error = _admit_partition(cx, request, topic, partition, position, length, result)
            if error == Code.NONE and ring_has_room(cx, get(row, Result.WORKER)):
                push_append(cx, result)
                pending += 1
            elif error == Code.NONE or error >= NEEDS_PYTHON:
                put(row, Result.STATE, ResultState.IN_PYTHON)
                push_event(cx, EventKind.CHECK_BATCH, connection, result, error)
                pending += 1
                left += 1
            else:
                put(row, Result.ERROR, error)
                put(request, Request.FAILED, 1)
                if is_without_log_start(error):
                    put(row, Result.LOG_START, -1)
                if partition != 0:
                    _note_failure(cx, get(partition, Partition.SLOT))
            position += max(length, 0)
            if compact:
                position = skip_tags(position, end)
        if denied != 0:
            topic_row = (topic - get(cx, Context.TOPICS)) // Topic.STRIDE
            push_event(cx, EventKind.DENIED, connection, topic_row, denied)
        if compact:
            position = skip_tags(position, end)
    put(request, Request.PENDING, pending)
    return left


@kernel("int64(int64, int64)")
def push_checked(cx: int, result: int) -> int:
    """Push the batch of a result that Python has checked (Result.ADDRESS and Result.LENGTH
    may name a new one).

    0 when the owner's ring is full."""
    row = get(cx, Context.RESULTS) + result * Result.STRIDE
    if not ring_has_room(cx, get(row, Result.WORKER)):
        return 0
    push_append(cx, result)
    return 1
