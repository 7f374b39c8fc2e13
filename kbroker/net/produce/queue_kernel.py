"""The queue of produce requests of each connection: completions settle the results of a request,
and answers, v3 to v13, are built from its frame and results, and sent in order, once a turn.
Entries that an IO worker held when it died are answered, too.
"""

from kbroker.ipc.layout import Completion, Operation, Ring
from kbroker.ipc.ring import ring_ready
from kbroker.kernels.codes import ApiKey, Code
from kbroker.kernels.jit import inlined, kernel
from kbroker.kernels.memory import (
    copy,
    load_acquire,
    load_i32_be,
    store_i16_be,
    store_i32_be,
    store_i64_be,
    store_u8,
)
from kbroker.kernels.rows import get, link_free, next_free, put
from kbroker.kernels.wire import read_length, skip_tags, write_count, write_no_tags
from kbroker.net.rows import (
    AnswerBy,
    Connection,
    Context,
    EventKind,
    Flag,
    ProduceVersion,
    Request,
    Result,
    ResultState,
    Token,
    Worker,
)
from kbroker.net.rows.chunk_kernel import release
from kbroker.net.rows.connection_kernel import (
    connection_row,
    events_left,
    mark_dirty,
    mark_stalled,
    push_event,
    send_once,
)
from kbroker.net.rows.count_kernel import count_completion, count_produce, count_response

ANYWHERE = 1 << 62  # the request was scanned: every length in it fits


@inlined
def take_result(cx: int, request: int) -> int:
    """Number of a fresh result row of a request (an index); the caller has made sure that there is
    one."""
    result = get(cx, Context.FREE_RESULT)
    row = get(cx, Context.RESULTS) + result * Result.STRIDE
    put(cx, Context.FREE_RESULT, next_free(row, Result.NEXT, result))
    put(cx, Context.FREE_RESULTS, get(cx, Context.FREE_RESULTS) - 1)
    put(row, Result.REQUEST, request)
    put(row, Result.NEXT, -1)
    put(row, Result.STATE, ResultState.DONE)
    put(row, Result.ERROR, Code.NONE)
    put(row, Result.BASE_OFFSET, -1)
    put(row, Result.APPEND_TIME, -1)
    put(row, Result.LOG_START, -1)
    put(row, Result.CHUNK, -1)
    put(row, Result.OPERATION, Operation.APPEND)
    put(row, Result.TRIES, 0)
    return result


@inlined
def free_result(cx: int, result: int) -> int:
    """Free a result row; returns the next of its request."""
    row = get(cx, Context.RESULTS) + result * Result.STRIDE
    following = get(row, Result.NEXT)
    put(row, Result.STATE, ResultState.FREE)
    link_free(row, Result.NEXT, result, get(cx, Context.FREE_RESULT))
    put(cx, Context.FREE_RESULT, result)
    put(cx, Context.FREE_RESULTS, get(cx, Context.FREE_RESULTS) + 1)
    return following


@inlined
def free_request(cx: int, number: int) -> None:
    """Free a request row and its results, and release its chunk."""
    request = get(cx, Context.REQUESTS) + number * Request.STRIDE
    result = get(request, Request.RESULT)
    while result >= 0:
        chunk = get(get(cx, Context.RESULTS) + result * Result.STRIDE, Result.CHUNK)
        if chunk >= 0:
            release(cx, chunk)
        result = free_result(cx, result)
    release(cx, get(request, Request.CHUNK))
    link_free(request, Request.NEXT, number, get(cx, Context.FREE_REQUEST))
    put(cx, Context.FREE_REQUEST, number)
    put(cx, Context.FREE_REQUESTS, get(cx, Context.FREE_REQUESTS) + 1)


@inlined
def settle(cx: int, result: int, error: int, base_offset: int, append_time: int, log_start: int) -> None:
    """A result row is complete; a request without pending results is complete, and may be the next
    to answer."""
    row = get(cx, Context.RESULTS) + result * Result.STRIDE
    number = get(row, Result.REQUEST)
    request = get(cx, Context.REQUESTS) + number * Request.STRIDE
    put(row, Result.STATE, ResultState.DONE)
    put(row, Result.ERROR, error)
    put(row, Result.BASE_OFFSET, base_offset)
    put(row, Result.APPEND_TIME, append_time)
    put(row, Result.LOG_START, log_start)
    if error != 0:
        put(request, Request.FAILED, 1)
    pending = get(request, Request.PENDING) - 1
    put(request, Request.PENDING, pending)
    if pending == 0:
        request_done(cx, number)


