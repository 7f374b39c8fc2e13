"""Receiving into the arena and cutting frames: the input side of a connection.

Bytes land behind the bump pointer of the current chunk. What can not be handled now (a partial frame, a request
that must wait) stays where it is as the connection's *region*: [CN_START, CN_FILLED) in chunk CN_CHUNK, with room
up to CN_LIMIT.
"""

from kbroker.kernels.jit import inlined
from kbroker.kernels.libc import EAGAIN, EINTR, MSG_DONTWAIT, errno, recv
from kbroker.kernels.memory import copy, load_i16_be, load_i32_be
from kbroker.kernels.rows import get, next_free, put
from kbroker.kernels.wire import skip_request_header
from kbroker.net.fetch.fetch_kernel import serve
from kbroker.net.forward.forward_kernel import ANSWERED, HANDED, hand_on
from kbroker.net.produce.admit_kernel import admit, rings_have
from kbroker.net.produce.check_kernel import CORRUPT_MESSAGE, TRANSACTIONAL_ID_AUTHORIZATION_FAILED
from kbroker.net.produce.queue_kernel import request_done
from kbroker.net.produce.scan_kernel import FLEXIBLE, MALFORMED, scan
from kbroker.net.rows.access_kernel import UNDECIDED, may_use_id
from kbroker.net.rows.chunk_kernel import ensure_room, hold, is_short, release, reserve
from kbroker.net.rows.connection_kernel import arm, connection_row, events_left, mark_stalled, tell
from kbroker.net.rows.count_kernel import PRODUCE, count_queued, parse_begins, parse_ends
from kbroker.net.rows.fetch_layout import SERVED, WAITING
from kbroker.net.rows.layout import (
    CN_ARMED,
    CN_BYTES_IN,
    CN_CHUNK,
    CN_FD,
    CN_FILLED,
    CN_FLAGS,
    CN_HEAD,
    CN_LAST_NS,
    CN_LIMIT,
    CN_QUEUED,
    CN_REQUESTS,
    CN_START,
    CN_TAIL,
    CX_ARENA,
    CX_BUMP,
    CX_CHUNK_BYTES,
    CX_CURRENT,
    CX_EVENT_COUNT,
    CX_EVENTS,
    CX_FREE_REQUEST,
    CX_FREE_REQUESTS,
    CX_FREE_RESULTS,
    CX_MAX_FIRST_FRAME,
    CX_MAX_FRAME,
    CX_NOW_NS,
    CX_PIPELINE,
    CX_RECEIVE_BYTES,
    CX_REQUESTS,
    CX_SCAN_ACKS,
    CX_SCAN_BOUND,
    CX_SCAN_COUNT,
    CX_SCAN_ID,
    CX_SCAN_ID_BYTES,
    CX_SCAN_REFUSED,
    CX_SCAN_TIMEOUT,
    CX_SCAN_TOPICS,
    CX_STAT_BYTES_IN,
    CX_STAT_REQUESTS,
    CX_STAT_STALLS,
    EPOLLOUT,
    EV_C,
    EVENT_BAD_REQUEST,
    EVENT_BAD_SIZE,
    EVENT_CLOSED,
    EVENT_REQUEST,
    EVENT_TRANSACTIONAL_ID,
    EVENT_WAIT,
    EVENT_WORDS,
    FLAG_BUSY,
    FLAG_CLOSING,
    FLAG_DRAINING,
    FLAG_FETCH,
    FLAG_HOT,
    FLAG_QUOTA,
    FLAG_STALLED,
    FLAGS_NOT_READING,
    REQUEST_WORDS,
    RQ_ACKS,
    RQ_BOUND,
    RQ_BYTES,
    RQ_CHUNK,
    RQ_CONNECTION,
    RQ_CORRELATION,
    RQ_FAILED,
    RQ_FRAME,
    RQ_NEXT,
    RQ_PENDING,
    RQ_PYTHON,
    RQ_RECEIVED_NS,
    RQ_RESULT,
    RQ_TIMEOUT,
    RQ_TOPICS,
    RQ_VERSION,
)

MIN_ROOM = 16384  # of the current chunk, to receive into it
UNKNOWN_SIZE_ROOM = 4096  # reserved for a frame whose size has not arrived
FIRST_PRODUCE = 3
LAST_PRODUCE = 13
FETCH = 1
FIRST_FETCH = 4
LAST_FETCH = 18


