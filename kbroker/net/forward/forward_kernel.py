"""Requests that control serves, without Python: answered at once from a cached answer, or added to
the next block.

Control's answers arrive in blocks, too. They are sent, and kept if they may be cached.
"""

from kbroker.ipc.block_kernel import is_cacheable, request_bytes, write_request
from kbroker.ipc.layout import MessageHead
from kbroker.kernels.codes import ApiKey
from kbroker.kernels.jit import inlined, kernel
from kbroker.kernels.libc import Epoll
from kbroker.kernels.memory import load_i16_be, load_i32, load_i64
from kbroker.kernels.rows import get, put
from kbroker.kernels.wire import skip_request_header
from kbroker.metrics import layout as ml
from kbroker.metrics.histogram_kernel import add
from kbroker.net.local_answers.api_versions_kernel import answer_versions
from kbroker.net.local_answers.cached_answer_kernel import cache_answer, send_cached
from kbroker.net.local_answers.coordinator_kernel import answer_coordinator, keep_template
from kbroker.net.local_answers.list_offsets_kernel import answer_offsets
from kbroker.net.local_answers.producer_id_kernel import answer_producer_id
from kbroker.net.local_answers.topic_part_kernel import cache_parts, compose
from kbroker.net.rows import Connection, Context, EventKind, Flag, ForwardedApi
from kbroker.net.rows.connection_kernel import (
    arm,
    connection_row,
    events_left,
    mark_stalled,
    push_event,
    send_once,
)
from kbroker.net.rows.count_kernel import count_request, count_sent, monotonic_ns, observe_phase
from kbroker.net.rows.topic_kernel import may_take_producer_id

ROW_MASK = (1 << MessageHead.CALL_ROW_BITS) - 1

# outcomes of a request
TO_PYTHON = 0
FORWARDED = 1
ANSWERED = 2
WAITS = 3  # until Python has packed the connection's peer: the frame was not taken


@inlined
def _to_control(cx: int, connection: int, frame: int, length: int) -> int:
    """Copy a request into the block for control, once the peer that it begins with is packed."""
    row = connection_row(cx, connection)
    if get(row, Connection.FLAGS) & Flag.PEER_DUE != 0:
        put(row, Connection.FLAGS, get(row, Connection.FLAGS) | Flag.BUSY)
        push_event(cx, EventKind.PEER_DUE, connection, 0, 0)
        return WAITS
    peer_bytes = get(row, Connection.PEER_BYTES)
    size = request_bytes(peer_bytes, length)
    used = get(cx, Context.LINK_USED)
    if used + size > get(cx, Context.LINK_BYTES):
        return TO_PYTHON
    message = get(cx, Context.LINK_OUT) + used
    serial = get(cx, Context.CALLS) + 1
    call = ~((serial << MessageHead.CALL_ROW_BITS) | connection)
    put(cx, Context.CALLS, serial)
    put(cx, Context.LINK_USED, used + size)
    write_request(message, call, get(row, Connection.PEER), peer_bytes, frame, length)
    put(row, Connection.CALL, call)
    put(row, Connection.API, load_i16_be(frame) | load_i16_be(frame + 2) << 16)
    put(row, Connection.REQUEST_BYTES, length)
    put(row, Connection.BEGAN_NS, get(cx, Context.NOW_NS))
    put(row, Connection.QUEUED_NS, get(cx, Context.NOW_NS) - get(row, Connection.LAST_NS))
    put(row, Connection.FLAGS, get(row, Connection.FLAGS) | Flag.BUSY)
    return FORWARDED


@inlined
def forward(cx: int, connection: int, frame: int, length: int) -> int:
    """Answer a request that needs no control, or copy it into the block for control.

    TO_PYTHON: it is Python's (not control's, no room, no link). WAITS: it is handled again.
    """
    row = connection_row(cx, connection)
    if (
        get(cx, Context.FORWARDING) == 0
        or get(cx, Context.QUOTAS) != 0
        or get(row, Connection.FLAGS) & Flag.AUTHENTICATED == 0
        or (get(row, Connection.PEER) == 0 and get(row, Connection.FLAGS) & Flag.PEER_DUE == 0)
    ):
        return TO_PYTHON
    if length < 10 or length > ForwardedApi.FRAME_BYTES:
        return TO_PYTHON
    api = load_i16_be(frame)
    version = load_i16_be(frame + 2)
    if api < 0 or api >= ForwardedApi.APIS:
        return TO_PYTHON
    if api == ApiKey.API_VERSIONS:
        return ANSWERED if answer_versions(cx, connection, frame, length) else TO_PYTHON
    forwarded = get(cx, Context.FORWARDED) + api * ForwardedApi.STRIDE
    if version < get(forwarded, ForwardedApi.LOWEST) or version > get(forwarded, ForwardedApi.HIGHEST):
        return TO_PYTHON
    body = skip_request_header(frame, frame + length, version >= get(forwarded, ForwardedApi.FLEXIBLE))
    if body < 0:
        return TO_PYTHON
    if api == ApiKey.LIST_OFFSETS and answer_offsets(cx, connection, frame, length, body):
        return ANSWERED
    if api == ApiKey.INIT_PRODUCER_ID and may_take_producer_id(row):
        if answer_producer_id(cx, connection, frame, length, body):
            return ANSWERED
    if get(forwarded, ForwardedApi.CACHED) != 0:
        if api == ApiKey.FIND_COORDINATOR and answer_coordinator(cx, connection, frame, length, body):
            return ANSWERED
        if send_cached(cx, connection, frame, length, body) or compose(cx, connection, frame, length, body):
            return ANSWERED
    return _to_control(cx, connection, frame, length)


