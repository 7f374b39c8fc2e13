"""Sending the parts of a fetch answer: at once, by a sender, or when the socket is writable again.

sendfile waits for the disk where a page is on its way to the page cache, and moving a megabyte takes as long as
fifty small requests. So a sender (senders.py) sends answers with large file ranges: the connection is lent to it, with
its answer in an outbox, and this thread goes on with everybody else's.
"""

from kbroker.kernels.jit import inlined
from kbroker.kernels.libc import MSG_MORE, read, write
from kbroker.kernels.memory import load_i64, store_i64
from kbroker.kernels.rows import get, put
from kbroker.net.fetch.outbox_kernel import empty_box, fill_box, free_box, send_part
from kbroker.net.rows.connection_kernel import (
    arm,
    connection_row,
    events_left,
    lose,
    mark_dirty,
    mark_stalled,
    note_sent,
    tell,
)
from kbroker.net.rows.fetch_layout import (
    CN_BOX,
    CX_PART_COUNT,
    CX_PARTS,
    PA_FD,
    PA_LENGTH,
    PA_SEGMENT,
    PA_START,
    PART_WORDS,
)
from kbroker.net.rows.layout import (
    CN_ARMED,
    CN_FD,
    CN_FLAGS,
    CX_EVENT_COUNT,
    CX_EVENTS,
    CX_OUT,
    CX_OUT_USED,
    CX_SCRATCH,
    EPOLLOUT,
    EV_C,
    EVENT_RETURNED,
    EVENT_UNSENT,
    EVENT_UNSENT_FILE,
    EVENT_WORDS,
    FLAG_CLOSING,
    FLAG_LENT,
    FLAG_OPEN,
    FLAG_OUT_BLOCKED,
    FLAG_SENDING,
)
from kbroker.net.rows.outbox_layout import (
    BACK_BYTES,
    BX_CONNECTION,
    BX_COUNT,
    BX_ERROR,
    BX_FILE_LEFT,
    BX_MOVED,
    BX_NEXT,
    CX_APART_BYTES,
    CX_BACK,
    CX_JOBS,
    CX_SENT,
    CX_STAT_SENDER_ANSWERS,
    CX_STAT_SENDER_BYTES,
    RECORD_BYTES,
)


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
def _file_bytes(cx: int) -> int:
    total = 0
    for number in range(get(cx, CX_PART_COUNT)):
        part = get(cx, CX_PARTS) + number * PART_WORDS * 8
        if get(part, PA_SEGMENT) >= 0:
            total += get(part, PA_LENGTH)
    return total


@inlined
def send_parts(cx: int, connection: int, end: int) -> None:
    """Send every part, or have a sender do it; what is left is kept in an outbox or told to Python, in order."""
    row = connection_row(cx, connection)
    fd = get(row, CN_FD)
    if _file_bytes(cx) >= get(cx, CX_APART_BYTES):
        box = fill_box(cx, connection, fd, 0)
        if box != 0:
            _keep(cx, row, box)
            _send_on(cx, connection, box)
            return
    count = get(cx, CX_PART_COUNT)
    total = 0
    for number in range(count):
        part = get(cx, CX_PARTS) + number * PART_WORDS * 8
        length = get(part, PA_LENGTH)
        start = get(part, PA_START)
        more = MSG_MORE if number + 1 < count else 0
        sent = 0
        while sent < length:
            now = send_part(fd, get(part, PA_FD), start + sent, length - sent, more, get(cx, CX_SCRATCH))
            if now < 0:
                lose(cx, connection, -now)
                return
            if now == 0:
                break
            sent += now
        total += sent
        if sent < length:
            put(part, PA_START, start + sent)
            put(part, PA_LENGTH, length - sent)
            box = fill_box(cx, connection, fd, number)
            if box != 0:
                _keep(cx, row, box)
                arm(cx, connection, EPOLLOUT)
            else:
                put(row, CN_FLAGS, get(row, CN_FLAGS) | FLAG_OUT_BLOCKED)
                _hand_over(cx, connection, number, end)
            break
    note_sent(cx, row, total)


