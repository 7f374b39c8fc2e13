"""Answers about a set of topics, composed of parts of earlier answers that named other sets of
topics.

A cached answer comes with the positions of its topics (`ipc/cached_answers.py`). The part of each
topic is kept under the name or id that requests use. The bytes around the topics are the head, kept
under the options of the request: the bytes after its topics. Parts belong to a head, so everything
else that an answer depends on is the same for all of them. If one topic has no valid part, the
request goes to control; so do requests for topics that do not exist or may be created.
"""

from kbroker.ipc.block_kernel import after_answer_frame, answer_frame
from kbroker.ipc.layout import AnswerSplit, SplitPart, Term
from kbroker.kernels.codes import ApiKey
from kbroker.kernels.jit import inlined
from kbroker.kernels.libc import memcmp
from kbroker.kernels.memory import copy, load_acquire, load_i16_be, load_i64, store_i32_be
from kbroker.kernels.padding import padded
from kbroker.kernels.rows import get, put
from kbroker.kernels.wire import read_length, skip_tags, write_count
from kbroker.net.local_answers.answer_table_kernel import find_cached, forget_cached, row_for, row_number
from kbroker.net.local_answers.cached_answer_kernel import answer_at_once, disks_failed
from kbroker.net.rows import Answer, AnswerTable, Connection, Context, MetadataVersion
from kbroker.net.rows.connection_kernel import connection_row

MAX_PART_TOPICS = 1024
MAX_STEPS = 4096  # of sorting: clients that name many topics send them sorted
ID_BYTES = 16
FRAME_HEAD_BYTES = 8  # size and correlation id
COUNT_BYTES = 5  # at most
BY_ID = 1 << 61  # in the kind of a head: its topics are named by id
PART = 1 << 62  # kind of a part, with the number of its head's row


@inlined
def _is_flexible(api: int, version: int) -> bool:
    return api == ApiKey.DESCRIBE_TOPIC_PARTITIONS or version >= MetadataVersion.FLEXIBLE


@inlined
def _has_ids(api: int, version: int) -> bool:
    return api == ApiKey.METADATA and version >= MetadataVersion.WITH_IDS


@inlined
def _named(position: int, end: int, compact: bool, with_ids: bool) -> tuple[int, int, int, int]:
    """The next topic of a request: (address of its name or id, bytes, 1 for an id, position after
    it); position -1: neither a name nor an id, or malformed."""
    start = position
    by_id = 0
    if with_ids:
        if end - position < ID_BYTES:
            return 0, 0, 0, -1
        by_id = 1 if load_i64(position) | load_i64(position + 8) != 0 else 0
        position += ID_BYTES
    size, name = read_length(position, end, compact, False)
    if name < 0 or (by_id == 0 and size <= 0) or (by_id == 1 and size >= 0) or size > end - name:
        return 0, 0, 0, -1
    position = name + max(size, 0)
    if compact:
        position = skip_tags(position, end)
    if by_id == 1:
        return start, ID_BYTES, 1, position
    return name, size, 0, position


@inlined
def _topics(body: int, end: int, compact: bool, with_ids: bool) -> tuple[int, int, int, int]:
    """(topics of a request, position of the first, of what follows the last, 1 when all are named
    by id); 0 topics: control answers."""
    count, first = read_length(body, end, compact, True)
    if first < 0 or count <= 0 or count > MAX_PART_TOPICS:
        return 0, 0, 0, 0
    position = first
    ids = 0
    for _ in range(count):
        _, _, by_id, position = _named(position, end, compact, with_ids)
        if position < 0:
            return 0, 0, 0, 0
        ids += by_id
    if ids != 0 and ids != count:
        return 0, 0, 0, 0
    return count, first, position, 1 if ids > 0 else 0


@inlined
def _head_kind(api: int, version: int, answer_scope: int, by_id: int) -> int:
    return api | version << 16 | answer_scope << 32 | (BY_ID if by_id != 0 else 0)


