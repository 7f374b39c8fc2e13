"""Cached answers: stored as they come from control, and sent again for the same request without
control or Python.

The key is the API, its version, the bytes of the body and the answer_scope (the listener and node
that the client came by). The rest of a request is its correlation id and the client id, and no
answer depends on the client id while there are no quotas.
"""

from kbroker.ipc.block_kernel import after_answer_frame, answer_frame
from kbroker.ipc.layout import LogVersion, Slot, Term
from kbroker.kernels.jit import inlined
from kbroker.kernels.memory import (
    copy,
    load_acquire,
    load_i16_be,
    store_i32_be,
)
from kbroker.kernels.padding import padded
from kbroker.kernels.rows import get, put
from kbroker.kernels.wire import write_no_tags
from kbroker.metrics import layout as ml
from kbroker.metrics.histogram_kernel import add
from kbroker.net.local_answers.answer_table_kernel import find_cached, forget_cached, row_for
from kbroker.net.produce.queue_kernel import send_some
from kbroker.net.rows import Answer, Connection, Context
from kbroker.net.rows.connection_kernel import connection_row
from kbroker.net.rows.count_kernel import count_request, count_sent, observe_phase


@inlined
def answer_at_once(
    cx: int, connection: int, frame: int, length: int, answer: int, size: int, codes: int
) -> None:
    """Send the answer to a request that was just received, and count both. answer: address in the
    scratch for answers.

    frame, length: the request without its size. codes: error codes in the answer, all of them NONE.
    """
    row = connection_row(cx, connection)
    metrics = get(cx, Context.METRICS)
    api = load_i16_be(frame)
    queued = get(cx, Context.NOW_NS) - get(row, Connection.LAST_NS)
    count_request(metrics, api, load_i16_be(frame + 2), length)
    add(metrics + 8 * (ml.RESPONSE_BYTES + api), size)
    add(metrics + 8 * (ml.ERRORS + api * ml.ERROR_COUNT + 1), codes)
    observe_phase(metrics, api, ml.PHASE_QUEUE, queued)
    observe_phase(metrics, api, ml.PHASE_LOCAL, 0)
    count_sent(metrics, api, max(0, queued), 0)
    copy(answer + 4, frame + 4, 4)
    send_some(cx, connection, answer, size)


@inlined
def answer_from(
    cx: int, connection: int, frame: int, length: int, start: int, out: int, compact: bool, codes: int
) -> None:
    """As `answer_at_once`, an answer written from `start` to `out`, all but its size and its last
    tags."""
    out = write_no_tags(out, compact)
    store_i32_be(start, out - start - 4)
    answer_at_once(cx, connection, frame, length, start, out - start, codes)


@inlined
def disks_failed(cx: int) -> bool:
    """Whether a log dir has failed: its partitions go offline, which changes answers before control
    sends an image."""
    for number in range(get(cx, Context.DIR_COUNT)):
        if load_acquire(get(cx, Context.DIR_ERRORS) + 8 * number) != 0:
            return True
    return False


@inlined
def _logs_are_unchanged(cx: int, logs: int, count: int) -> bool:
    """logs: address of so many rows of LogVersion."""
    for number in range(count):
        seen = logs + number * LogVersion.STRIDE
        slot = get(cx, Context.SLOTS) + get(seen, LogVersion.SLOT) * Slot.STRIDE
        if load_acquire(slot + 8 * Slot.SEQUENCE) != get(seen, LogVersion.SEQUENCE):
            return False
    return True


@inlined
def terms_hold(cx: int, terms: int, logs: int) -> bool:
    """Whether an answer is valid. logs: address of the versions of the logs that its terms name."""
    words = get(cx, Context.CACHED_ANSWERS)
    return (
        load_acquire(words) == get(terms, Term.TOPICS)
        and load_acquire(words + 8 * get(terms, Term.WORD)) == get(terms, Term.VALUE)
        and _logs_are_unchanged(cx, logs, get(terms, Term.LOGS))
        and not disks_failed(cx)
    )


@inlined
def send_cached(cx: int, connection: int, frame: int, length: int, body: int) -> bool:
    """Send the cached answer to the same request, if there is a valid one; returns whether it was
    sent. body: address after the header."""
    api = load_i16_be(frame)
    kind = (
        api
        | load_i16_be(frame + 2) << 16
        | get(connection_row(cx, connection), Connection.ANSWER_SCOPE) << 32
    )
    size = frame + length - body
    row = find_cached(cx + 8 * Context.ANSWERS, kind, body, size)
    if row == 0:
        return False
    size = get(row, Answer.ANSWER_BYTES)
    if not terms_hold(cx, row + 8 * Answer.TERMS, get(row, Answer.ANSWER) + padded(size)):
        return False
    if size > get(cx, Context.OUT_BYTES) - get(cx, Context.OUT_USED):
        return False
    answer = get(cx, Context.OUT) + get(cx, Context.OUT_USED)
    copy(answer, get(row, Answer.ANSWER), size)
    answer_at_once(cx, connection, frame, length, answer, size, get(row + 8 * Answer.TERMS, Term.CODES))
    return True


@inlined
def cache_answer(cx: int, connection: int, message: int) -> bool:
    """Cache the answer of a message of control's block, if its terms are valid; returns whether it
    is cached."""
    content, end = answer_frame(message)
    size = end - content
    terms = after_answer_frame(message)
    body = terms + Term.STRIDE
    length = get(terms, Term.BODY_BYTES)
    logs = body + padded(length)
    log_bytes = get(terms, Term.LOGS) * LogVersion.STRIDE
    room = padded(size) + log_bytes
    if room + length > Answer.MAX_BYTES or not terms_hold(cx, terms, logs):
        return False
    client_row = connection_row(cx, connection)
    kind = get(client_row, Connection.API) | get(client_row, Connection.ANSWER_SCOPE) << 32
    table = cx + 8 * Context.ANSWERS
    row = row_for(table, kind, body, length, room)
    if row == 0:
        forget_cached(table)
        row = row_for(table, kind, body, length, room)
    put(row, Answer.ANSWER_BYTES, size)
    copy(get(row, Answer.ANSWER), content, size)
    copy(get(row, Answer.ANSWER) + padded(size), logs, log_bytes)
    copy(row + 8 * Answer.TERMS, terms, 8 * (Term.CODES + 1))
    return True
