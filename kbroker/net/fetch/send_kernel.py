"""Sends the parts of a fetch answer: at once, by a sender thread, or when the socket is writable
again.

sendfile waits for the disk when a page is still being read into the page cache, and moving a
megabyte takes as long as fifty small requests. So answers with large file ranges go to a sender
(senders.py): it gets the answer in an outbox and is the only one to send on the connection until it
returns it; this thread continues with the other connections.
"""

from kbroker.ipc.layout import Counter
from kbroker.kernels.jit import inlined
from kbroker.kernels.libc import MSG_MORE, Epoll, read, write
from kbroker.kernels.memory import load_i64, store_i64
from kbroker.kernels.rows import get, put
from kbroker.net.fetch.outbox_kernel import empty_box, fill_box, free_box
from kbroker.net.rows import Box, BoxPart, Connection, Context, Event, EventKind, Flag, Part
from kbroker.net.rows.connection_kernel import (
    arm,
    connection_row,
    events_left,
    mark_closing,
    mark_dirty,
    mark_stalled,
    note_sent,
    push_event,
    send_part,
)
from kbroker.net.rows.count_kernel import fetch_sent


@inlined
def _leave_to_python(cx: int, connection: int, first: int, end: int) -> None:
    """Leave the parts from ``first`` on to Python. end: address after the scratch's memory
    parts."""
    put(cx, Context.OUT_USED, end - get(cx, Context.OUT))
    for number in range(first, get(cx, Context.PART_COUNT)):
        part = get(cx, Context.PARTS) + number * Part.STRIDE
        length = get(part, Part.LENGTH)
        if length > 0 and get(part, Part.SEGMENT) < 0:
            push_event(cx, EventKind.UNSENT, connection, get(part, Part.START), length)
        elif length > 0:
            put(get(cx, Context.EVENTS) + get(cx, Context.EVENT_COUNT) * Event.STRIDE, Event.C, length)
            push_event(cx, EventKind.UNSENT_FILE, connection, get(part, Part.FD), get(part, Part.START))


@inlined
def _file_bytes(cx: int) -> int:
    total = 0
    for number in range(get(cx, Context.PART_COUNT)):
        part = get(cx, Context.PARTS) + number * Part.STRIDE
        if get(part, Part.SEGMENT) >= 0:
            total += get(part, Part.LENGTH)
    return total


@inlined
def send_parts(cx: int, connection: int, end: int) -> None:
    """Send every part, or have a sender do it. Unsent parts go to an outbox or to Python, in
    order."""
    row = connection_row(cx, connection)
    fd = get(row, Connection.FD)
    if _file_bytes(cx) >= get(cx, Context.SENDER_MIN_BYTES):
        box = fill_box(cx, connection, fd, 0)
        if box != 0:
            _keep(cx, row, box)
            _send_on(cx, connection, box)
            return
    count = get(cx, Context.PART_COUNT)
    total = 0
    for number in range(count):
        part = get(cx, Context.PARTS) + number * Part.STRIDE
        length = get(part, Part.LENGTH)
        start = get(part, Part.START)
        more = MSG_MORE if number + 1 < count else 0
        sent = 0
        while sent < length:
            now = send_part(
                fd, get(part, Part.FD), start + sent, length - sent, more, get(cx, Context.SCRATCH)
            )
            if now < 0:
                fetch_sent(cx, row)
                mark_closing(cx, connection, -now)
                return
            if now == 0:
                break
            sent += now
        total += sent
        if sent < length:
            put(part, Part.START, start + sent)
            put(part, Part.LENGTH, length - sent)
            box = fill_box(cx, connection, fd, number)
            if box != 0:
                _keep(cx, row, box)
                arm(cx, connection, Epoll.OUT)
            else:
                put(row, Connection.FLAGS, get(row, Connection.FLAGS) | Flag.OUT_BLOCKED)
                _leave_to_python(cx, connection, number, end)
            break
    note_sent(cx, row, total)
    if get(row, Connection.FLAGS) & Flag.SENDING == 0:
        fetch_sent(cx, row)


# --- outboxes -----------------------------------------------------------------------------------------


@inlined
def _keep(cx: int, row: int, box: int) -> None:
    put(row, Connection.BOX, box)
    put(row, Connection.FLAGS, get(row, Connection.FLAGS) | Flag.SENDING | Flag.OUT_BLOCKED)


