"""Filling and emptying an outbox, by whichever thread it is with."""

from kbroker.kernels.jit import inlined, kernel
from kbroker.kernels.libc import (
    EAGAIN,
    EINTR,
    EIO,
    IPPROTO_TCP,
    MSG_DONTWAIT,
    MSG_MORE,
    MSG_NOSIGNAL,
    TCP_CORK,
    errno,
    send,
    sendfile,
    setsockopt,
)
from kbroker.kernels.memory import copy, load_i64, store_i64
from kbroker.kernels.pipe import give_record, take_record
from kbroker.kernels.rows import get, link_free, next_free, put
from kbroker.net.rows.fetch_layout import (
    CX_PART_COUNT,
    CX_PARTS,
    PA_FD,
    PA_LENGTH,
    PA_SEGMENT,
    PA_START,
    PART_WORDS,
)
from kbroker.net.rows.outbox_layout import (
    BOX_PART_WORDS,
    BOX_PARTS,
    BOX_WORDS,
    BP_FILE,
    BP_LENGTH,
    BP_START,
    BX_CONNECTION,
    BX_COUNT,
    BX_ERROR,
    BX_FILE_LEFT,
    BX_FREE,
    BX_MEMORY,
    BX_MOVED,
    BX_NEXT,
    BX_PARTS,
    BX_POSITION,
    BX_SOCKET,
    CX_BOXES,
    CX_FREE_BOX,
    MEMORY_BYTES,
    RECORD_BYTES,
)


@inlined
def fill_box(cx: int, connection: int, fd: int, first: int) -> int:
    """A row with the parts of the answer from ``first`` on; 0 when no row is free or they do not fit into one."""
    count = get(cx, CX_PART_COUNT) - first
    number = get(cx, CX_FREE_BOX)
    if number < 0 or count > BOX_PARTS:
        return 0
    box = get(cx, CX_BOXES) + number * BOX_WORDS * 8
    memory = box + 8 * BX_MEMORY
    limit = memory + MEMORY_BYTES
    files = 0
    for at in range(count):
        part = get(cx, CX_PARTS) + (first + at) * PART_WORDS * 8
        kept = box + 8 * (BX_PARTS + at * BOX_PART_WORDS)
        length = get(part, PA_LENGTH)
        put(kept, BP_LENGTH, length)
        if get(part, PA_SEGMENT) >= 0:
            put(kept, BP_FILE, get(part, PA_FD))
            put(kept, BP_START, get(part, PA_START))
            files += length
        elif length > limit - memory:
            return 0
        else:
            copy(memory, get(part, PA_START), length)
            put(kept, BP_FILE, -1)
            put(kept, BP_START, memory)
            memory += length
    put(cx, CX_FREE_BOX, next_free(box, BX_FREE, number))
    put(box, BX_SOCKET, fd)
    put(box, BX_CONNECTION, connection)
    put(box, BX_COUNT, count)
    put(box, BX_NEXT, 0)
    put(box, BX_FILE_LEFT, files)
    return box


@inlined
def free_box(cx: int, box: int) -> None:
    """Give a row back."""
    put(box, BX_COUNT, 0)
    number = (box - get(cx, CX_BOXES)) // (BOX_WORDS * 8)
    link_free(box, BX_FREE, number, get(cx, CX_FREE_BOX))
    put(cx, CX_FREE_BOX, number)


@inlined
def send_part(socket: int, file: int, start: int, length: int, more: int, scratch: int) -> int:
    """One system call for a part of some length, of memory (file -1; start: its address) or of a file: bytes that left,
    0 when the socket is full, or minus an errno (EIO: the file is shorter than it was). scratch: 8 bytes."""
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
def _cork(socket: int, on: int, scratch: int) -> None:
    """Hold back what fills no packet, or no longer: the end of a file and the few bytes behind it leave together, and
    the client is woken once. scratch: 8 bytes."""
    store_i64(scratch, on)
    setsockopt(socket, IPPROTO_TCP, TCP_CORK, scratch, 4)


@inlined
def empty_box(box: int) -> None:
    """Send parts until all has left, the socket is full, or there is an error (BX_NEXT, BX_MOVED, BX_ERROR)."""
    put(box, BX_MOVED, 0)
    put(box, BX_ERROR, 0)
    while get(box, BX_NEXT) < get(box, BX_COUNT):
        number = get(box, BX_NEXT)
        part = box + 8 * (BX_PARTS + number * BOX_PART_WORDS)
        length = get(part, BP_LENGTH)
        if length > 0:
            more = MSG_MORE if number + 1 < get(box, BX_COUNT) else 0
            file = get(part, BP_FILE)
            sent = send_part(
                get(box, BX_SOCKET), file, get(part, BP_START), length, more, box + 8 * BX_POSITION
            )
            if sent <= 0:
                put(box, BX_ERROR, -sent)
                return
            put(box, BX_MOVED, get(box, BX_MOVED) + sent)
            put(part, BP_START, get(part, BP_START) + sent)
            put(part, BP_LENGTH, length - sent)
            if file >= 0:
                put(box, BX_FILE_LEFT, get(box, BX_FILE_LEFT) - sent)
            if sent < length:
                continue
        put(box, BX_NEXT, number + 1)


@kernel("void(int64, int64, int64)")
def serve_outboxes(jobs: int, sent: int, scratch: int) -> None:
    """Thread of a sender: empty the outboxes that come by the one pipe and give them back by the other, until one
    without a socket comes. Both pipes block; scratch: RECORD_BYTES."""
    while take_record(jobs, scratch, RECORD_BYTES):
        box = load_i64(scratch)
        if get(box, BX_SOCKET) < 0:
            return
        _cork(get(box, BX_SOCKET), 1, box + 8 * BX_POSITION)
        empty_box(box)
        _cork(get(box, BX_SOCKET), 0, box + 8 * BX_POSITION)
        if not give_record(sent, scratch, RECORD_BYTES):
            return
