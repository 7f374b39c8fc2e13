"""Requests of the commit cache: the indexes by which the bytes of a request find its cached
decision and the rows of its offsets; and an OffsetCommit of the usual shape, read into a commit
row.

The answer to an OffsetCommit is prepared here, and sent once its records are in the log.
"""

from kbroker.control.groups.commit_cache.layout import (
    CachedDecision,
    CacheTables,
    Commit,
    CommitEntry,
    CommitLimit,
    Committed,
    CommitVersion,
)
from kbroker.ipc.block_kernel import request_frame
from kbroker.kernels.codes import ApiKey
from kbroker.kernels.hash_index import enter, next_row
from kbroker.kernels.jit import inlined, kernel
from kbroker.kernels.keyed_hash import hash64
from kbroker.kernels.libc import memcmp
from kbroker.kernels.memory import (
    copy,
    load_i16_be,
    load_i32_be,
    load_i64_be,
    load_u8,
    store_i16_be,
    store_i32_be,
)
from kbroker.kernels.rows import get, put
from kbroker.kernels.wire import (
    read_length,
    skip_request_header,
    skip_tags,
    write_answer_head,
    write_count,
    write_no_tags,
    write_string,
)

# --- the indexes of decisions and of offsets ------------------------------------------------------


@inlined
def _hash(cache: int, address: int, length: int, kind: int) -> int:
    """Clients choose these bytes."""
    return hash64(address, length, get(cache, CacheTables.HASH_KEY) ^ kind)


@inlined
def find_decision(cache: int, kind: int, prefix: int, length: int) -> int:
    """Number of the valid decision about requests that begin so, -1 when there is none."""
    key_hash = _hash(cache, prefix, length, kind)
    index, mask = get(cache, CacheTables.DECISION_INDEX), get(cache, CacheTables.DECISION_MASK)
    number, at = next_row(index, mask, key_hash)
    while number >= 0:
        row = get(cache, CacheTables.DECISIONS) + number * CachedDecision.STRIDE
        if (
            get(row, CachedDecision.LIVE) != 0
            and get(row, CachedDecision.HASH) == key_hash
            and get(row, CachedDecision.KIND) == kind
            and get(row, CachedDecision.PREFIX_BYTES) == length
            and memcmp(get(row, CachedDecision.PREFIX), prefix, length) == 0
        ):
            return number
        number, at = next_row(index, mask, at)
    return -1


@inlined
def _is_row(row: int, key_hash: int, key: int, length: int, by_id: bool) -> bool:
    """Whether a row has a scratch key: the record's key, or, with by_id, group, topic id and
    partition."""
    if get(row, Committed.LIVE) == 0:
        return False
    if not by_id:
        return (
            get(row, Committed.HASH) == key_hash
            and get(row, Committed.KEY_BYTES) == length
            and memcmp(row + 8 * Committed.KEY, key, length) == 0
        )
    group = length - 24
    if get(row, Committed.ID_HASH) != key_hash or get(row, Committed.KEY_BYTES) < group + 10:
        return False
    return (
        memcmp(row + 8 * Committed.KEY + 2, key + 2, group + 2) == 0
        and memcmp(row + 8 * Committed.TOPIC_ID, key + 4 + group, 16) == 0
        and load_i32_be(row + 8 * Committed.KEY + get(row, Committed.KEY_BYTES) - 4)
        == load_i32_be(key + 20 + group)
    )


@inlined
def find_row(cache: int, length: int, by_id: bool) -> int:
    """Number of the live row that the scratch key names, -1 when there is none."""
    key = get(cache, CacheTables.SCRATCH)
    key_hash = _hash(cache, key, length, 0)
    index, mask = get(cache, CacheTables.ROW_INDEX), get(cache, CacheTables.ROW_MASK)
    number, at = next_row(index, mask, key_hash)
    while number >= 0:
        if _is_row(get(cache, CacheTables.ROWS) + number * Committed.STRIDE, key_hash, key, length, by_id):
            return number
        number, at = next_row(index, mask, at)
    return -1


@inlined
def begin_key(cache: int, group: int, group_bytes: int, topic: int, topic_bytes: int) -> int:
    """The scratch key up to the partition; its length so far. topic_bytes -1: topic is an id of 16
    bytes."""
    key = get(cache, CacheTables.SCRATCH)
    store_i16_be(key, 1)
    store_i16_be(key + 2, group_bytes)
    copy(key + 4, group, group_bytes)
    at = 4 + group_bytes
    if topic_bytes < 0:
        copy(key + at, topic, 16)
        return at + 16
    store_i16_be(key + at, topic_bytes)
    copy(key + at + 2, topic, topic_bytes)
    return at + 2 + topic_bytes


