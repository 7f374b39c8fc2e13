"""The queue of produce requests of each connection: completions settle them, answers leave in order, once a turn."""

from kbroker.ipc import layout as sm
from kbroker.ipc.ring import TAIL, ring_entry, ring_ready
from kbroker.kernels.jit import inlined, kernel
from kbroker.kernels.memory import load_i64, store_release
from kbroker.kernels.rows import get, link_free, put
from kbroker.net.produce.admit_kernel import give_result
from kbroker.net.produce.answer_kernel import write_answer
from kbroker.net.rows.chunk_kernel import release
from kbroker.net.rows.connection_kernel import (
    connection_row,
    events_left,
    mark_dirty,
    mark_stalled,
    send_once,
    tell,
)
from kbroker.net.rows.count_kernel import PRODUCE, count_completion, count_produce, count_response
from kbroker.net.rows.layout import (
    CN_DIRTY_NEXT,
    CN_FLAGS,
    CN_HEAD,
    CN_QUEUED,
    CN_TAIL,
    CX_DIRTY,
    CX_FREE_REQUEST,
    CX_FREE_REQUESTS,
    CX_OUT,
    CX_OUT_BYTES,
    CX_OUT_USED,
    CX_REQUESTS,
    CX_RESULTS,
    CX_RING_ENTRIES,
    CX_TOKEN_EPOCH,
    CX_WORKER_COUNT,
    CX_WORKERS,
    EVENT_ADVANCED,
    EVENT_ANSWER,
    EVENT_FAILED,
    EVENT_READ_AHEAD,
    EVENT_UNSENT,
    EVENT_UNVERIFIED,
    FLAG_CLOSING,
    FLAG_DIRTY,
    FLAG_DRAINING,
    FLAG_OPEN,
    FLAG_OUT_BLOCKED,
    FLAG_VERIFYING,
    REQUEST_WORDS,
    RESULT_DEEP,
    RESULT_DONE,
    RESULT_WAITING,
    RESULT_WORDS,
    RQ_ACKS,
    RQ_BOUND,
    RQ_CHUNK,
    RQ_CONNECTION,
    RQ_FAILED,
    RQ_NEXT,
    RQ_PENDING,
    RQ_PYTHON,
    RQ_RESULT,
    RS_APPEND_TIME,
    RS_BASE_OFFSET,
    RS_CHUNK,
    RS_ERROR,
    RS_LOG_START,
    RS_NUMBER,
    RS_REQUEST,
    RS_STATE,
    TOKEN_MASK,
    TOKEN_NUMBER_MASK,
    TOKEN_READ_AHEAD,
    TOKEN_RESULT_BITS,
    WK_COMPLETION,
    WORKER_WORDS,
)


@inlined
def free_request(cx: int, number: int) -> None:
    """Give back a request row, its results and its hold on the chunk."""
    request = get(cx, CX_REQUESTS) + number * REQUEST_WORDS * 8
    result = get(request, RQ_RESULT)
    while result >= 0:
        chunk = get(get(cx, CX_RESULTS) + result * RESULT_WORDS * 8, RS_CHUNK)
        if chunk >= 0:
            release(cx, chunk)
        result = give_result(cx, result)
    release(cx, get(request, RQ_CHUNK))
    link_free(request, RQ_NEXT, number, get(cx, CX_FREE_REQUEST))
    put(cx, CX_FREE_REQUEST, number)
    put(cx, CX_FREE_REQUESTS, get(cx, CX_FREE_REQUESTS) + 1)


@inlined
def settle(cx: int, result: int, error: int, base_offset: int, append_time: int, log_start: int) -> None:
    """A result row is complete; a request without pending results is complete, and may be the next to answer."""
    row = get(cx, CX_RESULTS) + result * RESULT_WORDS * 8
    number = get(row, RS_REQUEST)
    request = get(cx, CX_REQUESTS) + number * REQUEST_WORDS * 8
    put(row, RS_STATE, RESULT_DONE)
    put(row, RS_ERROR, error)
    put(row, RS_BASE_OFFSET, base_offset)
    put(row, RS_APPEND_TIME, append_time)
    put(row, RS_LOG_START, log_start)
    if error != 0:
        put(request, RQ_FAILED, 1)
    pending = get(request, RQ_PENDING) - 1
    put(request, RQ_PENDING, pending)
    if pending == 0:
        request_done(cx, number)


