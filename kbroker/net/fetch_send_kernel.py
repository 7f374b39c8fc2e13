"""Sending the parts of a fetch answer; a large range goes on when the socket is writable again."""

from kbroker.kernels.jit import inlined
from kbroker.kernels.libc import EAGAIN, EINTR, MSG_DONTWAIT, MSG_NOSIGNAL, errno, send, sendfile
from kbroker.kernels.memory import copy, store_i64
from kbroker.net.fetch_layout import (
    CN_FILE_FD,
    CN_FILE_LEFT,
    CN_FILE_POSITION,
    CN_REST,
    CN_REST_BYTES,
    CN_REST_SENT,
    CX_PART_COUNT,
    CX_PARTS,
    PA_FD,
    PA_LENGTH,
    PA_SEGMENT,
    PA_START,
    PART_WORDS,
    REST_ROOM,
)
from kbroker.net.layout import (
    CN_BYTES_OUT,
    CN_FD,
    CN_FLAGS,
    CN_LAST_NS,
    CX_EVENT_COUNT,
    CX_EVENTS,
    CX_NOW_NS,
    CX_OUT,
    CX_OUT_USED,
    CX_SCRATCH,
    CX_STAT_BYTES_OUT,
    EPOLLOUT,
    EV_C,
    EVENT_CLOSED,
    EVENT_UNSENT,
    EVENT_UNSENT_FILE,
    EVENT_WORDS,
    FLAG_CLOSING,
    FLAG_OUT_BLOCKED,
    FLAG_SENDING,
    get,
    put,
)
from kbroker.net.queue_kernel import arm, connection_row, mark_dirty, mark_stalled, tell

MSG_MORE = 0x8000


@inlined
def _send_memory(fd: int, address: int, left: int, more: int) -> int:
    """Bytes that the socket takes, -1 when the peer has gone."""
    total = 0
    while left > total:
        sent = send(fd, address + total, left - total, MSG_DONTWAIT | MSG_NOSIGNAL | more)
        if sent < 0:
            error = errno()
            if error == EINTR:
                continue
            return total if error == EAGAIN else -1
        total += sent
    return total


@inlined
def _send_file(cx: int, fd: int, source: int, position: int, left: int) -> int:
    """Bytes that the socket takes, -1 when the peer has gone or the file is shorter than it was."""
    scratch = get(cx, CX_SCRATCH)
    total = 0
    while left > total:
        store_i64(scratch, position + total)
        sent = sendfile(fd, source, scratch, left - total)
        if sent <= 0:
            error = errno() if sent < 0 else 0
            if error == EINTR:
                continue
            return total if error == EAGAIN else -1
        total += sent
    return total


@inlined
def _fail(cx: int, connection: int) -> None:
    row = connection_row(cx, connection)
    put(row, CN_FLAGS, get(row, CN_FLAGS) | FLAG_CLOSING)
    tell(cx, EVENT_CLOSED, connection, errno(), 0)


@inlined
def _note_sent(cx: int, row: int, sent: int) -> None:
    put(row, CN_BYTES_OUT, get(row, CN_BYTES_OUT) + sent)
    put(row, CN_LAST_NS, get(cx, CX_NOW_NS))
    put(cx, CX_STAT_BYTES_OUT, get(cx, CX_STAT_BYTES_OUT) + sent)


@inlined
def _keep(cx: int, connection: int, number: int) -> bool:
    """Keep the rest of an answer in the connection's row, if it is a file range and a few bytes behind it."""
    row = connection_row(cx, connection)
    part = get(cx, CX_PARTS) + number * PART_WORDS * 8
    after = part + PART_WORDS * 8
    if get(part, PA_SEGMENT) < 0 or number + 2 != get(cx, CX_PART_COUNT) or get(after, PA_LENGTH) > REST_ROOM:
        return False
    put(row, CN_FILE_FD, get(part, PA_FD))
    put(row, CN_FILE_POSITION, get(part, PA_START))
    put(row, CN_FILE_LEFT, get(part, PA_LENGTH))
    put(row, CN_REST_BYTES, get(after, PA_LENGTH))
    put(row, CN_REST_SENT, 0)
    copy(row + 8 * CN_REST, get(after, PA_START), get(after, PA_LENGTH))
    put(row, CN_FLAGS, get(row, CN_FLAGS) | FLAG_SENDING)
    arm(cx, connection, EPOLLOUT)
    return True


@inlined
def _hand_over(cx: int, connection: int, first: int, end: int) -> None:
    """Python sends what is left of the parts from ``first`` on. end: address behind the scratch's memory parts."""
    put(cx, CX_OUT_USED, end - get(cx, CX_OUT))
    for number in range(first, get(cx, CX_PART_COUNT)):
        part = get(cx, CX_PARTS) + number * PART_WORDS * 8
        length = get(part, PA_LENGTH)
        if length > 0 and get(part, PA_SEGMENT) < 0:
            tell(cx, EVENT_UNSENT, connection, get(part, PA_START), length)
        elif length > 0:
            put(get(cx, CX_EVENTS) + get(cx, CX_EVENT_COUNT) * EVENT_WORDS * 8, EV_C, length)
            tell(cx, EVENT_UNSENT_FILE, connection, get(part, PA_SEGMENT), get(part, PA_START))


@inlined
def send_parts(cx: int, connection: int, end: int) -> None:
    """Send every part; what is left is kept in the connection's row or told to Python, in order."""
    row = connection_row(cx, connection)
    fd = get(row, CN_FD)
    count = get(cx, CX_PART_COUNT)
    total = 0
    for number in range(count):
        part = get(cx, CX_PARTS) + number * PART_WORDS * 8
        length = get(part, PA_LENGTH)
        start = get(part, PA_START)
        if get(part, PA_SEGMENT) < 0:
            sent = _send_memory(fd, start, length, MSG_MORE if number + 1 < count else 0)
        else:
            sent = _send_file(cx, fd, get(part, PA_FD), start, length)
        if sent < 0:
            _fail(cx, connection)
            return
        total += sent
        if sent < length:
            put(part, PA_START, start + sent)
            put(part, PA_LENGTH, length - sent)
            put(row, CN_FLAGS, get(row, CN_FLAGS) | FLAG_OUT_BLOCKED)
            if not _keep(cx, connection, number):
                _hand_over(cx, connection, number, end)
            break
    _note_sent(cx, row, total)


@inlined
def go_on_sending(cx: int, connection: int) -> None:
    """The socket of a connection that is FLAG_SENDING is writable again."""
    row = connection_row(cx, connection)
    fd = get(row, CN_FD)
    left = get(row, CN_FILE_LEFT)
    position = get(row, CN_FILE_POSITION)
    sent = _send_file(cx, fd, get(row, CN_FILE_FD), position, left)
    if sent < 0:
        _fail(cx, connection)
        return
    put(row, CN_FILE_POSITION, position + sent)
    put(row, CN_FILE_LEFT, left - sent)
    if sent == left:
        already = get(row, CN_REST_SENT)
        rest = get(row, CN_REST_BYTES) - already
        more = _send_memory(fd, row + 8 * CN_REST + already, rest, 0)
        if more < 0:
            _fail(cx, connection)
            return
        put(row, CN_REST_SENT, already + more)
        sent += more
        if more == rest:
            put(row, CN_FLAGS, get(row, CN_FLAGS) & ~(FLAG_SENDING | FLAG_OUT_BLOCKED))
            mark_dirty(cx, connection)
            mark_stalled(cx, connection)
    _note_sent(cx, row, sent)