@inlined
def request_done(cx: int, number: int) -> None:
    """All appends of the request have completed."""
    request = get(cx, Context.REQUESTS) + number * Request.STRIDE
    connection = get(request, Request.CONNECTION)
    if connection < 0:
        free_request(cx, number)
    elif get(connection_row(cx, connection), Connection.HEAD) == number:
        mark_dirty(cx, connection)


@inlined
def take_completion(cx: int, token: int, entry: int) -> None:
    """An IO worker has completed an append. token: without its epoch; entry: address of the
    completion."""
    number = token >> Token.RESULT_BITS
    token &= (1 << Token.RESULT_BITS) - 1
    result = get(cx, Context.RESULTS) + token * Result.STRIDE
    if (
        get(result, Result.STATE) != ResultState.WAITING
        or get(result, Result.NUMBER) & Token.NUMBER_MASK != number
    ):
        return  # answered twice, by a worker that died meanwhile and by its successor
    if get(entry, Completion.ERROR) == Completion.UNVERIFIED:
        _hold_unverified(cx, token, result, get(entry, Completion.BASE_OFFSET))
    else:
        count_completion(cx, result, entry)
        settle(
            cx,
            token,
            get(entry, Completion.ERROR),
            get(entry, Completion.BASE_OFFSET),
            get(entry, Completion.APPEND_TIME_MS),
            get(entry, Completion.LOG_START),
        )


@inlined
def _hold_unverified(cx: int, token: int, result: int, verified_at: int) -> None:
    """Have Python ask control about a batch; its connection takes no further request meanwhile."""
    connection = get(
        get(cx, Context.REQUESTS) + get(result, Result.REQUEST) * Request.STRIDE, Request.CONNECTION
    )
    put(result, Result.STATE, ResultState.IN_PYTHON)
    if connection >= 0:
        row = connection_row(cx, connection)
        put(row, Connection.FLAGS, get(row, Connection.FLAGS) | Flag.VERIFYING)
    push_event(cx, EventKind.UNVERIFIED, connection, token, verified_at)


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


@inlined
def pop_head(cx: int, connection: int) -> None:
    """The request at the head has been answered."""
    row = connection_row(cx, connection)
    number = get(row, Connection.HEAD)
    following = get(get(cx, Context.REQUESTS) + number * Request.STRIDE, Request.NEXT)
    put(row, Connection.HEAD, following)
    if following < 0:
        put(row, Connection.TAIL, -1)
    put(row, Connection.QUEUED, get(row, Connection.QUEUED) - 1)
    count_produce(cx, number)
    free_request(cx, number)


@inlined
def forget_requests(cx: int, connection: int) -> None:
    """The connection is closed: free its requests when their appends have completed."""
    row = connection_row(cx, connection)
    number = get(row, Connection.HEAD)
    while number >= 0:
        request = get(cx, Context.REQUESTS) + number * Request.STRIDE
        following = get(request, Request.NEXT)
        put(request, Request.CONNECTION, -1)
        if get(request, Request.PENDING) == 0:
            request_done(cx, number)
        number = following
    put(row, Connection.HEAD, -1)
    put(row, Connection.TAIL, -1)
    put(row, Connection.QUEUED, 0)


@inlined
def send_some(cx: int, connection: int, address: int, size: int) -> None:
    """Send once; bytes that the socket does not take stay where they are, and Python gets an
    event."""
    row = connection_row(cx, connection)
    sent = send_once(cx, connection, address, size)
    if 0 <= sent < size:
        put(row, Connection.FLAGS, get(row, Connection.FLAGS) | Flag.OUT_BLOCKED)
        put(cx, Context.OUT_USED, address + size - get(cx, Context.OUT))
        push_event(cx, EventKind.UNSENT, connection, address + sent, size - sent)


