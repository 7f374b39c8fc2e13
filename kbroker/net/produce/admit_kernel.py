"""A Produce request, v3 to v13, in the arena, which was scanned: check each batch, push append entries."""

from kbroker.ipc import layout as sm
from kbroker.ipc.ring import HEAD, ring_entry, ring_free
from kbroker.kernels.jit import inlined, kernel
from kbroker.kernels.memory import (
    load_i8,
    load_i32_be,
    load_i64,
    load_i64_be,
    store_i64,
    store_release,
)
from kbroker.kernels.rows import get, link_free, next_free, put
from kbroker.kernels.wire import read_length, skip_tags
from kbroker.metrics.histogram_kernel import add
from kbroker.metrics.layout import REJECTED_BYTES
from kbroker.net.produce.check_kernel import (
    DEEP,
    INVALID_REQUIRED_ACKS,
    INVALID_TOPIC_EXCEPTION,
    MESSAGE_TOO_LARGE,
    NONE,
    REFUSED,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
    UNNAMED,
    check_batch,
    check_single,
    check_slot,
)
from kbroker.net.produce.scan_kernel import FLEXIBLE, TOPIC_IDS
from kbroker.net.rows.access_kernel import may_use
from kbroker.net.rows.access_layout import CN_ACCESS, MAY_WRITE
from kbroker.net.rows.connection_kernel import connection_row
from kbroker.net.rows.layout import (
    CX_ARENA,
    CX_COUNTERS,
    CX_EVENT_COUNT,
    CX_EVENTS,
    CX_FREE_RESULT,
    CX_FREE_RESULTS,
    CX_METRICS,
    CX_NOW_NS,
    CX_PARTITIONS,
    CX_REQUESTS,
    CX_RESULTS,
    CX_RING_ENTRIES,
    CX_SCAN_REFUSED,
    CX_SLOTS,
    CX_TOKEN_EPOCH,
    CX_WORKER_COUNT,
    CX_WORKERS,
    EV_A,
    EV_B,
    EV_CONNECTION,
    EV_KIND,
    EVENT_DEEP,
    EVENT_WORDS,
    PARTITION_WORDS,
    PT_GENERATION,
    PT_SLOT,
    REQUEST_WORDS,
    RESULT_DEEP,
    RESULT_DONE,
    RESULT_FREE,
    RESULT_WAITING,
    RESULT_WORDS,
    RQ_ACKS,
    RQ_FAILED,
    RQ_PENDING,
    RQ_RESULT,
    RQ_TIMEOUT,
    RQ_TOPICS,
    RQ_VERSION,
    RS_ADDRESS,
    RS_APPEND_TIME,
    RS_BASE_OFFSET,
    RS_CHUNK,
    RS_ERROR,
    RS_GENERATION,
    RS_LENGTH,
    RS_LOG_START,
    RS_NEXT,
    RS_NUMBER,
    RS_OPERATION,
    RS_REQUEST,
    RS_SLOT,
    RS_STATE,
    RS_TRIES,
    RS_WORKER,
    TOKEN_NUMBER_MASK,
    TOKEN_RESULT_BITS,
    TP_COUNT,
    TP_INTERNAL,
    TP_PARTITIONS,
    WK_APPEND,
    WK_PUSHED,
    WORKER_WORDS,
)
from kbroker.net.rows.topic_kernel import topic_by_id, topic_by_name
from kbroker.protocol import batch_layout as rb


