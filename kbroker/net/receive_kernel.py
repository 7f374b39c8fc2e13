"""Receives into the arena and cuts frames: the input side of a connection.

Bytes are received at the bump pointer of the current chunk. Bytes that cannot be handled now (a
partial frame, a request that must wait) stay where they are as the connection's *region*: [START,
FILLED) in chunk CHUNK of its row, with room up to LIMIT.
"""

from kbroker.kernels.codes import ApiKey, Code
from kbroker.kernels.jit import inlined
from kbroker.kernels.libc import EAGAIN, EINTR, MSG_DONTWAIT, Epoll, errno, recv
from kbroker.kernels.memory import copy, load_i16_be, load_i32_be
from kbroker.kernels.rows import get, next_free, put
from kbroker.kernels.wire import skip_request_header
from kbroker.net.fetch.fetch_kernel import serve
from kbroker.net.forward.forward_kernel import ANSWERED, FORWARDED, WAITS, forward
from kbroker.net.produce.admit_kernel import (
    MALFORMED,
    TOO_MANY,
    admit,
    has_several_producers,
    rings_have_room,
    scan,
)
from kbroker.net.produce.queue_kernel import request_done
from kbroker.net.rows import (
    AnswerBy,
    Connection,
    Context,
    Event,
    EventKind,
    FetchVersion,
    Flag,
    ForwardedApi,
    Outcome,
    ProduceVersion,
    Request,
)
from kbroker.net.rows.chunk_kernel import ensure_room, hold, is_short, release, reserve
from kbroker.net.rows.connection_kernel import (
    arm,
    begin_turn,
    connection_row,
    events_left,
    mark_stalled,
    push_event,
    turn_is_over,
)
from kbroker.net.rows.count_kernel import parse_begins, parse_ends
from kbroker.net.rows.topic_kernel import UNDECIDED, may_use_id

MIN_ROOM = 16384  # of the current chunk, to receive into it
MAX_ROOM = 2  # times Context.RECEIVE_BYTES, for one receive of a long frame
UNKNOWN_SIZE_ROOM = 4096  # reserved for a frame whose size has not arrived
MAX_FETCH = 1 << 16  # bytes; longer ones are served by Python, in slices


# outcomes of a frame; TOO_MANY is one, too
NEXT = 0
STOP = 1  # the connection waits for Python or for its queue; the frame was taken
LATER = 2  # no room: the frame stays in the arena
CLOSE = 3
NEXT_ROUND = 4  # other connections have their turn first: the frame stays


@inlined
def _push_frame(cx: int, kind: int, connection: int, frame: int, length: int, chunk: int) -> None:
    hold(cx, chunk)
    put(get(cx, Context.EVENTS) + get(cx, Context.EVENT_COUNT) * Event.STRIDE, Event.C, chunk)
    push_event(cx, kind, connection, frame - get(cx, Context.ARENA), length)


@inlined
def _new_request(cx: int, row: int, frame: int, length: int) -> int:
    """Number of a request row, filled from a scanned frame of the connection of a row."""
    number = get(cx, Context.FREE_REQUEST)
    request = get(cx, Context.REQUESTS) + number * Request.STRIDE
    put(cx, Context.FREE_REQUEST, next_free(request, Request.NEXT, number))
    put(cx, Context.FREE_REQUESTS, get(cx, Context.FREE_REQUESTS) - 1)
    put(request, Request.NEXT, -1)
    put(request, Request.VERSION, load_i16_be(frame + 2))
    put(request, Request.CORRELATION, load_i32_be(frame + 4))
    put(request, Request.ACKS, get(cx, Context.SCAN_ACKS))
    put(request, Request.TIMEOUT, get(cx, Context.SCAN_TIMEOUT))
    put(request, Request.TOPICS, get(cx, Context.SCAN_TOPICS))
    put(request, Request.RESULT, -1)
    put(request, Request.FAILED, 0)
    limited = get(row, Connection.FLAGS) & Flag.QUOTA != 0
    put(request, Request.ANSWER, AnswerBy.SENT_BY_PYTHON if limited else AnswerBy.KERNEL)
    refused = get(cx, Context.SCAN_REFUSED)
    with_text = refused == Code.CORRUPT_MESSAGE or refused == Code.INVALID_PRODUCER_ID_MAPPING
    if with_text or (get(cx, Context.SCAN_EMPTY) != 0 and get(cx, Context.SCAN_ACKS) != 0):
        put(request, Request.ANSWER, AnswerBy.PYTHON)
    put(request, Request.RECEIVED_NS, get(cx, Context.NOW_NS))
    put(request, Request.QUEUED_NS, get(cx, Context.NOW_NS) - get(row, Connection.LAST_NS))
    put(request, Request.WRITTEN_NS, 0)
    put(request, Request.ENDED_NS, 0)
    put(request, Request.BOUND, get(cx, Context.SCAN_BOUND))
    put(request, Request.FRAME, frame - get(cx, Context.ARENA))
    put(request, Request.FRAME_BYTES, length)
    return number


