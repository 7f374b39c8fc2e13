"""ApiVersions, by which nearly every connection begins, answered from the requests that Python has
answered before.

The key is the whole request but for its correlation id. So clients of the same software and client
id have one row, and its number names the client to Python afterwards.
"""

from kbroker.kernels.codes import ApiKey
from kbroker.kernels.jit import inlined, kernel
from kbroker.kernels.memory import copy, load_i16_be
from kbroker.kernels.rows import get, put
from kbroker.net.local_answers.answer_table_kernel import find_cached, forget_cached, row_for, row_number
from kbroker.net.local_answers.cached_answer_kernel import answer_at_once
from kbroker.net.rows import Answer, Connection, Context, EventKind, Flag
from kbroker.net.rows.connection_kernel import connection_row, push_event

KEY = 8  # bytes before the key: API, version and correlation id; the first two are its kind


@inlined
def _kind(frame: int) -> int:
    return ApiKey.API_VERSIONS | (load_i16_be(frame + 2) & 0xFFFF) << 16


@inlined
def answer_versions(cx: int, connection: int, frame: int, length: int) -> bool:
    """Answer a request that is known, with an event for Python that names it; False: Python
    answers.

    frame, length: the request without its size, at least KEY bytes. The peer that control gets is
    packed again before the next request, as the client may have named another software than before.
    """
    table = cx + 8 * Context.VERSION_ANSWERS
    known = find_cached(table, _kind(frame), frame + KEY, length - KEY)
    if known == 0:
        return False
    size = get(known, Answer.ANSWER_BYTES)
    if size > get(cx, Context.OUT_BYTES) - get(cx, Context.OUT_USED):
        return False
    row = connection_row(cx, connection)
    put(row, Connection.FLAGS, get(row, Connection.FLAGS) | Flag.PEER_DUE)
    push_event(cx, EventKind.INTRODUCED, connection, row_number(table, known), 0)
    answer = get(cx, Context.OUT) + get(cx, Context.OUT_USED)
    copy(answer, get(known, Answer.ANSWER), size)
    answer_at_once(cx, connection, frame, length, answer, size, 1)
    return True


@kernel("int64(int64, int64, int64, int64, int64)")
def know_versions(cx: int, frame: int, length: int, answer: int, size: int) -> int:
    """Keep the answer to a request, whose number is returned; -1 when the table is full.

    frame, length: the request without its size, at least KEY bytes. answer, size: the whole frame
    of the answer.
    """
    table = cx + 8 * Context.VERSION_ANSWERS
    row = row_for(table, _kind(frame), frame + KEY, length - KEY, size)
    if row == 0:
        return -1
    put(row, Answer.ANSWER_BYTES, size)
    copy(get(row, Answer.ANSWER), answer, size)
    return row_number(table, row)


@kernel("void(int64)")
def forget_versions(cx: int) -> None:
    """Forget all answers, because features may have changed."""
    forget_cached(cx + 8 * Context.VERSION_ANSWERS)
