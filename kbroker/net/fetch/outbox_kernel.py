"""Outboxes: answers to fetches that leave later, by a sender thread or when the socket is writable
again.

sendfile waits for the disk when a page is still being read into the page cache, and moving a
megabyte takes as long as fifty small requests. So answers with large file ranges go to a sender
(senders.py): it gets the answer in an outbox and is the only one to send on the connection until it
returns it; this thread continues with the other connections. An outbox is filled and emptied by the
thread that owns it at the moment.
"""

from kbroker.ipc.layout import Counter
from kbroker.kernels.jit import inlined, kernel
from kbroker.kernels.libc import (
    IPPROTO_TCP,
    MSG_MORE,
    RU_INBLOCK,
    RUSAGE_BYTES,
    RUSAGE_THREAD,
    SECTOR,
    TCP_CORK,
    Epoll,
    Poll,
    getrusage,
    poll,
    read,
    setsockopt,
    write,
)
from kbroker.kernels.memory import copy, load_i32, load_i64, store_i32, store_i64
from kbroker.kernels.pipe import give_record, take_record
from kbroker.kernels.rows import get, link_free, next_free, put
from kbroker.net.rows import Box, BoxPart, Connection, Context, EventKind, Flag, Part
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

POLLED_BYTES = 16
SCRATCH_BYTES = Box.RECORD_BYTES + RUSAGE_BYTES + POLLED_BYTES  # of a sender


@inlined
def fill_box(cx: int, connection: int, fd: int, first: int) -> int:
    """A row with the parts of the answer from ``first`` on; 0 when no row is free or they do not
    fit into one."""
    count = get(cx, Context.PART_COUNT) - first
    number = get(cx, Context.FREE_BOX)
    if number < 0 or count > Box.MAX_PARTS:
        return 0
    box = get(cx, Context.BOXES) + number * Box.STRIDE
    memory = box + 8 * Box.MEMORY
    limit = memory + Box.MEMORY_BYTES
    files = 0
    for at in range(count):
        part = get(cx, Context.PARTS) + (first + at) * Part.STRIDE
        kept = box + 8 * (Box.PARTS + at * BoxPart.WORDS)
        length = get(part, Part.LENGTH)
        put(kept, BoxPart.LENGTH, length)
        put(kept, BoxPart.SLOT, get(part, Part.SLOT))
        put(kept, BoxPart.FROM_DISK, 0)
        if get(part, Part.SEGMENT) >= 0:
            put(kept, BoxPart.FILE, get(part, Part.FD))
            put(kept, BoxPart.START, get(part, Part.START))
            files += length
        elif length > limit - memory:
            return 0
        else:
            copy(memory, get(part, Part.START), length)
            put(kept, BoxPart.FILE, -1)
            put(kept, BoxPart.START, memory)
            memory += length
    put(cx, Context.FREE_BOX, next_free(box, Box.FREE, number))
    put(box, Box.SOCKET, fd)
    put(box, Box.CONNECTION, connection)
    put(box, Box.COUNT, count)
    put(box, Box.NEXT, 0)
    put(box, Box.FILE_LEFT, files)
    return box


@inlined
def free_box(cx: int, box: int) -> None:
    """Free a row."""
    put(box, Box.COUNT, 0)
    number = (box - get(cx, Context.BOXES)) // (Box.STRIDE)
    link_free(box, Box.FREE, number, get(cx, Context.FREE_BOX))
    put(cx, Context.FREE_BOX, number)


@inlined
def _cork(socket: int, on: int, scratch: int) -> None:
    """Set or clear TCP_CORK: the end of a file and the few bytes after it leave in one packet, and
    the client is woken once. scratch: 8 bytes."""
    store_i64(scratch, on)
    setsockopt(socket, IPPROTO_TCP, TCP_CORK, scratch, 4)


@inlined
def _disk_bytes(usage: int) -> int:
    """Bytes that the calling thread has read from disk, including the read-ahead of its sends.
    usage: RUSAGE_BYTES."""
    getrusage(RUSAGE_THREAD, usage)
    return load_i64(usage + RU_INBLOCK) * SECTOR