@inlined
def _has_room(cx: int, row: int, count: int) -> bool:
    """Whether a request with so many partitions can be queued."""
    full = (
        get(cx, Context.FREE_REQUESTS) < 1
        or get(cx, Context.FREE_RESULTS) < count
        or events_left(cx) < count + 64
        or get(row, Connection.QUEUED) >= get(cx, Context.PIPELINE)
    )
    return not full and rings_have_room(cx, count)


@inlined
def _queue(cx: int, row: int, number: int) -> None:
    """Put a request at the end of the queue of a connection's row."""
    tail = get(row, Connection.TAIL)
    if tail < 0:
        put(row, Connection.HEAD, number)
    else:
        put(get(cx, Context.REQUESTS) + tail * Request.STRIDE, Request.NEXT, number)
    put(row, Connection.TAIL, number)
    put(row, Connection.QUEUED, get(row, Connection.QUEUED) + 1)


@inlined
def _produce(cx: int, connection: int, frame: int, length: int, chunk: int) -> int:
    """Take one Produce frame (address and bytes after its size field)."""
    row = connection_row(cx, connection)
    version = load_i16_be(frame + 2)
    end = frame + length
    body = skip_request_header(frame, end, version >= ProduceVersion.FLEXIBLE)
    scanned = scan(cx, body, end, version) if body >= 0 else MALFORMED
    if scanned == TOO_MANY:
        return TOO_MANY
    if scanned == MALFORMED:
        _push_frame(cx, EventKind.BAD_REQUEST, connection, frame, length, chunk)
        return CLOSE
    if get(cx, Context.SCAN_ID) != 0:
        allowed = may_use_id(row, get(cx, Context.SCAN_ID), get(cx, Context.SCAN_ID_BYTES))
        if allowed == UNDECIDED:  # the frame stays where it is until Python has checked it
            put(row, Connection.FLAGS, get(row, Connection.FLAGS) | Flag.BUSY)
            place = get(cx, Context.SCAN_ID) - get(cx, Context.ARENA)
            push_event(cx, EventKind.TRANSACTIONAL_ID, connection, place, get(cx, Context.SCAN_ID_BYTES))
            return LATER
        if allowed == 0:
            put(cx, Context.SCAN_REFUSED, Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    count = get(cx, Context.SCAN_COUNT)
    if not _has_room(cx, row, count):
        return LATER
    several = get(cx, Context.SCAN_REFUSED) == Code.INVALID_PRODUCER_ID_MAPPING
    if several and not has_several_producers(cx, row, end, version):
        put(cx, Context.SCAN_REFUSED, Code.NONE)
    number = _new_request(cx, row, frame, length)
    request = get(cx, Context.REQUESTS) + number * Request.STRIDE
    put(request, Request.CONNECTION, connection)
    put(request, Request.CHUNK, chunk)
    hold(cx, chunk)
    _queue(cx, row, number)
    left = admit(cx, connection, number, end)
    if get(request, Request.PENDING) == 0:
        request_done(cx, number)
    if left > 0:
        put(row, Connection.FLAGS, get(row, Connection.FLAGS) | Flag.BUSY)
        return STOP
    return NEXT


@inlined
def _handle_frame(cx: int, connection: int, frame: int, length: int, chunk: int) -> int:
    row = connection_row(cx, connection)
    flags = get(row, Connection.FLAGS)
    one_at_a_time = flags & Flag.QUOTA != 0 and get(row, Connection.HEAD) >= 0
    if (
        length >= 10
        and flags & Flag.AUTHENTICATED != 0
        and not one_at_a_time
        and load_i16_be(frame) == ApiKey.PRODUCE
    ):
        version = load_i16_be(frame + 2)
        if version >= ProduceVersion.FIRST and version <= ProduceVersion.LAST:
            began = parse_begins(cx)
            outcome = _produce(cx, connection, frame, length, chunk)
            parse_ends(cx, began)
            if outcome != TOO_MANY:
                return outcome
    if get(row, Connection.HEAD) >= 0:
        put(row, Connection.FLAGS, flags | Flag.DRAINING)
        return LATER
    kind = EventKind.REQUEST
    short = length >= 10 and length <= MAX_FETCH
    if short and flags & Flag.FETCH != 0 and load_i16_be(frame) == ApiKey.FETCH:
        version = load_i16_be(frame + 2)
        if version >= FetchVersion.FIRST and version <= FetchVersion.LAST:
            state = serve(cx, connection, frame, length, False)
            if state == Outcome.SERVED:
                return STOP if get(row, Connection.FLAGS) & Flag.NOT_READING != 0 else NEXT
            if state == Outcome.WAITING:
                kind = EventKind.WAIT
    else:
        outcome = forward(cx, connection, frame, length)
        if outcome == FORWARDED:
            return STOP
        if outcome == WAITS:
            return LATER
        if outcome == ANSWERED:
            return STOP if get(row, Connection.FLAGS) & Flag.NOT_READING != 0 else NEXT
    put(row, Connection.FLAGS, flags | Flag.BUSY)
    _push_frame(cx, kind, connection, frame, length, chunk)
    return STOP


@inlined
def _serves(cx: int, frame: int) -> bool:
    """Whether the broker serves the API and the version that a frame begins with."""
    api = load_i16_be(frame)
    if api < 0 or api >= ForwardedApi.APIS:
        return False
    row = get(cx, Context.FORWARDED) + api * ForwardedApi.STRIDE
    version = load_i16_be(frame + 2)
    return get(row, ForwardedApi.SERVED_LOWEST) <= version and version <= get(
        row, ForwardedApi.SERVED_HIGHEST
    )


@inlined
def _refuse_head(cx: int, connection: int, frame: int) -> int:
    """Close the connection because of a frame's head, before the rest arrives and after the answers
    to earlier requests."""
    row = connection_row(cx, connection)
    if get(row, Connection.HEAD) >= 0:
        put(row, Connection.FLAGS, get(row, Connection.FLAGS) | Flag.DRAINING)
        return LATER
    push_event(cx, EventKind.UNSERVED, connection, load_i16_be(frame), load_i16_be(frame + 2))
    return CLOSE


@inlined
def drop_region(cx: int, row: int) -> None:
    """Drop a connection's received bytes."""
    chunk = get(row, Connection.CHUNK)
    if chunk >= 0:
        put(row, Connection.CHUNK, -1)
        release(cx, chunk)


@inlined
def _move_region(cx: int, row: int, size: int) -> bool:
    """Give the region room for ``size`` bytes from its START, elsewhere if need be; False when the
    arena is full."""
    start = get(row, Connection.START)
    if get(row, Connection.LIMIT) - start >= size:
        return True
    if is_short(cx, size):
        return False
    chunk = get(row, Connection.CHUNK)
    filled = get(row, Connection.FILLED)
    chunk_bytes = get(cx, Context.CHUNK_BYTES)
    if chunk == get(cx, Context.CURRENT) and get(row, Connection.LIMIT) == get(cx, Context.BUMP):
        if start + size <= (chunk + 1) * chunk_bytes:  # nothing follows it yet: grow in place
            put(cx, Context.BUMP, start + size)
            put(row, Connection.LIMIT, start + size)
            return True
    fresh = reserve(cx, size)
    if fresh < 0:
        return False
    copy(get(cx, Context.ARENA) + fresh, get(cx, Context.ARENA) + start, filled - start)
    put(row, Connection.CHUNK, fresh // chunk_bytes)
    put(row, Connection.START, fresh)
    put(row, Connection.FILLED, fresh + filled - start)
    put(row, Connection.LIMIT, fresh + size)
    release(cx, chunk)
    return True


@inlined
def _end_turn(cx: int, connection: int, outcome: int, size: int) -> None:
    """Keep, move or drop a connection's region after its frames. size: bytes that its next frame
    needs."""
    row = connection_row(cx, connection)
    if outcome == CLOSE:
        put(row, Connection.FLAGS, get(row, Connection.FLAGS) | Flag.CLOSING)
    elif get(row, Connection.START) == get(row, Connection.FILLED):
        drop_region(cx, row)
    elif outcome == LATER:
        if get(row, Connection.FLAGS) & (Flag.DRAINING | Flag.BUSY) == 0:
            put(cx, Context.STAT_STALLS, get(cx, Context.STAT_STALLS) + 1)
            mark_stalled(cx, connection)
    elif outcome == NEXT_ROUND:
        put(cx, Context.UNFINISHED, 1)
        mark_stalled(cx, connection)
    elif outcome == NEXT and not _move_region(cx, row, size):
        put(cx, Context.STAT_STALLS, get(cx, Context.STAT_STALLS) + 1)
        mark_stalled(cx, connection)


@inlined
def handle_region(cx: int, connection: int) -> None:
    """Take the whole frames of the connection's region, until one makes the connection wait, or
    until the records have cost enough for one turn."""
    begin_turn(cx)
    row = connection_row(cx, connection)
    arena = get(cx, Context.ARENA)
    position = get(row, Connection.START)
    filled = get(row, Connection.FILLED)
    chunk = get(row, Connection.CHUNK)
    outcome = NEXT
    size = UNKNOWN_SIZE_ROOM
    while outcome == NEXT and filled - position >= 4:
        length = load_i32_be(arena + position)
        authenticated = get(row, Connection.FLAGS) & Flag.AUTHENTICATED != 0
        if length < 0 or length > get(cx, Context.MAX_FRAME if authenticated else Context.MAX_FIRST_FRAME):
            push_event(cx, EventKind.BAD_SIZE, connection, length, position)
            outcome = CLOSE
            break
        size = length + 4
        if filled - position < size:
            if (
                length >= 4
                and filled - position >= 8
                and authenticated
                and not _serves(cx, arena + position + 4)
            ):
                outcome = _refuse_head(cx, connection, arena + position + 4)
            break
        if events_left(cx) < 64:
            outcome = LATER
            break
        if turn_is_over(cx):
            outcome = NEXT_ROUND
            break
        outcome = _handle_frame(cx, connection, arena + position + 4, length, chunk)
        if outcome == NEXT or outcome == STOP:
            put(row, Connection.REQUESTS, get(row, Connection.REQUESTS) + 1)
            put(cx, Context.STAT_REQUESTS, get(cx, Context.STAT_REQUESTS) + 1)
            position += size
            size = UNKNOWN_SIZE_ROOM
    put(row, Connection.START, position)
    _end_turn(cx, connection, outcome, size)


@inlined
def _disarm_stalled(cx: int, connection: int) -> None:
    """Disarm epoll for a connection that has no room to receive."""
    row = connection_row(cx, connection)
    if get(row, Connection.FLAGS) & Flag.STALLED != 0:
        arm(cx, connection, get(row, Connection.ARMED) & Epoll.OUT)


@inlined
def receive(cx: int, connection: int) -> None:
    """Receive once from a readable connection and handle the frames."""
    row = connection_row(cx, connection)
    if get(row, Connection.FLAGS) & Flag.NOT_READING != 0:
        # resumed when it reads again. A send that waits for room keeps waiting: an outbox that a
        # sender returned in this turn may have armed it after this event was reported
        arm(cx, connection, get(row, Connection.ARMED) & Epoll.OUT)
        return
    region = get(row, Connection.CHUNK) >= 0
    if region:
        offset = get(row, Connection.FILLED)
        room = min(get(row, Connection.LIMIT) - offset, MAX_ROOM * get(cx, Context.RECEIVE_BYTES))
        if room == 0:  # a stalled partial frame got its turn back before it got its room
            handle_region(cx, connection)
            _disarm_stalled(cx, connection)
            return
    else:
        if not ensure_room(cx, MIN_ROOM):
            put(cx, Context.STAT_STALLS, get(cx, Context.STAT_STALLS) + 1)
            mark_stalled(cx, connection)
            _disarm_stalled(cx, connection)
            return
        offset = get(cx, Context.BUMP)
        room = min(
            (get(cx, Context.CURRENT) + 1) * get(cx, Context.CHUNK_BYTES) - offset,
            get(cx, Context.RECEIVE_BYTES),
        )
        if is_short(cx, room):
            room = MIN_ROOM
    count = recv(get(row, Connection.FD), get(cx, Context.ARENA) + offset, room, MSG_DONTWAIT)
    if count <= 0:
        error = errno() if count < 0 else 0
        if count == 0 or (error != EAGAIN and error != EINTR):
            put(row, Connection.FLAGS, get(row, Connection.FLAGS) | Flag.CLOSING)
            push_event(cx, EventKind.CLOSED, connection, error, 0)
        return
    put(row, Connection.LAST_NS, get(cx, Context.NOW_NS))
    put(row, Connection.BYTES_IN, get(row, Connection.BYTES_IN) + count)
    put(cx, Context.STAT_BYTES_IN, get(cx, Context.STAT_BYTES_IN) + count)
    if region:
        put(row, Connection.FILLED, offset + count)
    else:
        put(row, Connection.CHUNK, get(cx, Context.CURRENT))
        hold(cx, get(cx, Context.CURRENT))
        put(row, Connection.START, offset)
        put(row, Connection.FILLED, offset + count)
        put(row, Connection.LIMIT, offset + count)
        put(cx, Context.BUMP, offset + count)
    handle_region(cx, connection)
