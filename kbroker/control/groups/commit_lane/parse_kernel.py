"""Reads an OffsetCommit request of the usual shape, and prepares the answer that is sent once its
records are in the log."""

from kbroker.control.groups.commit_lane.find_kernel import begin_key, find_decision, find_row
from kbroker.control.groups.commit_lane.layout import (
    Commit,
    CommitEntry,
    CommitLimit,
    Committed,
    CommitVersion,
    Lane,
)
from kbroker.ipc.block_kernel import request_frame
from kbroker.kernels.codes import ApiKey
from kbroker.kernels.jit import inlined, kernel
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


@inlined
def _ascii(address: int, length: int) -> bool:
    """Whether the text is ASCII, which is UTF-8 for certain."""
    for at in range(length):  # noqa: SIM110  a kernel has no generators
        if load_u8(address + at) >= 0x80:
            return False
    return True


@inlined
def _prefix_end(version: int, position: int, end: int) -> int:
    """Where the topics of a request begin, -1 when it is too short."""
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
def _take_entry(cm: int, entry: int, key_length: int, version: int, position: int, end: int) -> int:
    """Read one partition of a request into an entry; the position after it, -1: left to Python."""
    compact = version >= CommitVersion.FLEXIBLE
    fixed = 16 if version >= CommitVersion.WITH_EPOCH else 12
    if end - position < fixed:
        return -1
    copy(get(cm, Lane.SCRATCH) + key_length, position, 4)
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
        or length > get(cm, Lane.METADATA_LIMIT)
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
    row = find_row(cm, key_length + 4, version >= CommitVersion.WITH_TOPIC_ID)
    put(entry, CommitEntry.ROW, row)
    return position if row >= 0 else -1


@inlined
def _take_partitions(
    cm: int, commit: int, key_length: int, version: int, count: int, position: int, end: int, out: int
) -> tuple[int, int]:
    """Read the partitions of a topic into entries and write their answers: (position after them,
    -1: left to Python; the answer's end)."""
    compact = version >= CommitVersion.FLEXIBLE
    first = get(commit, Commit.ENTRY)
    entries = get(commit, Commit.ENTRIES)
    bound = get(commit, Commit.BOUND)
    for _ in range(count):
        entry = get(cm, Lane.ENTRIES) + (first + entries) * CommitEntry.STRIDE
        index = position
        position = _take_entry(cm, entry, key_length, version, position, end)
        if position < 0:
            return -1, out
        copy(out, index, 4)
        store_i16_be(out + 4, 0)
        out += 6
        out = write_no_tags(out, compact)
        entries += 1
        row = get(cm, Lane.ROWS) + get(entry, CommitEntry.ROW) * Committed.STRIDE
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
    cm: int, commit: int, group: int, group_bytes: int, version: int, position: int, end: int
) -> int:
    """Read the topics of a request into entries and write its answer to ANSWER; the answer's end,
    -1: left to Python."""
    compact = version >= CommitVersion.FLEXIBLE
    topics, position = read_length(position, end, compact, True)
    if position < 0 or topics <= 0:
        return -1
    out = write_answer_head(
        get(commit, Commit.ANSWER) + 8, compact, version >= CommitVersion.WITH_THROTTLE, topics
    )
    limit = get(cm, Lane.ANSWERS) + get(cm, Lane.ANSWER_ROOM)
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
        key_length = begin_key(cm, group, group_bytes, topic, topic_bytes)
        partitions, position = read_length(position, end, compact, True)
        if position < 0 or partitions <= 0 or partitions > end - position:
            return -1
        if limit - out < 64 + Committed.KEY_ROOM + 8 * partitions:
            return -1
        if get(commit, Commit.ENTRY) + get(commit, Commit.ENTRIES) + partitions > get(cm, Lane.ENTRY_ROOM):
            return -1
        if topic_bytes < 0:
            copy(out, topic, 16)
            out += 16
        else:
            out = write_string(out, topic, topic_bytes, compact)
        out = write_count(out, partitions, compact)
        position, out = _take_partitions(cm, commit, key_length, version, partitions, position, end, out)
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
def take(cm: int, commit: int, message: int) -> int:
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
    number = find_decision(cm, ApiKey.OFFSET_COMMIT << 8 | version, body, topics - body)
    if number < 0:
        return -1
    group_bytes, group = read_length(body, end, compact, False)
    answer = get(commit, Commit.ANSWER)
    out = _take_topics(cm, commit, group, group_bytes, version, topics, end)
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