@inlined
def _send_on(cx: int, connection: int, box: int) -> None:
    """Continue with an outbox: in a sender thread if much is left."""
    row = connection_row(cx, connection)
    if get(box, Box.FILE_LEFT) >= get(cx, Context.SENDER_MIN_BYTES):
        scratch = get(cx, Context.SCRATCH)
        store_i64(scratch, box)
        if write(get(cx, Context.JOBS), scratch, Box.RECORD_BYTES) == Box.RECORD_BYTES:
            put(row, Connection.FLAGS, get(row, Connection.FLAGS) | Flag.LENT)
            if get(row, Connection.ARMED) & Epoll.OUT != 0:
                arm(cx, connection, 0)
            return
    empty_box(box, 0)
    _tried(cx, connection, box)


@inlined
def _tried(cx: int, connection: int, box: int) -> None:
    """An outbox was sent until the socket was full: count the bytes, and continue or finish."""
    row = connection_row(cx, connection)
    note_sent(cx, row, get(box, Box.MOVED))
    if get(box, Box.ERROR) != 0:
        mark_closing(cx, connection, get(box, Box.ERROR))
    elif get(box, Box.NEXT) < get(box, Box.COUNT):
        arm(cx, connection, Epoll.OUT)
    else:
        forget_box(cx, connection)
        put(row, Connection.FLAGS, get(row, Connection.FLAGS) & ~Flag.OUT_BLOCKED)
        mark_dirty(cx, connection)
        mark_stalled(cx, connection)


@inlined
def forget_box(cx: int, connection: int) -> None:
    """Free the connection's outbox, if it has one. No sender has it."""
    row = connection_row(cx, connection)
    if get(row, Connection.FLAGS) & Flag.SENDING != 0:
        fetch_sent(cx, row)
        free_box(cx, get(row, Connection.BOX))
        put(row, Connection.FLAGS, get(row, Connection.FLAGS) & ~Flag.SENDING)


@inlined
def continue_sending(cx: int, connection: int) -> None:
    """The socket of a connection that is Flag.SENDING is writable again. A sender that has the
    outbox notices by itself."""
    row = connection_row(cx, connection)
    if get(row, Connection.FLAGS) & Flag.LENT == 0:
        _send_on(cx, connection, get(row, Connection.BOX))


@inlined
def _count_disk(cx: int, box: int) -> None:
    """Count by partition what a sender has read from disk."""
    for number in range(get(box, Box.COUNT)):
        part = box + 8 * (Box.PARTS + number * BoxPart.WORDS)
        size = get(part, BoxPart.FROM_DISK)
        if size > 0:
            put(part, BoxPart.FROM_DISK, 0)
            counter = get(cx, Context.COUNTERS) + get(part, BoxPart.SLOT) * Counter.STRIDE
            put(counter, Counter.COLD_BYTES_OUT, get(counter, Counter.COLD_BYTES_OUT) + size)
            put(cx, Context.STAT_SENDER_DISK, get(cx, Context.STAT_SENDER_DISK) + size)


@inlined
def take_returned(cx: int) -> None:
    """Take the outboxes that the senders return."""
    back = get(cx, Context.BACK)
    got = Box.BACK_BYTES
    while got == Box.BACK_BYTES and events_left(cx) > 2 * Box.BACK_BYTES // Box.RECORD_BYTES:
        got = read(get(cx, Context.SENT), back, Box.BACK_BYTES)
        for at in range(0, got, Box.RECORD_BYTES):
            box = load_i64(back + at)
            connection = get(box, Box.CONNECTION)
            row = connection_row(cx, connection)
            flags = get(row, Connection.FLAGS) & ~Flag.LENT
            _count_disk(cx, box)
            put(cx, Context.STAT_SENDER_BYTES, get(cx, Context.STAT_SENDER_BYTES) + get(box, Box.MOVED))
            if get(box, Box.NEXT) == get(box, Box.COUNT):
                put(cx, Context.STAT_SENDER_ANSWERS, get(cx, Context.STAT_SENDER_ANSWERS) + 1)
            put(row, Connection.FLAGS, flags)
            if flags & Flag.OPEN == 0:
                forget_box(cx, connection)
                push_event(cx, EventKind.RETURNED, connection, 0, 0)
            elif flags & Flag.CLOSING == 0:
                _tried(cx, connection, box)