@inlined
def _precedes(row: int, other: int) -> bool:
    """Whether the name of topic `row` sorts before that of `other`."""
    row_bytes = get(row, Answer.BODY_BYTES)
    other_bytes = get(other, Answer.BODY_BYTES)
    order = memcmp(get(row, Answer.BODY), get(other, Answer.BODY), min(row_bytes, other_bytes))
    return order < 0 or (order == 0 and row_bytes < other_bytes)


@inlined
def _insert(row: int, first: int) -> tuple[int, int]:
    """Put a part into a sorted list whose last one is not before it: (the first one now, parts
    passed)."""
    if _precedes(row, first):
        put(row, Answer.FOLLOWING, first)
        return row, 1
    at = first
    steps = 1
    while _precedes(get(at, Answer.FOLLOWING), row):
        at = get(at, Answer.FOLLOWING)
        steps += 1
    put(row, Answer.FOLLOWING, get(at, Answer.FOLLOWING))
    put(at, Answer.FOLLOWING, row)
    return first, steps


@inlined
def _gather(
    cx: int, head: int, position: int, end: int, count: int, compact: bool, with_ids: bool, in_order: bool
) -> tuple[int, int, int]:
    """The parts of an answer as a list: (the first one, bytes, error codes); 0: some are missing,
    or there are too many."""
    table = cx + 8 * Context.TOPIC_PARTS
    made = get(cx, Context.COMPOSED) + 1
    put(cx, Context.COMPOSED, made)
    kind = PART | row_number(table, head)
    topics_version = get(head + 8 * Answer.TERMS, Term.TOPICS)
    room = get(head, Answer.PARTITIONS)
    first = last = size = steps = 0
    codes = get(head + 8 * Answer.TERMS, Term.CODES)
    for _ in range(count):
        key, key_bytes, _, position = _named(position, end, compact, with_ids)
        row = find_cached(table, kind, key, key_bytes)
        if (
            row == 0
            or get(row + 8 * Answer.TERMS, Term.TOPICS) != topics_version
            or get(row, Answer.USED) == made
        ):
            return 0, 0, 0
        put(row, Answer.USED, made)
        size += get(row, Answer.ANSWER_BYTES)
        codes += get(row + 8 * Answer.TERMS, Term.CODES)
        room -= get(row, Answer.PARTITIONS)
        if in_order and last != 0 and _precedes(row, last):
            first, passed = _insert(row, first)
            steps += passed
        else:
            put(row, Answer.FOLLOWING, 0)
            if last == 0:
                first = row
            else:
                put(last, Answer.FOLLOWING, row)
            last = row
        if room < 0 or steps > MAX_STEPS:
            return 0, 0, 0
    return first, size, codes


@inlined
def compose(cx: int, connection: int, frame: int, length: int, body: int) -> bool:
    """Answer a request from the parts of its topics; False: control answers. body: address after
    the header."""
    api = load_i16_be(frame)
    table = cx + 8 * Context.TOPIC_PARTS
    if (api != ApiKey.METADATA and api != ApiKey.DESCRIBE_TOPIC_PARTITIONS) or get(
        table, AnswerTable.COUNT
    ) == 0:
        return False
    version = load_i16_be(frame + 2)
    compact = _is_flexible(api, version)
    with_ids = _has_ids(api, version)
    end = frame + length
    count, position, options, by_id = _topics(body, end, compact, with_ids)
    if count == 0:
        return False
    kind = _head_kind(api, version, get(connection_row(cx, connection), Connection.ANSWER_SCOPE), by_id)
    head = find_cached(table, kind, options, end - options)
    if head == 0 or get(head + 8 * Answer.TERMS, Term.TOPICS) != load_acquire(
        get(cx, Context.CACHED_ANSWERS)
    ):
        return False
    if disks_failed(cx):
        return False
    in_order = api == ApiKey.DESCRIBE_TOPIC_PARTITIONS
    row, size, codes = _gather(cx, head, position, end, count, compact, with_ids, in_order)
    around = get(head, Answer.ANSWER_BYTES)
    if row == 0 or FRAME_HEAD_BYTES + around + COUNT_BYTES + size > get(cx, Context.OUT_BYTES) - get(
        cx, Context.OUT_USED
    ):
        return False
    start = get(cx, Context.OUT) + get(cx, Context.OUT_USED)
    before = get(head, Answer.HEAD_BYTES)
    copy(start + FRAME_HEAD_BYTES, get(head, Answer.ANSWER), before)
    out = write_count(start + FRAME_HEAD_BYTES + before, count, compact)
    while row != 0:
        copy(out, get(row, Answer.ANSWER), get(row, Answer.ANSWER_BYTES))
        out += get(row, Answer.ANSWER_BYTES)
        row = get(row, Answer.FOLLOWING)
    copy(out, get(head, Answer.ANSWER) + before, around - before)
    out += around - before
    store_i32_be(start, out - start - 4)
    answer_at_once(cx, connection, frame, length, start, out - start, codes)
    return True