@kernel("void(int64, int64)")
def enter_decision(cache: int, number: int) -> None:
    """Index a decision whose other words are set; it is valid from now on."""
    row = get(cache, CacheTables.DECISIONS) + number * CachedDecision.STRIDE
    prefix, length = get(row, CachedDecision.PREFIX), get(row, CachedDecision.PREFIX_BYTES)
    value = _hash(cache, prefix, length, get(row, CachedDecision.KIND))
    put(row, CachedDecision.HASH, value)
    put(row, CachedDecision.LIVE, 1)
    enter(get(cache, CacheTables.DECISION_INDEX), get(cache, CacheTables.DECISION_MASK), value, number)


@kernel("void(int64, int64)")
def enter_row(cache: int, number: int) -> None:
    """Index a row whose key and topic id are set, by both; it is live from now on."""
    row = get(cache, CacheTables.ROWS) + number * Committed.STRIDE
    key_bytes = get(row, Committed.KEY_BYTES)
    key = row + 8 * Committed.KEY
    value = _hash(cache, key, key_bytes, 0)
    put(row, Committed.HASH, value)
    enter(get(cache, CacheTables.ROW_INDEX), get(cache, CacheTables.ROW_MASK), value, number)
    group_bytes = load_i16_be(key + 2)
    length = begin_key(cache, key + 4, group_bytes, row + 8 * Committed.TOPIC_ID, -1)
    store_i32_be(get(cache, CacheTables.SCRATCH) + length, load_i32_be(key + key_bytes - 4))
    value = _hash(cache, get(cache, CacheTables.SCRATCH), length + 4, 0)
    put(row, Committed.ID_HASH, value)
    enter(get(cache, CacheTables.ROW_INDEX), get(cache, CacheTables.ROW_MASK), value, number)
    put(row, Committed.LIVE, 1)


# --- the read of an OffsetCommit ------------------------------------------------------------------


@inlined
def _ascii(address: int, length: int) -> bool:
    """Whether the text is ASCII, which is UTF-8 for certain."""
    for at in range(length):  # noqa: SIM110  a kernel has no generators
        if load_u8(address + at) >= 0x80:
            return False
    return True


@inlined
def _prefix_end(version: int, position: int, end: int) -> int:
    """The position at which the topics of a request begin, -1 when it is too short."""
    compact = version >= CommitVersion.FLEXIBLE
    length, position = read_length(position, end, compact, False)
    if position < 0 or length < 0 or length + 4 > end - position:
        return -1
    position += length + 4
    length, position = read_length(position, end, compact, False)
    if position < 0 or length < 0 or length > end - position:
        return -1
    position += length
    if version >= CommitVersion.WITH_INSTANCE:
        length, position = read_length(position, end, compact, False)
        if position < 0 or length > end - position:
            return -1
        position += max(length, 0)
    if version <= CommitVersion.WITH_RETENTION:
        position += 8
    return position if position <= end else -1


@inlined
def _take_entry(cache: int, entry: int, key_length: int, version: int, position: int, end: int) -> int:
    """Read one partition of a request into an entry; the position after it, -1: left to Python."""
    compact = version >= CommitVersion.FLEXIBLE
    fixed = 16 if version >= CommitVersion.WITH_EPOCH else 12
    if end - position < fixed:
        return -1
    copy(get(cache, CacheTables.SCRATCH) + key_length, position, 4)
    put(entry, CommitEntry.OFFSET, load_i64_be(position + 4))
    put(
        entry,
        CommitEntry.LEADER_EPOCH,
        load_i32_be(position + 12) if version >= CommitVersion.WITH_EPOCH else -1,
    )
    length, position = read_length(position + fixed, end, compact, False)
    if position < 0 or length > end - position:
        return -1
    length = max(length, 0)
    if (
        length > CommitLimit.MAX_METADATA
        or length > get(cache, CacheTables.METADATA_LIMIT)
        or not _ascii(position, length)
    ):
        return -1
    put(entry, CommitEntry.METADATA, position)
    put(entry, CommitEntry.METADATA_BYTES, length)
    position += length
    if compact:
        position = skip_tags(position, end)
        if position < 0:
            return -1
    row = find_row(cache, key_length + 4, version >= CommitVersion.WITH_TOPIC_ID)
    put(entry, CommitEntry.ROW, row)
    return position if row >= 0 else -1


