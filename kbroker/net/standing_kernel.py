"""Answers that stand: kept as they come from control, and given to whoever asks the same, without control or Python.

The question is the API, its version, the bytes of the body and the audience (by what listener and node the client
came); what is left of a request is its correlation id, and the client's name, on which no answer depends while there
are no quotas.
"""

from kbroker.ipc.standing_layout import (
    TERM_BODY_BYTES,
    TERM_CODES,
    TERM_TOPICS,
    TERM_VALUE,
    TERM_WORD,
    TERM_WORDS,
)
from kbroker.kernels.crc32c import crc32c_at
from kbroker.kernels.jit import inlined
from kbroker.kernels.libc import memcmp
from kbroker.kernels.memory import (
    copy,
    load_acquire,
    load_i16_be,
    load_i32,
    load_i64,
    store_i32_be,
    store_i64,
    store_u8,
)
from kbroker.kernels.rows import get, put
from kbroker.metrics.histogram_kernel import add
from kbroker.metrics.layout import ERROR_COUNT, ERRORS, PHASE_LOCAL, PHASE_QUEUE, PHASE_TOTAL, RESPONSE_BYTES
from kbroker.net.answer_layout import (
    AN_ANSWER,
    AN_ANSWER_BYTES,
    AN_BODY,
    AN_BODY_BYTES,
    AN_HASH,
    AN_KIND,
    AN_ROOM,
    AN_TERMS,
    ANSWER_WORDS,
    CX_ANSWER_COUNT,
    CX_ANSWER_INDEX,
    CX_ANSWER_POOL,
    CX_ANSWER_POOL_USED,
    CX_ANSWERS,
    CX_DIR_COUNT,
    CX_DIR_ERRORS,
    CX_REPEATED,
    CX_STANDING,
    INDEX_ENTRIES,
    MOST_ANSWER_BYTES,
    MOST_ANSWERS,
    POOL_BYTES,
)
from kbroker.net.connection_kernel import connection_row
from kbroker.net.count_kernel import count_request, observe_phase
from kbroker.net.layout import (
    CN_API,
    CN_AUDIENCE,
    CN_LAST_NS,
    CX_HANDED,
    CX_METRICS,
    CX_NOW_NS,
    CX_OUT,
    CX_OUT_BYTES,
    CX_OUT_USED,
    HANDED_STANDS,
    HANDED_WORDS,
)
from kbroker.net.queue_kernel import send_some

HEAD_BYTES = 24  # of a message of a block, see ipc/block.py


@inlined
def answer_at_once(
    cx: int, connection: int, frame: int, length: int, answer: int, size: int, codes: int
) -> None:
    """Send the answer to a request that was just received, and count both. answer: address in the scratch for answers.

    frame, length: the request without its size. codes: error codes in the answer, all of them NONE.
    """
    row = connection_row(cx, connection)
    metrics = get(cx, CX_METRICS)
    api = load_i16_be(frame)
    queued = get(cx, CX_NOW_NS) - get(row, CN_LAST_NS)
    count_request(metrics, api, load_i16_be(frame + 2), length)
    add(metrics + 8 * (RESPONSE_BYTES + api), size)
    add(metrics + 8 * (ERRORS + api * ERROR_COUNT + 1), codes)
    observe_phase(metrics, api, PHASE_QUEUE, queued)
    observe_phase(metrics, api, PHASE_LOCAL, 0)
    observe_phase(metrics, api, PHASE_TOTAL, queued)
    copy(answer + 4, frame + 4, 4)
    send_some(cx, connection, answer, size)


@inlined
def answer_from(
    cx: int, connection: int, frame: int, length: int, start: int, out: int, compact: bool, codes: int
) -> None:
    """As `answer_at_once`, an answer written from `start` to `out`, all but its size and its last tags."""
    if compact:
        store_u8(out, 0)
        out += 1
    store_i32_be(start, out - start - 4)
    answer_at_once(cx, connection, frame, length, start, out - start, codes)


@inlined
def _disks_failed(cx: int) -> bool:
    """A partition that goes offline with its log dir changes answers without control."""
    for number in range(get(cx, CX_DIR_COUNT)):  # noqa: SIM110  a kernel has no generators
        if load_acquire(get(cx, CX_DIR_ERRORS) + 8 * number) != 0:
            return True
    return False


@inlined
def _stands(cx: int, terms: int) -> bool:
    words = get(cx, CX_STANDING)
    return (
        load_acquire(words) == get(terms, TERM_TOPICS)
        and load_acquire(words + 8 * get(terms, TERM_WORD)) == get(terms, TERM_VALUE)
        and not _disks_failed(cx)
    )


@inlined
def _hash(kind: int, body: int, length: int) -> int:
    return crc32c_at(body, length) ^ (kind & 0xFFFF) ^ ((kind >> 16) * 0x9E3779B1 & 0xFFFFFFFF)


