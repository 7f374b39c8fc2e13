"""FindCoordinator for a group or transactional id that no client has named before.

All are coordinated by the same node, so answers differ only in the key, which they repeat from
version MANY_KEYS on. The first answer of control becomes a template, valid as long as that answer
is. A client that ACLs bind is answered by control for each new key: its permissions depend on the
key. So is a request for several keys, for the coordinator of a share group, whose keys have a form,
or for a key that is not ASCII.
"""

from kbroker.ipc.block_kernel import after_answer_frame, answer_frame
from kbroker.ipc.layout import Term
from kbroker.kernels.codes import ApiKey
from kbroker.kernels.jit import inlined
from kbroker.kernels.libc import memcmp
from kbroker.kernels.memory import copy, load_i16_be, load_u8, store_i32_be
from kbroker.kernels.padding import padded
from kbroker.kernels.rows import get, put
from kbroker.kernels.wire import read_length, skip_tags, write_string
from kbroker.net.local_answers.answer_table_kernel import find_cached, forget_cached, row_for
from kbroker.net.local_answers.cached_answer_kernel import answer_at_once, terms_hold
from kbroker.net.rows import Answer, Connection, Context, CoordinatorVersion
from kbroker.net.rows.connection_kernel import connection_row

FOR_GROUP = 0
FOR_SHARE = 2
MAX_KEY_BYTES = 1024
LENGTH_BYTES = 5  # of a key, at most
SIZE_AND_ID_BYTES = 8  # size and correlation id
BEFORE_KEY_BYTES = 6  # from MANY_KEYS on: tags, throttle time, number of keys
TEMPLATE = 1 << 62  # kind of a row, with the type of its keys
TYPE_SHIFT = 60
ACL_SHIFT = 16
"""Connection.ANSWER_SCOPE above it: a number of the client's permissions, 0 for all."""


@inlined
def _is_ascii(key: int, size: int) -> bool:
    bits = 0
    for at in range(size):
        bits |= load_u8(key + at)
    return bits < 0x80


@inlined
def _only_key(body: int, end: int, version: int) -> tuple[int, int, int]:
    """(address, bytes, type) of the key of a request for one; -1 bytes: control answers."""
    compact = version >= CoordinatorVersion.FLEXIBLE
    many = version >= CoordinatorVersion.MANY_KEYS
    position, kind, count = body, FOR_GROUP, 1
    if many:
        if position >= end:
            return 0, -1, 0
        kind = load_u8(position)
        count, position = read_length(position + 1, end, True, True)
        if position < 0:
            return 0, -1, 0
    size, key = read_length(position, end, compact, False)
    if count != 1 or key < 0 or size < 0 or size > min(end - key, MAX_KEY_BYTES):
        return 0, -1, 0
    position = key + size
    if not many and version >= CoordinatorVersion.WITH_TYPE:
        if position >= end:
            return 0, -1, 0
        kind = load_u8(position)
        position += 1
    if compact:
        position = skip_tags(position, end)
    if position != end or kind >= FOR_SHARE or not _is_ascii(key, size):
        return 0, -1, 0
    return key, size, kind


@inlined
def _kind(api_and_version: int, scope: int, key_type: int) -> int:
    return TEMPLATE | key_type << TYPE_SHIFT | api_and_version | scope << 32


@inlined
def answer_coordinator(cx: int, connection: int, frame: int, length: int, body: int) -> bool:
    """Answer from the template; False: there is none that holds, or the request is none for it."""
    scope = get(connection_row(cx, connection), Connection.ANSWER_SCOPE)
    if scope >> ACL_SHIFT != 0:
        return False
    version = load_i16_be(frame + 2)
    key, size, key_type = _only_key(body, frame + length, version)
    if size < 0:
        return False
    kind = _kind(load_i16_be(frame) | version << 16, scope, key_type)
    row = find_cached(cx + 8 * Context.ANSWERS, kind, body, 0)
    if row == 0 or not terms_hold(cx, row + 8 * Answer.TERMS, get(row, Answer.ANSWER)):
        return False
    around = get(row, Answer.ANSWER_BYTES)
    if SIZE_AND_ID_BYTES + around + LENGTH_BYTES + size > get(cx, Context.OUT_BYTES) - get(
        cx, Context.OUT_USED
    ):
        return False
    start = get(cx, Context.OUT) + get(cx, Context.OUT_USED)
    before = get(row, Answer.HEAD_BYTES)
    copy(start + SIZE_AND_ID_BYTES, get(row, Answer.ANSWER), before)
    out = start + SIZE_AND_ID_BYTES + before
    if version >= CoordinatorVersion.MANY_KEYS:
        out = write_string(out, key, size, True)
    copy(out, get(row, Answer.ANSWER) + before, around - before)
    out += around - before
    store_i32_be(start, out - start - 4)
    answer_at_once(cx, connection, frame, length, start, out - start, get(row + 8 * Answer.TERMS, Term.CODES))
    return True


@inlined
def _around_key(content: int, end: int, version: int, key: int, size: int) -> tuple[int, int]:
    """The end of what is before the key in an answer, and the start of what follows it; 0: the
    answer is not about the key."""
    content += SIZE_AND_ID_BYTES
    if version < CoordinatorVersion.MANY_KEYS:
        return end, end
    before = content + BEFORE_KEY_BYTES
    if before >= end:
        return 0, 0
    named, position = read_length(before, end, True, False)
    if position < 0 or named != size or size > end - position or memcmp(position, key, size) != 0:
        return 0, 0
    return before, position + size


@inlined
def keep_template(cx: int, connection: int, message: int) -> bool:
    """Keep an answer of control, which has terms, as template; False: it is none of one key, or is
    valid no more."""
    client_row = connection_row(cx, connection)
    scope, api = get(client_row, Connection.ANSWER_SCOPE), get(client_row, Connection.API)
    if api & 0xFFFF != ApiKey.FIND_COORDINATOR or scope >> ACL_SHIFT != 0:
        return False
    terms = after_answer_frame(message)
    body = terms + Term.STRIDE
    length = get(terms, Term.BODY_BYTES)
    if get(terms, Term.LOGS) != 0 or not terms_hold(cx, terms, body + padded(length)):
        return False
    version = api >> 16
    key, size, key_type = _only_key(body, body + length, version)
    if size < 0:
        return False
    frame, end = answer_frame(message)
    before, after = _around_key(frame, end, version, key, size)
    if before == 0:
        return False
    start = frame + SIZE_AND_ID_BYTES
    head, tail = before - start, end - after
    table = cx + 8 * Context.ANSWERS
    kind = _kind(api, scope, key_type)
    row = row_for(table, kind, body, 0, head + tail)
    if row == 0:
        forget_cached(table)
        row = row_for(table, kind, body, 0, head + tail)
    put(row, Answer.ANSWER_BYTES, head + tail)
    put(row, Answer.HEAD_BYTES, head)
    copy(get(row, Answer.ANSWER), start, head)
    copy(get(row, Answer.ANSWER) + head, after, tail)
    copy(row + 8 * Answer.TERMS, terms, 8 * (Term.CODES + 1))
    return True