@inlined
def _cache_head(
    table: int, kind: int, options: int, options_bytes: int, message: int, split: int, topics_version: int
) -> int:
    """Keep the bytes around the topics of an answer: its row, 0 when the table is full."""
    frame, end = answer_frame(message)
    before = get(split, AnswerSplit.ARRAY) - FRAME_HEAD_BYTES
    after = end - frame - get(split, AnswerSplit.END)
    row = row_for(table, kind, options, options_bytes, before + after)
    if row == 0:
        return 0
    put(row, Answer.ANSWER_BYTES, before + after)
    put(row, Answer.HEAD_BYTES, before)
    put(row, Answer.PARTITIONS, get(split, AnswerSplit.ROOM))
    copy(get(row, Answer.ANSWER), frame + FRAME_HEAD_BYTES, before)
    copy(get(row, Answer.ANSWER) + before, frame + get(split, AnswerSplit.END), after)
    put(row + 8 * Answer.TERMS, Term.TOPICS, topics_version)
    put(row + 8 * Answer.TERMS, Term.CODES, get(split, AnswerSplit.CODES))
    return row


@inlined
def _cache_part(table: int, kind: int, part: int, content: int, topics_version: int) -> int:
    """Keep the part of an answer about one topic: its row, 0 when the table is full."""
    size = get(part, SplitPart.BYTES)
    row = row_for(table, kind, part + SplitPart.STRIDE, get(part, SplitPart.KEY_BYTES), size)
    if row == 0:
        return 0
    put(row, Answer.ANSWER_BYTES, size)
    put(row, Answer.PARTITIONS, get(part, SplitPart.PARTITIONS))
    copy(get(row, Answer.ANSWER), content, size)
    put(row + 8 * Answer.TERMS, Term.TOPICS, topics_version)
    put(row + 8 * Answer.TERMS, Term.CODES, get(part, SplitPart.CODES))
    return row


@inlined
def cache_parts(cx: int, connection: int, message: int) -> None:
    """Cache the parts of an answer that is cached as a whole (`cached_answer_kernel.cache_answer`),
    if it has any."""
    terms = after_answer_frame(message)
    body = terms + Term.STRIDE
    length = get(terms, Term.BODY_BYTES)
    if get(terms, Term.PARTS) == 0:
        return
    client_row = connection_row(cx, connection)
    api = get(client_row, Connection.API) & 0xFFFF
    version = get(client_row, Connection.API) >> 16
    compact, with_ids = _is_flexible(api, version), _has_ids(api, version)
    count, _, options, by_id = _topics(body, body + length, compact, with_ids)
    if count == 0:
        return
    table = cx + 8 * Context.TOPIC_PARTS
    split = body + padded(length)
    kind = _head_kind(api, version, get(client_row, Connection.ANSWER_SCOPE), by_id)
    topics_version = get(terms, Term.TOPICS)
    row = _cache_head(table, kind, options, body + length - options, message, split, topics_version)
    kind = PART | row_number(table, row)
    frame, _ = answer_frame(message)
    content = frame + get(split, AnswerSplit.FIRST)
    part = split + AnswerSplit.STRIDE
    left = get(terms, Term.PARTS)
    while row != 0 and left > 0:
        row = _cache_part(table, kind, part, content, topics_version)
        content += get(part, SplitPart.BYTES)
        part += SplitPart.STRIDE + padded(get(part, SplitPart.KEY_BYTES))
        left -= 1
    if row == 0:
        forget_cached(table)  # a part must not outlive its head: another head may get the row
