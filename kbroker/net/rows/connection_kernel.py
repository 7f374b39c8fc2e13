"""One connection of a network process: its row, its epoll registration, its events, the cost of its
turn, and one send of memory or of a file.

The records of produced batches that one turn checks are limited, so that other connections wait
some milliseconds at most. The cost is counted in bytes that are checked, a millisecond for about
half a megabyte of the shortest records. A connection whose requests have cost MAX_TURN_BYTES
continues in the next round, after all others. A single request may cost MAX_REQUEST_BYTES more; the
rest of its batches is checked one by one, when Python has time for it.
"""

from kbroker.kernels.jit import inlined, kernel
from kbroker.kernels.libc import (
    EAGAIN,
    EINTR,
    EIO,
    MSG_DONTWAIT,
    MSG_NOSIGNAL,
    Epoll,
    epoll_ctl,
    errno,
    send,
    sendfile,
)
from kbroker.kernels.memory import store_i32, store_i64
from kbroker.kernels.rows import get, put
from kbroker.net.rows import Connection, Context, Event, EventKind, Flag

MAX_TURN_BYTES = 2 << 20
MAX_REQUEST_BYTES = 4 << 20
GZIP_WEIGHT = 4  # decompresses at a quarter of the speed of the check of records
CODEC_WEIGHT = 2  # the other codecs


@inlined
def connection_row(cx: int, connection: int) -> int:
    """Address of a connection's row."""
    return get(cx, Context.CONNECTIONS) + connection * Connection.STRIDE


@kernel("void(int64, int64, int64, int64, int64)")
def begin_row(cx: int, connection: int, fd: int, flags: int, now_ns: int) -> None:
    """Make a free row that of a new connection. It may still be in a list, which it stays in."""
    row = connection_row(cx, connection)
    generation = get(row, Connection.GENERATION) + 1
    linked = get(row, Connection.FLAGS) & (Flag.DIRTY | Flag.STALLED)
    dirty_next, stalled_next = get(row, Connection.DIRTY_NEXT), get(row, Connection.STALLED_NEXT)
    for at in range(Connection.WORDS):
        put(row, at, 0)
    put(row, Connection.CHUNK, -1)
    put(row, Connection.HEAD, -1)
    put(row, Connection.TAIL, -1)
    put(row, Connection.DIRTY_NEXT, dirty_next)
    put(row, Connection.STALLED_NEXT, stalled_next)
    put(row, Connection.FD, fd)
    put(row, Connection.FLAGS, flags | linked | Flag.OPEN)
    put(row, Connection.LAST_NS, now_ns)
    put(row, Connection.GENERATION, generation)


@inlined
def arm(cx: int, connection: int, mask: int) -> None:
    """Set what epoll reports of a connection."""
    row = connection_row(cx, connection)
    if get(row, Connection.ARMED) != mask:
        put(row, Connection.ARMED, mask)
        event = get(cx, Context.SCRATCH)
        store_i32(event, mask)
        store_i64(event + Epoll.DATA, connection)
        epoll_ctl(get(cx, Context.EPOLL_FD), Epoll.MODIFY, get(row, Connection.FD), event)


@inlined
def events_left(cx: int) -> int:
    """Events that still fit in this turn."""
    return get(cx, Context.EVENT_CAPACITY) - get(cx, Context.EVENT_COUNT)


@inlined
def push_event(cx: int, kind: int, connection: int, a: int, b: int) -> None:
    """An event for Python; the caller has made sure that it fits."""
    count = get(cx, Context.EVENT_COUNT)
    event = get(cx, Context.EVENTS) + count * Event.STRIDE
    put(event, Event.KIND, kind)
    put(event, Event.CONNECTION, connection)
    put(event, Event.A, a)
    put(event, Event.B, b)
    put(cx, Context.EVENT_COUNT, count + 1)


@inlined
def _enter(cx: int, connection: int, flag: int, following: int, first: int) -> None:
    """Put the connection into a list, once. flag: of those in it; following, first: words of row
    and context."""
    row = connection_row(cx, connection)
    flags = get(row, Connection.FLAGS)
    if flags & flag == 0:
        put(row, Connection.FLAGS, flags | flag)
        put(row, following, get(cx, first))
        put(cx, first, connection)


@inlined
def mark_dirty(cx: int, connection: int) -> None:
    """Mark the connection: its answers are built in this turn."""
    _enter(cx, connection, Flag.DIRTY, Connection.DIRTY_NEXT, Context.DIRTY)


@inlined
def mark_stalled(cx: int, connection: int) -> None:
    """Mark the connection: its received bytes are handled again, in this turn or when there is
    room."""
    _enter(cx, connection, Flag.STALLED, Connection.STALLED_NEXT, Context.STALLED)


@inlined
def mark_closing(cx: int, connection: int, error: int) -> None:
    """The peer has closed, or sending failed: Python closes the connection."""
    row = connection_row(cx, connection)
    put(row, Connection.FLAGS, get(row, Connection.FLAGS) | Flag.CLOSING)
    push_event(cx, EventKind.CLOSED, connection, error, 0)


@inlined
def note_sent(cx: int, row: int, sent: int) -> None:
    """Count bytes that were sent."""
    put(row, Connection.BYTES_OUT, get(row, Connection.BYTES_OUT) + sent)
    put(row, Connection.LAST_NS, get(cx, Context.NOW_NS))
    put(cx, Context.STAT_BYTES_OUT, get(cx, Context.STAT_BYTES_OUT) + sent)


@inlined
def send_once(cx: int, connection: int, address: int, size: int) -> int:
    """One send: bytes sent; -1 when the connection has failed."""
    row = connection_row(cx, connection)
    sent = send(get(row, Connection.FD), address, size, MSG_DONTWAIT | MSG_NOSIGNAL)
    if sent < 0:
        error = errno()
        if error != EAGAIN:
            mark_closing(cx, connection, error)
            return -1
        sent = 0
    note_sent(cx, row, sent)
    return sent


@inlined
def send_part(socket: int, file: int, start: int, length: int, more: int, scratch: int) -> int:
    """One system call for a part of some length, of memory (file -1; start: its address) or of a
    file: bytes sent, 0 when the socket is full, or minus an errno (EIO: the file is shorter
    than it was). scratch: 8 bytes."""
    while True:
        if file < 0:
            sent = send(socket, start, length, MSG_DONTWAIT | MSG_NOSIGNAL | more)
        else:
            store_i64(scratch, start)
            sent = sendfile(socket, file, scratch, length)
            if sent == 0:
                return -EIO
        if sent >= 0:
            return sent
        error = errno()
        if error != EINTR:
            return 0 if error == EAGAIN else -error


@inlined
def begin_turn(cx: int) -> None:
    """A connection's requests are served, in this round for the first time or again."""
    put(cx, Context.WORK_LEFT, MAX_TURN_BYTES)


@inlined
def spend(cx: int, count: int) -> None:
    """Count bytes that were checked."""
    put(cx, Context.WORK_LEFT, get(cx, Context.WORK_LEFT) - count)


@inlined
def turn_is_over(cx: int) -> bool:
    """Whether the connection's next request has to wait for the next round."""
    return get(cx, Context.WORK_LEFT) <= 0


@inlined
def costs_too_much(cx: int) -> bool:
    """Whether the rest of the request is checked later."""
    return get(cx, Context.WORK_LEFT) <= -MAX_REQUEST_BYTES
