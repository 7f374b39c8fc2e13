"""One connection of a network process: its row, what epoll reports of it, its events, one send."""

import platform

from kbroker.kernels.jit import inlined
from kbroker.kernels.libc import EAGAIN, MSG_DONTWAIT, MSG_NOSIGNAL, epoll_ctl, errno, send
from kbroker.kernels.memory import store_i32, store_i64
from kbroker.kernels.rows import get, put
from kbroker.net.rows.layout import (
    CN_ARMED,
    CN_BYTES_OUT,
    CN_DIRTY_NEXT,
    CN_FD,
    CN_FLAGS,
    CN_LAST_NS,
    CN_STALLED_NEXT,
    CONNECTION_WORDS,
    CX_CONNECTIONS,
    CX_DIRTY,
    CX_EPOLL_FD,
    CX_EVENT_CAPACITY,
    CX_EVENT_COUNT,
    CX_EVENTS,
    CX_NOW_NS,
    CX_SCRATCH,
    CX_STALLED,
    CX_STAT_BYTES_OUT,
    EPOLL_MODIFY,
    EV_A,
    EV_B,
    EV_CONNECTION,
    EV_KIND,
    EVENT_CLOSED,
    EVENT_WORDS,
    FLAG_CLOSING,
    FLAG_DIRTY,
    FLAG_STALLED,
)

PACKED = platform.machine() in ("x86_64", "AMD64")  # struct epoll_event is packed there alone
EPOLL_DATA = 4 if PACKED else 8
EPOLL_STRIDE = 12 if PACKED else 16


@inlined
def connection_row(cx: int, connection: int) -> int:
    """Address of a connection's row."""
    return get(cx, CX_CONNECTIONS) + connection * CONNECTION_WORDS * 8


@inlined
def arm(cx: int, connection: int, mask: int) -> None:
    """Set what epoll reports of a connection."""
    row = connection_row(cx, connection)
    if get(row, CN_ARMED) != mask:
        put(row, CN_ARMED, mask)
        event = get(cx, CX_SCRATCH)
        store_i32(event, mask)
        store_i64(event + EPOLL_DATA, connection)
        epoll_ctl(get(cx, CX_EPOLL_FD), EPOLL_MODIFY, get(row, CN_FD), event)


@inlined
def events_left(cx: int) -> int:
    """Events that still fit in this turn."""
    return get(cx, CX_EVENT_CAPACITY) - get(cx, CX_EVENT_COUNT)


@inlined
def tell(cx: int, kind: int, connection: int, a: int, b: int) -> None:
    """An event for Python; the caller has made sure that it fits."""
    count = get(cx, CX_EVENT_COUNT)
    event = get(cx, CX_EVENTS) + count * EVENT_WORDS * 8
    put(event, EV_KIND, kind)
    put(event, EV_CONNECTION, connection)
    put(event, EV_A, a)
    put(event, EV_B, b)
    put(cx, CX_EVENT_COUNT, count + 1)


@inlined
def _enter(cx: int, connection: int, flag: int, following: int, first: int) -> None:
    """Put the connection into a list, once. flag: of those in it; following, first: words of row and context."""
    row = connection_row(cx, connection)
    flags = get(row, CN_FLAGS)
    if flags & flag == 0:
        put(row, CN_FLAGS, flags | flag)
        put(row, following, get(cx, first))
        put(cx, first, connection)


@inlined
def mark_dirty(cx: int, connection: int) -> None:
    """Have the connection's answers built in this turn."""
    _enter(cx, connection, FLAG_DIRTY, CN_DIRTY_NEXT, CX_DIRTY)


@inlined
def mark_stalled(cx: int, connection: int) -> None:
    """Have the connection's received bytes looked at again, in this turn or when there is room."""
    _enter(cx, connection, FLAG_STALLED, CN_STALLED_NEXT, CX_STALLED)


@inlined
def lose(cx: int, connection: int, error: int) -> None:
    """The peer has gone, or nothing more can be sent: Python closes."""
    row = connection_row(cx, connection)
    put(row, CN_FLAGS, get(row, CN_FLAGS) | FLAG_CLOSING)
    tell(cx, EVENT_CLOSED, connection, error, 0)


@inlined
def note_sent(cx: int, row: int, sent: int) -> None:
    """Bytes have left."""
    put(row, CN_BYTES_OUT, get(row, CN_BYTES_OUT) + sent)
    put(row, CN_LAST_NS, get(cx, CX_NOW_NS))
    put(cx, CX_STAT_BYTES_OUT, get(cx, CX_STAT_BYTES_OUT) + sent)


@inlined
def send_once(cx: int, connection: int, address: int, size: int) -> int:
    """One send: bytes that left; -1 when the connection is lost."""
    row = connection_row(cx, connection)
    sent = send(get(row, CN_FD), address, size, MSG_DONTWAIT | MSG_NOSIGNAL)
    if sent < 0:
        error = errno()
        if error != EAGAIN:
            lose(cx, connection, error)
            return -1
        sent = 0
    note_sent(cx, row, sent)
    return sent