@inlined
def _count(cx: int, row: int, size: int) -> None:
    metrics = get(cx, Context.METRICS)
    api = get(row, Connection.API) & 0xFFFF
    served = get(cx, Context.NOW_NS) - get(row, Connection.BEGAN_NS)
    count_request(metrics, api, get(row, Connection.API) >> 16, get(row, Connection.REQUEST_BYTES))
    add(metrics + 8 * (ml.RESPONSE_BYTES + api), size)
    observe_phase(metrics, api, ml.PHASE_QUEUE, get(row, Connection.QUEUED_NS))
    observe_phase(metrics, api, ml.PHASE_LOCAL, served)
    put(row, Connection.QUEUED_NS, served + max(0, get(row, Connection.QUEUED_NS)))  # for `count_sent`


@inlined
def _send(cx: int, connection: int, address: int, size: int, position: int) -> None:
    """Send an answer once; Python sends what the socket does not take. position: of the answer in
    its block."""
    row = connection_row(cx, connection)
    sent = send_once(cx, connection, address, size)
    if 0 <= sent < size:
        push_event(cx, EventKind.ANSWER_REST, connection, position + sent, size - sent)
    else:
        api = get(row, Connection.API) & 0xFFFF
        count_sent(get(cx, Context.METRICS), api, get(row, Connection.QUEUED_NS), 0)
    if sent < size:
        return
    flags = get(row, Connection.FLAGS) & ~Flag.BUSY
    put(row, Connection.FLAGS, flags)
    if get(row, Connection.CHUNK) >= 0:
        mark_stalled(cx, connection)
    elif flags & Flag.NOT_READING == 0:
        arm(cx, connection, Epoll.READING)


@inlined
def _cache(cx: int, connection: int, message: int) -> None:
    """Keep what of an answer can be sent again, if its terms hold."""
    if not keep_template(cx, connection, message):
        if not cache_answer(cx, connection, message):
            return
        cache_parts(cx, connection, message)
    api = get(connection_row(cx, connection), Connection.API) & 0xFFFF
    put(get(cx, Context.FORWARDED) + api * ForwardedApi.STRIDE, ForwardedApi.CACHED, 1)


@kernel("int64(int64, int64, int64, int64)")
def answer_forwarded(cx: int, block: int, position: int, end: int) -> int:
    """Send the answers of a block from ``position`` on; where it stopped: before its end when
    events ran out.

    block: address of its first byte. An answer whose connection has gone, or no longer waits for
    it, is dropped.
    """
    put(cx, Context.NOW_NS, monotonic_ns(cx))
    while position < end and events_left(cx) >= 64:
        message = block + position
        call = load_i64(message + MessageHead.CALL)
        connection = ~call & ROW_MASK
        row = connection_row(cx, connection)
        if get(row, Connection.CALL) == call and get(row, Connection.FLAGS) & Flag.OPEN != 0:
            put(row, Connection.CALL, 0)
            if load_i32(message + MessageHead.STATUS) != 0:
                push_event(
                    cx,
                    EventKind.UNANSWERED,
                    connection,
                    load_i32(message + MessageHead.STATUS),
                    get(row, Connection.API) & 0xFFFF,
                )
            elif get(row, Connection.FLAGS) & Flag.CLOSING == 0:
                size = load_i32(message + MessageHead.FRAME_BYTES)
                if is_cacheable(message):
                    _cache(cx, connection, message)
                _count(cx, row, size)
                if (
                    get(row, Connection.FLAGS) & Flag.OUT_BLOCKED != 0
                ):  # after the bytes that still wait for the socket
                    push_event(cx, EventKind.ANSWER_REST, connection, position + MessageHead.SIZE, size)
                else:
                    _send(cx, connection, message + MessageHead.SIZE, size, position + MessageHead.SIZE)
        position += load_i64(message + MessageHead.MESSAGE_BYTES)
    return position