@inlined
def rings_have(cx: int, count: int) -> bool:
    """Whether every worker's append ring takes ``count`` more entries, or is half empty."""
    capacity = get(cx, CX_RING_ENTRIES)
    count = min(count, capacity // 2)
    for worker in range(get(cx, CX_WORKER_COUNT)):
        row = get(cx, CX_WORKERS) + worker * WORKER_WORDS * 8
        if ring_free(get(row, WK_APPEND), capacity) < count:
            return False
    return True


@inlined
def ring_has_room(cx: int, worker: int) -> bool:
    """Whether a worker's append ring takes one more entry."""
    row = get(cx, CX_WORKERS) + worker * WORKER_WORDS * 8
    return ring_free(get(row, WK_APPEND), get(cx, CX_RING_ENTRIES)) > 0


@inlined
def take_result(cx: int, request: int) -> int:
    """Number of a fresh result row of a request (an index); the caller has made sure that there is one."""
    result = get(cx, CX_FREE_RESULT)
    row = get(cx, CX_RESULTS) + result * RESULT_WORDS * 8
    put(cx, CX_FREE_RESULT, next_free(row, RS_NEXT, result))
    put(cx, CX_FREE_RESULTS, get(cx, CX_FREE_RESULTS) - 1)
    put(row, RS_REQUEST, request)
    put(row, RS_NEXT, -1)
    put(row, RS_STATE, RESULT_DONE)
    put(row, RS_ERROR, NONE)
    put(row, RS_BASE_OFFSET, -1)
    put(row, RS_APPEND_TIME, -1)
    put(row, RS_LOG_START, -1)
    put(row, RS_CHUNK, -1)
    put(row, RS_OPERATION, sm.OPERATION_APPEND)
    put(row, RS_TRIES, 0)
    return result


@inlined
def give_result(cx: int, result: int) -> int:
    """Free a result row; returns the next of its request."""
    row = get(cx, CX_RESULTS) + result * RESULT_WORDS * 8
    following = get(row, RS_NEXT)
    put(row, RS_STATE, RESULT_FREE)
    link_free(row, RS_NEXT, result, get(cx, CX_FREE_RESULT))
    put(cx, CX_FREE_RESULT, result)
    put(cx, CX_FREE_RESULTS, get(cx, CX_FREE_RESULTS) + 1)
    return following


@inlined
def push_append(cx: int, result: int) -> None:
    """Put the batch of a result row into its owner's ring, which has room."""
    row = get(cx, CX_RESULTS) + result * RESULT_WORDS * 8
    request = get(cx, CX_REQUESTS) + get(row, RS_REQUEST) * REQUEST_WORDS * 8
    worker = get(cx, CX_WORKERS) + get(row, RS_WORKER) * WORKER_WORDS * 8
    ring = get(worker, WK_APPEND)
    number = load_i64(ring + HEAD)
    entry = ring_entry(ring, get(cx, CX_RING_ENTRIES), number)
    put(entry, sm.REQUEST_OPERATION, get(row, RS_OPERATION))
    put(entry, sm.REQUEST_SLOT, get(row, RS_SLOT))
    put(entry, sm.REQUEST_GENERATION, get(row, RS_GENERATION))
    put(entry, sm.REQUEST_ADDRESS, get(row, RS_ADDRESS))
    put(entry, sm.REQUEST_LENGTH, get(row, RS_LENGTH))
    tag = (number & TOKEN_NUMBER_MASK) << TOKEN_RESULT_BITS
    put(entry, sm.REQUEST_TOKEN, get(cx, CX_TOKEN_EPOCH) | tag | result)
    put(entry, sm.REQUEST_ACKS, (get(request, RQ_TIMEOUT) << 16) | (get(request, RQ_ACKS) & 0xFFFF))
    put(entry, sm.REQUEST_NANOSECONDS, get(cx, CX_NOW_NS))
    store_release(ring + HEAD, number + 1)
    put(row, RS_NUMBER, number)
    put(row, RS_STATE, RESULT_WAITING)
    put(worker, WK_PUSHED, get(worker, WK_PUSHED) + 1)


@inlined
def _partition(cx: int, topic: int, index: int) -> int:
    """Row of a topic's partition, 0 when it has no such partition. topic: address of its row, or 0."""
    if topic == 0 or index < 0 or index >= get(topic, TP_COUNT):
        return 0
    return get(cx, CX_PARTITIONS) + (get(topic, TP_PARTITIONS) + index) * PARTITION_WORDS * 8


@inlined
def _admit_partition(
    cx: int, request: int, topic: int, partition: int, address: int, length: int, result: int
) -> int:
    """Check one partition's records: NONE, an error, DEEP or REFUSED."""
    version = get(request, RQ_VERSION)
    acks = get(request, RQ_ACKS)
    row = get(cx, CX_RESULTS) + result * RESULT_WORDS * 8
    error = check_single(address, length, version)
    if error != NONE:
        return error
    if acks < -1 or acks > 1:
        return INVALID_REQUIRED_ACKS
    if get(topic, TP_INTERNAL) != 0:
        return INVALID_TOPIC_EXCEPTION
    number = get(partition, PT_SLOT)
    slot = get(cx, CX_SLOTS) + number * sm.SLOT_WORDS * 8
    error = check_slot(slot, get(partition, PT_GENERATION))
    if error != NONE:
        return error
    size = load_i32_be(address + rb.LENGTH) + rb.LENGTH_OVERHEAD
    put(row, RS_SLOT, number)
    put(row, RS_GENERATION, get(partition, PT_GENERATION))
    put(row, RS_WORKER, get(slot, sm.SLOT_OWNER))
    put(row, RS_ADDRESS, address - get(cx, CX_ARENA))
    put(row, RS_LENGTH, size)
    put(row, RS_LOG_START, get(slot, sm.SLOT_LOG_START))
    error = check_batch(cx, slot, address, size)
    if error == MESSAGE_TOO_LARGE:
        add(get(cx, CX_METRICS) + 8 * REJECTED_BYTES, length)
    if error == NONE or error == DEEP or not _is_in_transaction(address, size):
        return error
    put(row, RS_ERROR, error)  # as Kafka, which looks at a batch once its partition has joined
    return REFUSED


@inlined
def _is_in_transaction(address: int, size: int) -> bool:
    return (
        size >= rb.HEADER_BYTES
        and load_i8(address + rb.ATTRIBUTES + 1) & rb.ATTRIBUTE_TRANSACTIONAL != 0
        and load_i64_be(address + rb.PRODUCER_ID) >= 0
    )


@inlined
def _note_failure(cx: int, slot: int) -> None:
    counter = get(cx, CX_COUNTERS) + (slot * sm.COUNTER_WORDS + sm.COUNTER_FAILED_PRODUCE) * 8
    store_i64(counter, load_i64(counter) + 1)


@inlined
def _without_log_start(error: int) -> bool:
    """Errors that Kafka answers without the log start offset, though it knows the partition."""
    return error == 2 or error == 3 or error == 6 or error == 10 or error == 56


@inlined
def admit(cx: int, connection: int, number: int, end: int) -> int:
    """Check and push every partition of request row ``number``, which was scanned; returns how many are DEEP.

    Result rows and events have room for all (the caller looked). An entry that no ring takes now is left to Python.
    """
    request = get(cx, CX_REQUESTS) + number * REQUEST_WORDS * 8
    version = get(request, RQ_VERSION)
    compact = version >= FLEXIBLE
    unknown = UNKNOWN_TOPIC_ID if version >= TOPIC_IDS else UNKNOWN_TOPIC_OR_PARTITION
    refused = get(cx, CX_SCAN_REFUSED)
    topics, position = read_length(get(request, RQ_TOPICS), end, compact, True)
    last = -1
    pending = 0
    deep = 0
    where = connection_row(cx, connection)
    for _ in range(topics):
        name = length = 0
        if version >= TOPIC_IDS:
            topic = topic_by_id(cx, position)
            position += 16
        else:
            length, name = read_length(position, end, compact, False)
            topic = topic_by_name(cx, name, length)
            position = name + length
        name_bytes = length
        partitions, position = read_length(position, end, compact, True)
        for _ in range(partitions):
            index = load_i32_be(position)
            length, position = read_length(position + 4, end, compact, True)
            result = take_result(cx, number)
            row = get(cx, CX_RESULTS) + result * RESULT_WORDS * 8
            if last < 0:
                put(request, RQ_RESULT, result)
            else:
                put(get(cx, CX_RESULTS) + last * RESULT_WORDS * 8, RS_NEXT, result)
            last = result
            partition = _partition(cx, topic, index)
            if refused != NONE:
                error = refused
            elif topic != 0 and not may_use(cx, where, topic, MAY_WRITE):
                error = TOPIC_AUTHORIZATION_FAILED
            elif topic == 0 and name != 0 and get(where, CN_ACCESS) != 0:
                error = UNNAMED
                put(row, RS_ADDRESS, name - get(cx, CX_ARENA))
                put(row, RS_LENGTH, name_bytes)
            elif partition == 0:
                error = unknown if topic == 0 else UNKNOWN_TOPIC_OR_PARTITION
            else:
                error = _admit_partition(cx, request, topic, partition, position, length, result)
            if error == NONE and ring_has_room(cx, get(row, RS_WORKER)):
                push_append(cx, result)
                pending += 1
            elif error == NONE or error == DEEP or error == REFUSED or error == UNNAMED:
                put(row, RS_STATE, RESULT_DEEP)
                _ask_python(cx, connection, result, error)
                pending += 1
                deep += 1
            else:
                put(row, RS_ERROR, error)
                put(request, RQ_FAILED, 1)
                if _without_log_start(error):
                    put(row, RS_LOG_START, -1)
                if partition != 0:
                    _note_failure(cx, get(partition, PT_SLOT))
            position += max(length, 0)
            if compact:
                position = skip_tags(position, end)
        if compact:
            position = skip_tags(position, end)
    put(request, RQ_PENDING, pending)
    return deep


@inlined
def _ask_python(cx: int, connection: int, result: int, reason: int) -> None:
    count = get(cx, CX_EVENT_COUNT)
    event = get(cx, CX_EVENTS) + count * EVENT_WORDS * 8
    put(event, EV_KIND, EVENT_DEEP)
    put(event, EV_CONNECTION, connection)
    put(event, EV_A, result)
    put(event, EV_B, reason)
    put(cx, CX_EVENT_COUNT, count + 1)


@kernel("int64(int64, int64)")
def push_checked(cx: int, result: int) -> int:
    """Push the batch of a DEEP result that Python has looked at (RS_ADDRESS and RS_LENGTH may name a new one).

    0 when the owner's ring is full."""
    row = get(cx, CX_RESULTS) + result * RESULT_WORDS * 8
    if not ring_has_room(cx, get(row, RS_WORKER)):
        return 0
    push_append(cx, result)
    return 1