@inlined
def _take_partitions(
    cache: int, commit: int, key_length: int, version: int, count: int, position: int, end: int, out: int
) -> tuple[int, int]:
    """Read the partitions of a topic into entries and write their answers: (position after them,
    -1: left to Python; the answer's end)."""
    compact = version >= CommitVersion.FLEXIBLE
    first = get(commit, Commit.ENTRY)
    entries = get(commit, Commit.ENTRIES)
    bound = get(commit, Commit.BOUND)
    for _ in range(count):
        entry = get(cache, CacheTables.ENTRIES) + (first + entries) * CommitEntry.STRIDE
        index = position
        position = _take_entry(cache, entry, key_length, version, position, end)
        if position < 0:
            return -1, out
        copy(out, index, 4)
        store_i16_be(out + 4, 0)
        out += 6
        out = write_no_tags(out, compact)
        entries += 1
        row = get(cache, CacheTables.ROWS) + get(entry, CommitEntry.ROW) * Committed.STRIDE
        bound += (
            CommitLimit.RECORD_FIXED
            + get(row, Committed.KEY_BYTES)
            + CommitLimit.VALUE_FIXED
            + get(entry, CommitEntry.METADATA_BYTES)
        )
    put(commit, Commit.ENTRIES, entries)
    put(commit, Commit.BOUND, bound)
    return position, out


@inlined
def _take_topics(
    cache: int, commit: int, group: int, group_bytes: int, version: int, position: int, end: int
) -> int:
    """Read the topics of a request into entries and write its answer to ANSWER; the answer's end,
    -1: left to Python."""
    compact = version >= CommitVersion.FLEXIBLE
    topics, position = read_length(position, end, compact, True)
    if position < 0 or topics <= 0:
        return -1
    answer = get(commit, Commit.ANSWER) + 8
    out = write_answer_head(answer, compact, version >= CommitVersion.WITH_THROTTLE, topics)
    limit = get(cache, CacheTables.ANSWERS) + get(cache, CacheTables.ANSWER_ROOM)
    put(commit, Commit.ENTRIES, 0)
    put(commit, Commit.BOUND, 0)
    for _ in range(topics):
        topic_bytes = -1
        topic = position
        if version < CommitVersion.WITH_TOPIC_ID:
            topic_bytes, topic = read_length(position, end, compact, False)
            if topic < 0 or topic_bytes <= 0:
                return -1
        position = topic + (16 if topic_bytes < 0 else topic_bytes)
        if position > end or group_bytes + max(topic_bytes, 16) + 10 > Committed.KEY_ROOM:
            return -1
        key_length = begin_key(cache, group, group_bytes, topic, topic_bytes)
        partitions, position = read_length(position, end, compact, True)
        if position < 0 or partitions <= 0 or partitions > end - position:
            return -1
        if limit - out < 64 + Committed.KEY_ROOM + 8 * partitions:
            return -1
        entries = get(commit, Commit.ENTRY) + get(commit, Commit.ENTRIES) + partitions
        if entries > get(cache, CacheTables.ENTRY_ROOM):
            return -1
        if topic_bytes < 0:
            copy(out, topic, 16)
            out += 16
        else:
            out = write_string(out, topic, topic_bytes, compact)
        out = write_count(out, partitions, compact)
        position, out = _take_partitions(cache, commit, key_length, version, partitions, position, end, out)
        if position < 0:
            return -1
        out = write_no_tags(out, compact)
        if compact:
            position = skip_tags(position, end)
            if position < 0:
                return -1
    if compact and skip_tags(position, end) < 0:
        return -1
    return write_no_tags(out, compact)


@inlined
def read_commit(cache: int, commit: int, message: int) -> int:
    """Read one message of a block into a commit row; the number of its decision, -1: none."""
    frame, end = request_frame(message)
    if end - frame < 10 or load_i16_be(frame) != ApiKey.OFFSET_COMMIT:
        return -1
    version = load_i16_be(frame + 2)
    if version < CommitVersion.FIRST or version > CommitVersion.LAST:
        return -1
    compact = version >= CommitVersion.FLEXIBLE
    body = skip_request_header(frame, end, compact)
    if body < 0:
        return -1
    topics = _prefix_end(version, body, end)
    if topics < 0:
        return -1
    number = find_decision(cache, ApiKey.OFFSET_COMMIT << 8 | version, body, topics - body)
    if number < 0:
        return -1
    group_bytes, group = read_length(body, end, compact, False)
    answer = get(commit, Commit.ANSWER)
    out = _take_topics(cache, commit, group, group_bytes, version, topics, end)
    if out < 0:
        return -1
    store_i32_be(answer, out - answer - 4)
    copy(answer + 4, frame + 4, 4)
    put(commit, Commit.ANSWER_BYTES, out - answer)
    return number


@kernel("int64(int64, int64, int64)")
def prefix_bytes(version: int, body: int, length: int) -> int:
    """Bytes of a request's body before its topics: the key of a decision; -1 when it is too
    short."""
    end = _prefix_end(version, body, body + length)
    return end - body if end >= 0 else -1
