"""Requests that control serves, without Python: answered at once where one can be, else into a block for its link.

Its answers, which come in blocks, too, are sent, and kept if they stand.
"""

from kbroker.kernels.jit import inlined, kernel
from kbroker.kernels.libc import clock_gettime
from kbroker.kernels.memory import copy, load_i16_be, load_i32, load_i64, store_i32, store_i64
from kbroker.kernels.rows import get, put
from kbroker.kernels.wire import skip_request_header
from kbroker.metrics.histogram_kernel import add
from kbroker.metrics.layout import PHASE_LOCAL, PHASE_QUEUE, PHASE_TOTAL, RESPONSE_BYTES
from kbroker.net.local_answers.cached_answer_kernel import keep, repeat
from kbroker.net.local_answers.list_offsets_kernel import LIST_OFFSETS, tell_offsets
from kbroker.net.local_answers.offset_for_leader_epoch_kernel import OFFSET_FOR_LEADER_EPOCH, tell_epochs
from kbroker.net.local_answers.producer_id_kernel import INIT_PRODUCER_ID, tell_producer_id
from kbroker.net.local_answers.topic_part_kernel import compose, keep_parts
from kbroker.net.rows.access_kernel import may_take_producer_id
from kbroker.net.rows.connection_kernel import arm, connection_row, events_left, mark_stalled, send_once, tell
from kbroker.net.rows.count_kernel import count_request, observe_phase
from kbroker.net.rows.layout import (
    CN_API,
    CN_BEGAN_NS,
    CN_CALL,
    CN_CHUNK,
    CN_FLAGS,
    CN_LAST_NS,
    CN_PEER,
    CN_PEER_BYTES,
    CN_QUEUED_NS,
    CN_REQUEST_BYTES,
    CX_CALLS,
    CX_HANDED,
    CX_HANDING,
    CX_LINK_BYTES,
    CX_LINK_OUT,
    CX_LINK_USED,
    CX_METRICS,
    CX_NOW_NS,
    CX_SCRATCH,
    EPOLLIN,
    EPOLLRDHUP,
    EVENT_ANSWER_REST,
    EVENT_UNANSWERED,
    FLAG_BUSY,
    FLAG_CLOSING,
    FLAG_HOT,
    FLAG_OPEN,
    FLAG_OUT_BLOCKED,
    FLAGS_NOT_READING,
    HANDED_APIS,
    HANDED_FLEXIBLE,
    HANDED_FRAME_BYTES,
    HANDED_HIGHEST,
    HANDED_LOWEST,
    HANDED_WORDS,
)

HEAD_BYTES = 24  # of a message of a block, see ipc/block.py
ROW_BITS = 24
ROW_MASK = (1 << ROW_BITS) - 1
READING = EPOLLIN | EPOLLRDHUP

# what became of a request
TO_PYTHON = 0
HANDED = 1
ANSWERED = 2


@inlined
def _padded(size: int) -> int:
    return (size + 7) & ~7


@inlined
def hand_on(cx: int, connection: int, frame: int, length: int) -> int:
    """Answer a request that needs no control, or copy it into the block for control.

    TO_PYTHON: it is Python's (not control's, no room, no link).
    """
    row = connection_row(cx, connection)
    if get(cx, CX_HANDING) == 0 or get(row, CN_PEER) == 0 or get(row, CN_FLAGS) & FLAG_HOT == 0:
        return TO_PYTHON
    if length < 10 or length > HANDED_FRAME_BYTES:
        return TO_PYTHON
    api = load_i16_be(frame)
    version = load_i16_be(frame + 2)
    if api < 0 or api >= HANDED_APIS:
        return TO_PYTHON
    handed = get(cx, CX_HANDED) + api * HANDED_WORDS * 8
    if version < get(handed, HANDED_LOWEST) or version > get(handed, HANDED_HIGHEST):
        return TO_PYTHON
    body = skip_request_header(frame, frame + length, version >= get(handed, HANDED_FLEXIBLE))
    if body < 0:
        return TO_PYTHON
    if api == LIST_OFFSETS and tell_offsets(cx, connection, frame, length, body):
        return ANSWERED
    if api == OFFSET_FOR_LEADER_EPOCH and tell_epochs(cx, connection, frame, length, body):
        return ANSWERED
    if api == INIT_PRODUCER_ID and may_take_producer_id(row):
        if tell_producer_id(cx, connection, frame, length, body):
            return ANSWERED
    if repeat(cx, connection, frame, length, body) or compose(cx, connection, frame, length, body):
        return ANSWERED
    peer_bytes = get(row, CN_PEER_BYTES)
    size = HEAD_BYTES + _padded(peer_bytes) + _padded(length)
    used = get(cx, CX_LINK_USED)
    if used + size > get(cx, CX_LINK_BYTES):
        return TO_PYTHON
    message = get(cx, CX_LINK_OUT) + used
    serial = get(cx, CX_CALLS) + 1
    call = ~((serial << ROW_BITS) | connection)
    put(cx, CX_CALLS, serial)
    put(cx, CX_LINK_USED, used + size)
    store_i64(message + size - 8, 0)  # the padding, before the frame's end goes over it
    store_i64(message, size)
    store_i64(message + 8, call)
    store_i32(message + 16, peer_bytes)
    store_i32(message + 20, length)
    copy(message + HEAD_BYTES, get(row, CN_PEER), peer_bytes)
    copy(message + HEAD_BYTES + _padded(peer_bytes), frame, length)
    put(row, CN_CALL, call)
    put(row, CN_API, api | (version << 16))
    put(row, CN_REQUEST_BYTES, length)
    put(row, CN_BEGAN_NS, get(cx, CX_NOW_NS))
    put(row, CN_QUEUED_NS, get(cx, CX_NOW_NS) - get(row, CN_LAST_NS))
    put(row, CN_FLAGS, get(row, CN_FLAGS) | FLAG_BUSY)
    return HANDED