@inlined
def request_done(cx: int, number: int) -> None:
    """Nothing of the request is pending any more."""
    request = get(cx, CX_REQUESTS) + number * REQUEST_WORDS * 8
    connection = get(request, RQ_CONNECTION)
    if connection < 0:
        free_request(cx, number)
    elif get(connection_row(cx, connection), CN_HEAD) == number:
        mark_dirty(cx, connection)


@inlined
def take_completions(cx: int) -> int:
    """Settle what the IO workers have completed; returns how many entries were taken."""
    capacity = get(cx, CX_RING_ENTRIES)
    taken = 0
    for worker in range(get(cx, CX_WORKER_COUNT)):
        row = get(cx, CX_WORKERS) + worker * WORKER_WORDS * 8
        ring = get(row, WK_COMPLETION)
        ready = min(ring_ready(ring), events_left(cx) - 64)
        if ready <= 0:
            continue
        tail = load_i64(ring + TAIL)
        for number in range(tail, tail + ready):
            _take_completion(cx, ring_entry(ring, capacity, number))
        store_release(ring + TAIL, tail + ready)
        taken += ready
    return taken


@inlined
def _take_completion(cx: int, entry: int) -> None:
    token = get(entry, sm.COMPLETION_TOKEN)
    if token == -1:
        tell(cx, EVENT_ADVANCED, -1, get(entry, sm.COMPLETION_SLOT), 0)
        return
    if token & ~TOKEN_MASK != get(cx, CX_TOKEN_EPOCH):
        return  # for a predecessor of this process
    token &= TOKEN_MASK
    if token >= TOKEN_READ_AHEAD:
        tell(cx, EVENT_READ_AHEAD, -1, token, 0)
        return
    number = token >> TOKEN_RESULT_BITS
    token &= (1 << TOKEN_RESULT_BITS) - 1
    result = get(cx, CX_RESULTS) + token * RESULT_WORDS * 8
    if get(result, RS_STATE) != RESULT_WAITING or get(result, RS_NUMBER) & TOKEN_NUMBER_MASK != number:
        return  # answered twice, by a worker that died meanwhile and by its successor
    if get(entry, sm.COMPLETION_ERROR) == sm.UNVERIFIED:
        _hold_unverified(cx, token, result, get(entry, sm.COMPLETION_LAST_OFFSET))
    else:
        count_completion(cx, result, entry)
        settle(
            cx,
            token,
            get(entry, sm.COMPLETION_ERROR),
            get(entry, sm.COMPLETION_BASE_OFFSET),
            get(entry, sm.COMPLETION_APPEND_TIME_MS),
            get(entry, sm.COMPLETION_LOG_START),
        )


@inlined
def _hold_unverified(cx: int, token: int, result: int, verified_at: int) -> None:
    """Python asks control about a batch; its connection takes no further request meanwhile."""
    connection = get(get(cx, CX_REQUESTS) + get(result, RS_REQUEST) * REQUEST_WORDS * 8, RQ_CONNECTION)
    put(result, RS_STATE, RESULT_DEEP)
    if connection >= 0:
        row = connection_row(cx, connection)
        put(row, CN_FLAGS, get(row, CN_FLAGS) | FLAG_VERIFYING)
    tell(cx, EVENT_UNVERIFIED, connection, token, verified_at)


@inlined
def pop_head(cx: int, connection: int) -> None:
    """The request at the head has been answered."""
    row = connection_row(cx, connection)
    number = get(row, CN_HEAD)
    following = get(get(cx, CX_REQUESTS) + number * REQUEST_WORDS * 8, RQ_NEXT)
    put(row, CN_HEAD, following)
    if following < 0:
        put(row, CN_TAIL, -1)
    put(row, CN_QUEUED, get(row, CN_QUEUED) - 1)
    count_produce(cx, number)
    free_request(cx, number)