@inlined
def answer_connection(cx: int, connection: int) -> int:
    """Build the answers that are due and send them at once; 0 when the scratch is full and it must
    be tried again."""
    row = connection_row(cx, connection)
    start = get(cx, Context.OUT) + get(cx, Context.OUT_USED)
    limit = get(cx, Context.OUT) + get(cx, Context.OUT_BYTES)
    out = start
    complete = 1
    failed = False
    to_python = False
    while get(row, Connection.HEAD) >= 0 and not to_python:
        number = get(row, Connection.HEAD)
        request = get(cx, Context.REQUESTS) + number * Request.STRIDE
        if get(request, Request.PENDING) > 0:
            break
        if get(request, Request.ACKS) == 0:
            if get(request, Request.FAILED) != 0:
                failed = True
                break
            if get(request, Request.ANSWER) == AnswerBy.SENT_BY_PYTHON:
                to_python = True
                break
        else:
            bound = get(request, Request.BOUND)
            if get(request, Request.ANSWER) != AnswerBy.KERNEL or bound > get(cx, Context.OUT_BYTES) // 2:
                to_python = True
                break
            if bound > limit - out:
                complete = 0
                break
            out += write_answer(cx, number, out)
        pop_head(cx, connection)
    if out > start:
        count_response(cx, ApiKey.PRODUCE, out - start)
        send_some(cx, connection, start, out - start)
    if failed:
        put(row, Connection.FLAGS, get(row, Connection.FLAGS) | Flag.CLOSING)
        push_event(cx, EventKind.FAILED, connection, 0, 0)
    elif to_python:
        # held like a blocked socket until Python has sent the answer and popped the request
        put(row, Connection.FLAGS, get(row, Connection.FLAGS) | Flag.OUT_BLOCKED)
        push_event(cx, EventKind.ANSWER, connection, get(row, Connection.HEAD), 0)
    return complete


@inlined
def answer_dirty(cx: int) -> int:
    """Answer every dirty connection; returns how many are left because the scratch or the events
    are full."""
    connection = get(cx, Context.DIRTY)
    put(cx, Context.DIRTY, -1)
    left = 0
    while connection >= 0:
        row = connection_row(cx, connection)
        following = get(row, Connection.DIRTY_NEXT)
        flags = get(row, Connection.FLAGS) & ~Flag.DIRTY
        put(row, Connection.FLAGS, flags)
        if flags & Flag.OPEN != 0 and flags & (Flag.OUT_BLOCKED | Flag.CLOSING) == 0:
            if events_left(cx) < 16 or answer_connection(cx, connection) == 0:
                mark_dirty(cx, connection)
                left += 1
            elif get(row, Connection.FLAGS) & Flag.DRAINING != 0 and get(row, Connection.HEAD) < 0:
                put(row, Connection.FLAGS, get(row, Connection.FLAGS) & ~Flag.DRAINING)
                mark_stalled(cx, connection)
        connection = following
    return left


@kernel("void(int64, int64, int64, int64)")
def settle_refused(cx: int, result: int, error: int, log_start: int) -> None:
    """Python refuses the batch of a result that is IN_PYTHON."""
    settle(cx, result, error, -1, -1, log_start)


@kernel("int64(int64, int64)")
def build_answer(cx: int, number: int) -> int:
    """Build the answer of a complete request after Context.OUT_USED, for Python to send; its bytes,
    0 without room."""
    room = get(cx, Context.OUT_BYTES) - get(cx, Context.OUT_USED)
    if get(get(cx, Context.REQUESTS) + number * Request.STRIDE, Request.BOUND) > room:
        return 0
    return write_answer(cx, number, get(cx, Context.OUT) + get(cx, Context.OUT_USED))


@kernel("void(int64, int64)")
def pop_answered(cx: int, connection: int) -> None:
    """Python has sent the answer of the request at the head."""
    pop_head(cx, connection)


@kernel("int64(int64, int64)")
def settle_lost(cx: int, results: int) -> int:
    """Answer the entries that were lost with an IO worker: it took them and never completed them,
    and its successor does not know them.

    To be called when the completions have been taken. results: rows of the result table. Returns
    how many were lost.
    """
    lost = 0
    for worker in range(get(cx, Context.WORKER_COUNT)):
        row = get(cx, Context.WORKERS) + worker * Worker.STRIDE
        recovered = load_acquire(get(row, Worker.APPEND) + 8 * Ring.RECOVERED)
        if recovered == get(row, Worker.RECOVERED) or ring_ready(get(row, Worker.COMPLETION)) > 0:
            continue
        put(row, Worker.RECOVERED, recovered)
        for result in range(results):
            found = get(cx, Context.RESULTS) + result * Result.STRIDE
            waiting = get(found, Result.STATE) == ResultState.WAITING and get(found, Result.WORKER) == worker
            if waiting and get(found, Result.NUMBER) < recovered:
                settle(cx, result, Code.NOT_LEADER_OR_FOLLOWER, -1, -1, -1)
                lost += 1
    return lost