@inlined
def _find(cx: int, kind: int, wanted: int, body: int, length: int) -> int:
    """Address of the row of this question, 0 when there is none."""
    at = wanted & (INDEX_ENTRIES - 1)
    while True:
        number = load_i64(get(cx, CX_ANSWER_INDEX) + 8 * at) - 1
        if number < 0:
            return 0
        row = get(cx, CX_ANSWERS) + number * ANSWER_WORDS * 8
        if (
            get(row, AN_HASH) == wanted
            and get(row, AN_KIND) == kind
            and get(row, AN_BODY_BYTES) == length
            and memcmp(get(row, AN_BODY), body, length) == 0
        ):
            return row
        at = (at + 1) & (INDEX_ENTRIES - 1)


@inlined
def repeat(cx: int, connection: int, frame: int, length: int, body: int) -> bool:
    """Answer a request as one like it was answered, if that answer stands. body: address behind the header."""
    api = load_i16_be(frame)
    if get(get(cx, CX_HANDED) + api * HANDED_WORDS * 8, HANDED_STANDS) == 0:
        return False
    kind = api | load_i16_be(frame + 2) << 16 | get(connection_row(cx, connection), CN_AUDIENCE) << 32
    size = frame + length - body
    row = _find(cx, kind, _hash(kind, body, size), body, size)
    if row == 0 or not _stands(cx, row + 8 * AN_TERMS):
        return False
    size = get(row, AN_ANSWER_BYTES)
    if size > get(cx, CX_OUT_BYTES) - get(cx, CX_OUT_USED):
        return False
    answer = get(cx, CX_OUT) + get(cx, CX_OUT_USED)
    copy(answer, get(row, AN_ANSWER), size)
    answer_at_once(cx, connection, frame, length, answer, size, get(row + 8 * AN_TERMS, TERM_CODES))
    put(cx, CX_REPEATED, get(cx, CX_REPEATED) + 1)
    return True


@inlined
def _forget_all(cx: int) -> None:
    put(cx, CX_ANSWER_COUNT, 0)
    put(cx, CX_ANSWER_POOL_USED, 0)
    for at in range(INDEX_ENTRIES):
        store_i64(get(cx, CX_ANSWER_INDEX) + 8 * at, 0)


@inlined
def _new_row(cx: int, kind: int, hashed: int, body: int, length: int, room: int) -> int:
    """A row for a question that has none, with room for its answer."""
    need = ((length + 7) & ~7) + room
    if get(cx, CX_ANSWER_COUNT) == MOST_ANSWERS or get(cx, CX_ANSWER_POOL_USED) + need > POOL_BYTES:
        _forget_all(cx)
    number = get(cx, CX_ANSWER_COUNT)
    place = get(cx, CX_ANSWER_POOL) + get(cx, CX_ANSWER_POOL_USED)
    put(cx, CX_ANSWER_COUNT, number + 1)
    put(cx, CX_ANSWER_POOL_USED, get(cx, CX_ANSWER_POOL_USED) + need)
    at = hashed & (INDEX_ENTRIES - 1)
    while load_i64(get(cx, CX_ANSWER_INDEX) + 8 * at) != 0:
        at = (at + 1) & (INDEX_ENTRIES - 1)
    store_i64(get(cx, CX_ANSWER_INDEX) + 8 * at, number + 1)
    row = get(cx, CX_ANSWERS) + number * ANSWER_WORDS * 8
    put(row, AN_HASH, hashed)
    put(row, AN_KIND, kind)
    put(row, AN_BODY, place)
    put(row, AN_BODY_BYTES, length)
    put(row, AN_ANSWER, place + need - room)
    put(row, AN_ROOM, room)
    copy(place, body, length)
    return row


@inlined
def keep(cx: int, connection: int, message: int) -> None:
    """Keep the answer of a message of control's block, if it has terms."""
    size = load_i32(message + 20)
    terms = message + HEAD_BYTES + ((size + 7) & ~7)
    if terms + 8 * TERM_WORDS > message + load_i64(message):
        return
    body = terms + 8 * TERM_WORDS
    length = get(terms, TERM_BODY_BYTES)
    if size + length > MOST_ANSWER_BYTES or not _stands(cx, terms):
        return
    where = connection_row(cx, connection)
    kind = get(where, CN_API) | get(where, CN_AUDIENCE) << 32
    hashed = _hash(kind, body, length)
    row = _find(cx, kind, hashed, body, length)
    if row != 0 and get(row, AN_ROOM) < size:
        put(row, AN_KIND, -1)  # nobody finds it any more
        row = 0
    if row == 0:
        row = _new_row(cx, kind, hashed, body, length, (size + 7) & ~7)
    put(row, AN_ANSWER_BYTES, size)
    copy(get(row, AN_ANSWER), message + HEAD_BYTES, size)
    copy(row + 8 * AN_TERMS, terms, 8 * (TERM_CODES + 1))
    put(get(cx, CX_HANDED) + (kind & 0xFFFF) * HANDED_WORDS * 8, HANDED_STANDS, 1)