@inlined
def send_some(cx: int, connection: int, address: int, size: int) -> None:
    """One send; what the socket does not take stays where it is, and Python is told."""
    row = connection_row(cx, connection)
    sent = send_once(cx, connection, address, size)
    if 0 <= sent < size:
        put(row, CN_FLAGS, get(row, CN_FLAGS) | FLAG_OUT_BLOCKED)
        put(cx, CX_OUT_USED, address + size - get(cx, CX_OUT))
        tell(cx, EVENT_UNSENT, connection, address + sent, size - sent)


@inlined
def answer_connection(cx: int, connection: int) -> int:
    """Build the answers that are due and send them at once; 0 when the scratch is full and it must be tried again."""
    row = connection_row(cx, connection)
    start = get(cx, CX_OUT) + get(cx, CX_OUT_USED)
    limit = get(cx, CX_OUT) + get(cx, CX_OUT_BYTES)
    out = start
    complete = 1
    failed = False
    asked = False
    while get(row, CN_HEAD) >= 0 and not asked:
        number = get(row, CN_HEAD)
        request = get(cx, CX_REQUESTS) + number * REQUEST_WORDS * 8
        if get(request, RQ_PENDING) > 0:
            break
        if get(request, RQ_ACKS) == 0:
            if get(request, RQ_FAILED) != 0:
                failed = True
                break
            if get(request, RQ_PYTHON) == 2:
                asked = True
                break
        else:
            bound = get(request, RQ_BOUND)
            if get(request, RQ_PYTHON) != 0 or bound > get(cx, CX_OUT_BYTES) // 2:
                asked = True
                break
            if bound > limit - out:
                complete = 0
                break
            out += write_answer(cx, number, out)
        pop_head(cx, connection)
    if out > start:
        count_response(cx, PRODUCE, out - start)
        send_some(cx, connection, start, out - start)
    if failed:
        put(row, CN_FLAGS, get(row, CN_FLAGS) | FLAG_CLOSING)
        tell(cx, EVENT_FAILED, connection, 0, 0)
    elif asked:
        # held like a blocked socket until Python has sent the answer and popped the request
        put(row, CN_FLAGS, get(row, CN_FLAGS) | FLAG_OUT_BLOCKED)
        tell(cx, EVENT_ANSWER, connection, get(row, CN_HEAD), 0)
    return complete


@inlined
def answer_dirty(cx: int) -> int:
    """Answer every dirty connection; returns how many are left because the scratch or the events are full."""
    connection = get(cx, CX_DIRTY)
    put(cx, CX_DIRTY, -1)
    left = 0
    while connection >= 0:
        row = connection_row(cx, connection)
        following = get(row, CN_DIRTY_NEXT)
        flags = get(row, CN_FLAGS) & ~FLAG_DIRTY
        put(row, CN_FLAGS, flags)
        if flags & FLAG_OPEN != 0 and flags & (FLAG_OUT_BLOCKED | FLAG_CLOSING) == 0:
            if events_left(cx) < 16 or answer_connection(cx, connection) == 0:
                mark_dirty(cx, connection)
                left += 1
            elif get(row, CN_FLAGS) & FLAG_DRAINING != 0 and get(row, CN_HEAD) < 0:
                put(row, CN_FLAGS, get(row, CN_FLAGS) & ~FLAG_DRAINING)
                mark_stalled(cx, connection)
        connection = following
    return left


@kernel("void(int64, int64, int64, int64)")
def settle_checked(cx: int, result: int, error: int, log_start: int) -> None:
    """Python refuses the batch of a DEEP result."""
    settle(cx, result, error, -1, -1, log_start)


@kernel("int64(int64, int64)")
def build_answer(cx: int, number: int) -> int:
    """Build the answer of a complete request behind CX_OUT_USED, for Python to send; its bytes, 0 without room."""
    room = get(cx, CX_OUT_BYTES) - get(cx, CX_OUT_USED)
    if get(get(cx, CX_REQUESTS) + number * REQUEST_WORDS * 8, RQ_BOUND) > room:
        return 0
    return write_answer(cx, number, get(cx, CX_OUT) + get(cx, CX_OUT_USED))


@kernel("void(int64, int64)")
def pop_answered(cx: int, connection: int) -> None:
    """Python has sent the answer of the request at the head."""
    pop_head(cx, connection)