@inlined
def empty_box(box: int, usage: int) -> None:
    """Send parts until all has left, the socket is full, or there is an error (Box.NEXT, Box.MOVED,
    Box.ERROR).

    usage: memory of RUSAGE_BYTES; the bytes read from disk are noted in the parts. 0: they are not
    counted."""
    put(box, Box.MOVED, 0)
    put(box, Box.ERROR, 0)
    before = _disk_bytes(usage) if usage != 0 else 0
    while get(box, Box.NEXT) < get(box, Box.COUNT):
        number = get(box, Box.NEXT)
        part = box + 8 * (Box.PARTS + number * BoxPart.WORDS)
        length = get(part, BoxPart.LENGTH)
        if length > 0:
            more = MSG_MORE if number + 1 < get(box, Box.COUNT) else 0
            file = get(part, BoxPart.FILE)
            sent = send_part(
                get(box, Box.SOCKET), file, get(part, BoxPart.START), length, more, box + 8 * Box.POSITION
            )
            if usage != 0 and file >= 0:
                now = _disk_bytes(usage)
                put(part, BoxPart.FROM_DISK, get(part, BoxPart.FROM_DISK) + now - before)
                before = now
            if sent <= 0:
                put(box, Box.ERROR, -sent)
                return
            put(box, Box.MOVED, get(box, Box.MOVED) + sent)
            put(part, BoxPart.START, get(part, BoxPart.START) + sent)
            put(part, BoxPart.LENGTH, length - sent)
            if file >= 0:
                put(box, Box.FILE_LEFT, get(box, Box.FILE_LEFT) - sent)
            if sent < length:
                continue
        put(box, Box.NEXT, number + 1)


@inlined
def keep(row: int, box: int) -> None:
    """The rest of the answer to the connection of a row is in an outbox."""
    put(row, Connection.BOX, box)
    put(row, Connection.FLAGS, get(row, Connection.FLAGS) | Flag.SENDING | Flag.OUT_BLOCKED)


@inlined
def send_on(cx: int, connection: int, box: int) -> None:
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
        send_on(cx, connection, get(row, Connection.BOX))


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


@inlined
def _takes_more(socket: int, jobs: int, wait_ms: int, polled: int) -> bool:
    """Wait until a full socket takes more; False after wait_ms, or when an outbox waits for a
    sender. polled: POLLED_BYTES."""
    store_i32(polled, socket)
    store_i32(polled + 4, Poll.OUT)
    store_i32(polled + 8, jobs)
    store_i32(polled + 12, Poll.IN)
    return poll(polled, 2, wait_ms) > 0 and load_i32(polled + 12) >> Poll.RETURNED == 0


@kernel("void(int64, int64, int64, int64)")
def serve_outboxes(jobs: int, sent: int, wait_ms: int, scratch: int) -> None:
    """Thread of a sender: empty the outboxes that arrive by one pipe and return them by the other,
    until an outbox without a socket arrives. Both pipes block.

    wait_ms: the maximum wait for a full socket; the way through the network process and back to a
    sender costs more than a wait. scratch: SCRATCH_BYTES."""
    usage = scratch + Box.RECORD_BYTES
    while take_record(jobs, scratch, Box.RECORD_BYTES):
        box = load_i64(scratch)
        socket = get(box, Box.SOCKET)
        if socket < 0:
            return
        _cork(socket, 1, box + 8 * Box.POSITION)
        empty_box(box, usage)
        moved = get(box, Box.MOVED)
        while (
            get(box, Box.NEXT) < get(box, Box.COUNT)
            and get(box, Box.ERROR) == 0
            and _takes_more(socket, jobs, wait_ms, usage + RUSAGE_BYTES)
        ):
            empty_box(box, usage)
            moved += get(box, Box.MOVED)
        put(box, Box.MOVED, moved)
        _cork(socket, 0, box + 8 * Box.POSITION)
        if not give_record(sent, scratch, Box.RECORD_BYTES):
            return