# --- what is in an outbox ------------------------------------------------------------------------------------------


@inlined
def _keep(cx: int, row: int, box: int) -> None:
    put(row, CN_BOX, box)
    put(row, CN_FLAGS, get(row, CN_FLAGS) | FLAG_SENDING | FLAG_OUT_BLOCKED)


@inlined
def _send_on(cx: int, connection: int, box: int) -> None:
    """Go on with an outbox: a sender does if much is left, and takes the job."""
    row = connection_row(cx, connection)
    if get(box, BX_FILE_LEFT) >= get(cx, CX_APART_BYTES):
        scratch = get(cx, CX_SCRATCH)
        store_i64(scratch, box)
        if write(get(cx, CX_JOBS), scratch, RECORD_BYTES) == RECORD_BYTES:
            put(row, CN_FLAGS, get(row, CN_FLAGS) | FLAG_LENT)
            if get(row, CN_ARMED) & EPOLLOUT != 0:
                arm(cx, connection, 0)
            return
    empty_box(box)
    _tried(cx, connection, box)


@inlined
def _tried(cx: int, connection: int, box: int) -> None:
    """An outbox was emptied as far as possible: note what left, and what comes next."""
    row = connection_row(cx, connection)
    note_sent(cx, row, get(box, BX_MOVED))
    if get(box, BX_ERROR) != 0:
        lose(cx, connection, get(box, BX_ERROR))
    elif get(box, BX_NEXT) < get(box, BX_COUNT):
        arm(cx, connection, EPOLLOUT)
    else:
        forget_box(cx, connection)
        put(row, CN_FLAGS, get(row, CN_FLAGS) & ~FLAG_OUT_BLOCKED)
        mark_dirty(cx, connection)
        mark_stalled(cx, connection)


@inlined
def forget_box(cx: int, connection: int) -> None:
    """The connection's outbox, if it has one, is free again. It is with this thread."""
    row = connection_row(cx, connection)
    if get(row, CN_FLAGS) & FLAG_SENDING != 0:
        free_box(cx, get(row, CN_BOX))
        put(row, CN_FLAGS, get(row, CN_FLAGS) & ~FLAG_SENDING)


@inlined
def go_on_sending(cx: int, connection: int) -> None:
    """The socket of a connection that is FLAG_SENDING is writable again; a sender that has it knows by itself."""
    row = connection_row(cx, connection)
    if get(row, CN_FLAGS) & FLAG_LENT == 0:
        _send_on(cx, connection, get(row, CN_BOX))


@inlined
def take_back(cx: int) -> None:
    """Take the outboxes that the senders give back."""
    back = get(cx, CX_BACK)
    got = BACK_BYTES
    while got == BACK_BYTES and events_left(cx) > 2 * BACK_BYTES // RECORD_BYTES:
        got = read(get(cx, CX_SENT), back, BACK_BYTES)
        for at in range(0, got, RECORD_BYTES):
            box = load_i64(back + at)
            connection = get(box, BX_CONNECTION)
            row = connection_row(cx, connection)
            flags = get(row, CN_FLAGS) & ~FLAG_LENT
            put(cx, CX_STAT_SENDER_BYTES, get(cx, CX_STAT_SENDER_BYTES) + get(box, BX_MOVED))
            if get(box, BX_NEXT) == get(box, BX_COUNT):
                put(cx, CX_STAT_SENDER_ANSWERS, get(cx, CX_STAT_SENDER_ANSWERS) + 1)
            put(row, CN_FLAGS, flags)
            if flags & FLAG_OPEN == 0:
                forget_box(cx, connection)
                tell(cx, EVENT_RETURNED, connection, 0, 0)
            elif flags & FLAG_CLOSING == 0:
                _tried(cx, connection, box)