@inlined
def _count(cx: int, row: int, size: int) -> None:
    metrics = get(cx, CX_METRICS)
    api = get(row, CN_API) & 0xFFFF
    served = get(cx, CX_NOW_NS) - get(row, CN_BEGAN_NS)
    count_request(metrics, api, get(row, CN_API) >> 16, get(row, CN_REQUEST_BYTES))
    add(metrics + 8 * (RESPONSE_BYTES + api), size)
    observe_phase(metrics, api, PHASE_QUEUE, get(row, CN_QUEUED_NS))
    observe_phase(metrics, api, PHASE_LOCAL, served)
    observe_phase(metrics, api, PHASE_TOTAL, served + get(row, CN_QUEUED_NS))


@inlined
def _send(cx: int, connection: int, address: int, size: int, position: int) -> None:
    """One send of an answer; a rest is Python's to send. position: of the answer in its block."""
    row = connection_row(cx, connection)
    sent = send_once(cx, connection, address, size)
    if 0 <= sent < size:
        tell(cx, EVENT_ANSWER_REST, connection, position + sent, size - sent)
    if sent < size:
        return
    flags = get(row, CN_FLAGS) & ~FLAG_BUSY
    put(row, CN_FLAGS, flags)
    if get(row, CN_CHUNK) >= 0:
        mark_stalled(cx, connection)
    elif flags & FLAGS_NOT_READING == 0:
        arm(cx, connection, READING)


@kernel("int64(int64, int64, int64, int64)")
def answer_handed(cx: int, block: int, position: int, end: int) -> int:
    """Send the answers of a block from ``position`` on; where it stopped: before its end when events ran out.

    block: address of its first byte. An answer whose connection has gone, or waits for another one, is dropped.
    """
    scratch = get(cx, CX_SCRATCH)
    clock_gettime(1, scratch)
    put(cx, CX_NOW_NS, load_i64(scratch) * 1_000_000_000 + load_i64(scratch + 8))
    while position < end and events_left(cx) >= 64:
        message = block + position
        call = load_i64(message + 8)
        connection = ~call & ROW_MASK
        row = connection_row(cx, connection)
        if get(row, CN_CALL) == call and get(row, CN_FLAGS) & FLAG_OPEN != 0:
            put(row, CN_CALL, 0)
            if load_i32(message + 16) != 0:
                tell(cx, EVENT_UNANSWERED, connection, load_i32(message + 16), get(row, CN_API) & 0xFFFF)
            elif get(row, CN_FLAGS) & FLAG_CLOSING == 0:
                size = load_i32(message + 20)
                if keep(cx, connection, message):
                    keep_parts(cx, connection, message)
                _count(cx, row, size)
                if get(row, CN_FLAGS) & FLAG_OUT_BLOCKED != 0:  # behind what still waits for the socket
                    tell(cx, EVENT_ANSWER_REST, connection, position + HEAD_BYTES, size)
                else:
                    _send(cx, connection, message + HEAD_BYTES, size, position + HEAD_BYTES)
        position += load_i64(message)
    return position