# what became of a frame
NEXT = 0
STOP = 1  # the connection waits for Python or for its queue; the frame was taken
LATER = 2  # no room: the frame stays
CLOSE = 3


@inlined
def _tell_frame(cx: int, kind: int, connection: int, frame: int, length: int, chunk: int) -> None:
    hold(cx, chunk)
    put(get(cx, CX_EVENTS) + get(cx, CX_EVENT_COUNT) * EVENT_WORDS * 8, EV_C, chunk)
    tell(cx, kind, connection, frame - get(cx, CX_ARENA), length)


@inlined
def _produce(cx: int, connection: int, frame: int, length: int, chunk: int) -> int:
    """Take one Produce frame (address and bytes behind its size)."""
    row = connection_row(cx, connection)
    version = load_i16_be(frame + 2)
    end = frame + length
    body = skip_request_header(frame, end, version >= FLEXIBLE)
    if body < 0 or scan(cx, body, end, version) == MALFORMED:
        _tell_frame(cx, EVENT_BAD_REQUEST, connection, frame, length, chunk)
        return CLOSE
    if get(cx, CX_SCAN_ID) != 0:
        allowed = may_use_id(row, get(cx, CX_SCAN_ID), get(cx, CX_SCAN_ID_BYTES))
        if allowed == UNDECIDED:  # the frame stays where it is until Python has looked
            put(row, CN_FLAGS, get(row, CN_FLAGS) | FLAG_BUSY)
            place = get(cx, CX_SCAN_ID) - get(cx, CX_ARENA)
            tell(cx, EVENT_TRANSACTIONAL_ID, connection, place, get(cx, CX_SCAN_ID_BYTES))
            return LATER
        if allowed == 0:
            put(cx, CX_SCAN_REFUSED, TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    count = get(cx, CX_SCAN_COUNT)
    full = get(cx, CX_FREE_REQUESTS) < 1 or get(cx, CX_FREE_RESULTS) < count or events_left(cx) < count + 64
    if full or get(row, CN_QUEUED) >= get(cx, CX_PIPELINE) or not rings_have(cx, count):
        return LATER
    number = get(cx, CX_FREE_REQUEST)
    request = get(cx, CX_REQUESTS) + number * REQUEST_WORDS * 8
    put(cx, CX_FREE_REQUEST, next_free(request, RQ_NEXT, number))
    put(cx, CX_FREE_REQUESTS, get(cx, CX_FREE_REQUESTS) - 1)
    count_queued(cx, row)
    put(request, RQ_CONNECTION, connection)
    put(request, RQ_NEXT, -1)
    put(request, RQ_VERSION, version)
    put(request, RQ_CORRELATION, load_i32_be(frame + 4))
    put(request, RQ_ACKS, get(cx, CX_SCAN_ACKS))
    put(request, RQ_TIMEOUT, get(cx, CX_SCAN_TIMEOUT))
    put(request, RQ_TOPICS, get(cx, CX_SCAN_TOPICS))
    put(request, RQ_CHUNK, chunk)
    put(request, RQ_RESULT, -1)
    put(request, RQ_FAILED, 0)
    put(request, RQ_PYTHON, 2 if get(row, CN_FLAGS) & FLAG_QUOTA != 0 else 0)
    if get(cx, CX_SCAN_REFUSED) == CORRUPT_MESSAGE:
        put(request, RQ_PYTHON, 1)
    put(request, RQ_RECEIVED_NS, get(cx, CX_NOW_NS))
    put(request, RQ_BOUND, get(cx, CX_SCAN_BOUND))
    put(request, RQ_FRAME, frame - get(cx, CX_ARENA))
    put(request, RQ_BYTES, length)
    hold(cx, chunk)
    tail = get(row, CN_TAIL)
    if tail < 0:
        put(row, CN_HEAD, number)
    else:
        put(get(cx, CX_REQUESTS) + tail * REQUEST_WORDS * 8, RQ_NEXT, number)
    put(row, CN_TAIL, number)
    put(row, CN_QUEUED, get(row, CN_QUEUED) + 1)
    deep = admit(cx, connection, number, end)
    if get(request, RQ_PENDING) == 0:
        request_done(cx, number)
    if deep > 0:
        put(row, CN_FLAGS, get(row, CN_FLAGS) | FLAG_BUSY)
        return STOP
    return NEXT


@inlined
def _handle_frame(cx: int, connection: int, frame: int, length: int, chunk: int) -> int:
    row = connection_row(cx, connection)
    flags = get(row, CN_FLAGS)
    one_at_a_time = flags & FLAG_QUOTA != 0 and get(row, CN_HEAD) >= 0
    if length >= 10 and flags & FLAG_HOT != 0 and not one_at_a_time and load_i16_be(frame) == PRODUCE:
        version = load_i16_be(frame + 2)
        if version >= FIRST_PRODUCE and version <= LAST_PRODUCE:
            began = parse_begins(cx)
            outcome = _produce(cx, connection, frame, length, chunk)
            parse_ends(cx, began)
            return outcome
    if get(row, CN_HEAD) >= 0:
        put(row, CN_FLAGS, flags | FLAG_DRAINING)
        return LATER
    kind = EVENT_REQUEST
    if length >= 10 and flags & FLAG_FETCH != 0 and load_i16_be(frame) == FETCH:
        version = load_i16_be(frame + 2)
        if version >= FIRST_FETCH and version <= LAST_FETCH:
            state = serve(cx, connection, frame, length, False)
            if state == SERVED:
                return STOP if get(row, CN_FLAGS) & FLAGS_NOT_READING != 0 else NEXT
            if state == WAITING:
                kind = EVENT_WAIT
    else:
        became = hand_on(cx, connection, frame, length)
        if became == HANDED:
            return STOP
        if became == ANSWERED:
            return STOP if get(row, CN_FLAGS) & FLAGS_NOT_READING != 0 else NEXT
    put(row, CN_FLAGS, flags | FLAG_BUSY)
    _tell_frame(cx, kind, connection, frame, length, chunk)
    return STOP


@inlined
def drop_region(cx: int, row: int) -> None:
    """Forget a connection's received bytes."""
    chunk = get(row, CN_CHUNK)
    if chunk >= 0:
        put(row, CN_CHUNK, -1)
        release(cx, chunk)


@inlined
def _move_region(cx: int, row: int, size: int) -> bool:
    """Give the region room for ``size`` bytes from CN_START, elsewhere if need be; False when the arena is full."""
    start = get(row, CN_START)
    if get(row, CN_LIMIT) - start >= size:
        return True
    if is_short(cx, size):
        return False
    chunk = get(row, CN_CHUNK)
    filled = get(row, CN_FILLED)
    chunk_bytes = get(cx, CX_CHUNK_BYTES)
    if chunk == get(cx, CX_CURRENT) and get(row, CN_LIMIT) == get(cx, CX_BUMP):
        if start + size <= (chunk + 1) * chunk_bytes:  # nothing lies behind it yet: grow in place
            put(cx, CX_BUMP, start + size)
            put(row, CN_LIMIT, start + size)
            return True
    fresh = reserve(cx, size)
    if fresh < 0:
        return False
    copy(get(cx, CX_ARENA) + fresh, get(cx, CX_ARENA) + start, filled - start)
    put(row, CN_CHUNK, fresh // chunk_bytes)
    put(row, CN_START, fresh)
    put(row, CN_FILLED, fresh + filled - start)
    put(row, CN_LIMIT, fresh + size)
    release(cx, chunk)
    return True


@inlined
def handle_region(cx: int, connection: int) -> None:
    """Take every whole frame of the connection's region, until one makes it wait."""
    row = connection_row(cx, connection)
    arena = get(cx, CX_ARENA)
    position = get(row, CN_START)
    filled = get(row, CN_FILLED)
    chunk = get(row, CN_CHUNK)
    outcome = NEXT
    size = UNKNOWN_SIZE_ROOM
    while outcome == NEXT and filled - position >= 4:
        length = load_i32_be(arena + position)
        hot = get(row, CN_FLAGS) & FLAG_HOT != 0
        if length < 0 or length > get(cx, CX_MAX_FRAME if hot else CX_MAX_FIRST_FRAME):
            tell(cx, EVENT_BAD_SIZE, connection, length, position)
            outcome = CLOSE
            break
        size = length + 4
        if filled - position < size:
            break
        if events_left(cx) < 64:
            outcome = LATER
            break
        outcome = _handle_frame(cx, connection, arena + position + 4, length, chunk)
        if outcome == NEXT or outcome == STOP:
            put(row, CN_REQUESTS, get(row, CN_REQUESTS) + 1)
            put(cx, CX_STAT_REQUESTS, get(cx, CX_STAT_REQUESTS) + 1)
            position += size
            size = UNKNOWN_SIZE_ROOM
    put(row, CN_START, position)
    if outcome == CLOSE:
        put(row, CN_FLAGS, get(row, CN_FLAGS) | FLAG_CLOSING)
    elif position == filled:
        drop_region(cx, row)
    elif outcome == LATER:
        if get(row, CN_FLAGS) & FLAG_DRAINING == 0:
            put(cx, CX_STAT_STALLS, get(cx, CX_STAT_STALLS) + 1)
            mark_stalled(cx, connection)
    elif outcome == NEXT and not _move_region(cx, row, size):
        put(cx, CX_STAT_STALLS, get(cx, CX_STAT_STALLS) + 1)
        mark_stalled(cx, connection)


@inlined
def _rest(cx: int, connection: int) -> None:
    """Have epoll say nothing of a connection that has no room for what it would read."""
    row = connection_row(cx, connection)
    if get(row, CN_FLAGS) & FLAG_STALLED != 0:
        arm(cx, connection, get(row, CN_ARMED) & EPOLLOUT)


@inlined
def receive(cx: int, connection: int) -> None:
    """One recv of a readable connection, and all that follows from its bytes."""
    row = connection_row(cx, connection)
    if get(row, CN_FLAGS) & FLAGS_NOT_READING != 0:
        # looked at again when it reads again; but a send that waits for room goes on waiting: what came back from a
        # sender in this very turn may have armed it after this event was reported
        arm(cx, connection, get(row, CN_ARMED) & EPOLLOUT)
        return
    region = get(row, CN_CHUNK) >= 0
    if region:
        offset = get(row, CN_FILLED)
        room = get(row, CN_LIMIT) - offset
        if room == 0:  # a stalled partial frame got its turn back before it got its room
            handle_region(cx, connection)
            _rest(cx, connection)
            return
    else:
        if not ensure_room(cx, MIN_ROOM):
            put(cx, CX_STAT_STALLS, get(cx, CX_STAT_STALLS) + 1)
            mark_stalled(cx, connection)
            _rest(cx, connection)
            return
        offset = get(cx, CX_BUMP)
        room = min((get(cx, CX_CURRENT) + 1) * get(cx, CX_CHUNK_BYTES) - offset, get(cx, CX_RECEIVE_BYTES))
        if is_short(cx, room):
            room = MIN_ROOM
    count = recv(get(row, CN_FD), get(cx, CX_ARENA) + offset, room, MSG_DONTWAIT)
    if count <= 0:
        error = errno() if count < 0 else 0
        if count == 0 or (error != EAGAIN and error != EINTR):
            put(row, CN_FLAGS, get(row, CN_FLAGS) | FLAG_CLOSING)
            tell(cx, EVENT_CLOSED, connection, error, 0)
        return
    put(row, CN_LAST_NS, get(cx, CX_NOW_NS))
    put(row, CN_BYTES_IN, get(row, CN_BYTES_IN) + count)
    put(cx, CX_STAT_BYTES_IN, get(cx, CX_STAT_BYTES_IN) + count)
    if region:
        put(row, CN_FILLED, offset + count)
    else:
        put(row, CN_CHUNK, get(cx, CX_CURRENT))
        hold(cx, get(cx, CX_CURRENT))
        put(row, CN_START, offset)
        put(row, CN_FILLED, offset + count)
        put(row, CN_LIMIT, offset + count)
        put(cx, CX_BUMP, offset + count)
    handle_region(cx, connection)


@inlined
def forget_requests(cx: int, connection: int) -> None:
    """The connection has gone: its requests are freed when their appends have completed."""
    row = connection_row(cx, connection)
    number = get(row, CN_HEAD)
    while number >= 0:
        request = get(cx, CX_REQUESTS) + number * REQUEST_WORDS * 8
        following = get(request, RQ_NEXT)
        put(request, RQ_CONNECTION, -1)
        if get(request, RQ_PENDING) == 0:
            request_done(cx, number)
        number = following
    put(row, CN_HEAD, -1)
    put(row, CN_TAIL, -1)
    put(row, CN_QUEUED, 0)
