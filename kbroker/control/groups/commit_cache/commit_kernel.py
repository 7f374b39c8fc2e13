"""OffsetCommits and heartbeats with a cached decision: a block of requests becomes record batches
and encoded answers.

Runs in: control, called by `cache.py`. A request without a cached decision or without rows for its
offsets, or an unusual request, keeps its call in the block and is left to Python.
"""

from kbroker.control.groups.commit_cache.layout import (
    CachedDecision,
    CacheTables,
    Commit,
    CommitBatch,
    CommitEntry,
    CommitLimit,
    Committed,
    HeartbeatVersion,
)
from kbroker.control.groups.commit_cache.request_kernel import find_decision, read_commit
from kbroker.ipc.block_kernel import is_from, request_frame, write_answer
from kbroker.ipc.layout import MessageHead
from kbroker.kernels.codes import ApiKey
from kbroker.kernels.crc32c import crc32c_at
from kbroker.kernels.jit import inlined, kernel
from kbroker.kernels.libc import CLOCK_MONOTONIC, CLOCK_REALTIME, clock_ns
from kbroker.kernels.memory import (
    copy,
    load_i16_be,
    load_i64,
    store_i16_be,
    store_i32_be,
    store_i64,
    store_i64_be,
    store_u8,
)
from kbroker.kernels.rows import get, put
from kbroker.kernels.wire import skip_request_header, write_uvarint
from kbroker.protocol import batch_layout as rb


@inlined
def _chain(cache: int, number: int, partition: int) -> None:
    """Append a commit to the list of its offsets partition."""
    head = get(cache, CacheTables.HEADS) + partition * 16
    put(get(cache, CacheTables.COMMITS) + number * Commit.STRIDE, Commit.NEXT, -1)
    if load_i64(head) < 0:
        store_i64(head, number)
    else:
        put(get(cache, CacheTables.COMMITS) + load_i64(head + 8) * Commit.STRIDE, Commit.NEXT, number)
    store_i64(head + 8, number)


@inlined
def _touch(cache: int, number: int) -> None:
    row = get(cache, CacheTables.DECISIONS) + number * CachedDecision.STRIDE
    if get(row, CachedDecision.TOUCHED_MS) == 0:
        count = get(cache, CacheTables.TOUCHED_COUNT)
        store_i64(get(cache, CacheTables.TOUCHED) + 8 * count, number)
        put(cache, CacheTables.TOUCHED_COUNT, count + 1)
    put(row, CachedDecision.TOUCHED_MS, get(cache, CacheTables.NOW_MONOTONIC))


@inlined
def _varint_bytes(value: int) -> int:
    """Bytes of a number >= 0 as a zigzag varint."""
    value <<= 1
    size = 1
    while value >= 0x80:
        value >>= 7
        size += 1
    return size


@inlined
def _write_record(cache: int, entry: int, batch: int, out: int, delta: int) -> int:
    """Write the record of an entry; the position after it."""
    row = get(cache, CacheTables.ROWS) + get(entry, CommitEntry.ROW) * Committed.STRIDE
    key_bytes = get(row, Committed.KEY_BYTES)
    metadata = get(entry, CommitEntry.METADATA_BYTES)
    topic_id = get(row, Committed.TOPIC_ID) != 0 or get(row, Committed.TOPIC_ID + 1) != 0
    value_bytes = 23 + metadata + (19 if topic_id else 1)
    body = 2 + _varint_bytes(delta) + _varint_bytes(key_bytes) + key_bytes + _varint_bytes(value_bytes)
    out = write_uvarint(out, (body + value_bytes + 1) << 1)
    store_u8(out, 0)  # attributes
    store_u8(out + 1, 0)  # timestamp delta
    out = write_uvarint(out + 2, delta << 1)
    out = write_uvarint(out, key_bytes << 1)
    copy(out, row + 8 * Committed.KEY, key_bytes)
    out = write_uvarint(out + key_bytes, value_bytes << 1)
    put(entry, CommitEntry.VALUE, out - batch)
    put(entry, CommitEntry.VALUE_BYTES, value_bytes)
    store_i16_be(out, 4)
    store_i64_be(out + 2, get(entry, CommitEntry.OFFSET))
    store_i32_be(out + 10, get(entry, CommitEntry.LEADER_EPOCH))
    store_u8(out + 14, metadata + 1)
    copy(out + 15, get(entry, CommitEntry.METADATA), metadata)
    out += 15 + metadata
    store_i64_be(out, get(cache, CacheTables.NOW))
    out += 8
    if topic_id:
        store_u8(out, 1)  # one tag: number 0, 16 bytes
        store_u8(out + 1, 0)
        store_u8(out + 2, 16)
        copy(out + 3, row + 8 * Committed.TOPIC_ID, 16)
        out += 19
    else:
        store_u8(out, 0)
        out += 1
    store_u8(out, 0)  # headers
    return out + 1


@inlined
def _write_batch_header(cache: int, batch: int, size: int, records: int) -> None:
    """Write the header of a batch."""
    store_i64_be(batch + rb.BASE_OFFSET, 0)
    store_i32_be(batch + rb.LENGTH, size - rb.LENGTH_OVERHEAD)
    store_i32_be(batch + rb.PARTITION_LEADER_EPOCH, -1)
    store_u8(batch + rb.MAGIC, rb.MAGIC_V2)
    store_i16_be(batch + rb.ATTRIBUTES, 0)
    store_i32_be(batch + rb.LAST_OFFSET_DELTA, records - 1)
    store_i64_be(batch + rb.BASE_TIMESTAMP, get(cache, CacheTables.NOW))
    store_i64_be(batch + rb.MAX_TIMESTAMP, get(cache, CacheTables.NOW))
    store_i64_be(batch + rb.PRODUCER_ID, -1)
    store_i16_be(batch + rb.PRODUCER_EPOCH, -1)
    store_i32_be(batch + rb.BASE_SEQUENCE, -1)
    store_i32_be(batch + rb.RECORD_COUNT, records)
    store_i32_be(batch + rb.CRC, crc32c_at(batch + rb.ATTRIBUTES, size - rb.ATTRIBUTES))


@inlined
def _is_for_sender(row: int, message: int) -> bool:
    """Whether a cached decision is for the sender of a message."""
    peer_bytes = get(row, CachedDecision.PEER_BYTES)
    return peer_bytes == 0 or is_from(message, get(row, CachedDecision.PEER), peer_bytes)


@inlined
def _answer_heartbeat(cache: int, message: int) -> None:
    """Answer a heartbeat with its cached decision; no record is written."""
    frame, end = request_frame(message)
    if end - frame < 10:
        return
    api = load_i16_be(frame)
    version = load_i16_be(frame + 2)
    if version < 0:
        return
    if api == ApiKey.HEARTBEAT and version <= HeartbeatVersion.LAST:
        start = skip_request_header(frame, end, version >= HeartbeatVersion.FLEXIBLE)
    elif api == ApiKey.CONSUMER_GROUP_HEARTBEAT and version <= HeartbeatVersion.LAST_CONSUMER:
        start = frame + CommitLimit.CLIENT_ID_AT
    else:
        return
    if start < 0:
        return
    number = find_decision(cache, api << 8 | version, start, end - start)
    if number < 0:
        return
    row = get(cache, CacheTables.DECISIONS) + number * CachedDecision.STRIDE
    if not _is_for_sender(row, message):
        return
    size = 8 + get(row, CachedDecision.ANSWER_BYTES)
    used = get(cache, CacheTables.HEARTBEAT_BYTES)
    if used + MessageHead.SIZE + size + 8 > get(cache, CacheTables.HEARTBEAT_ROOM):
        return
    answer = get(cache, CacheTables.SCRATCH)
    store_i32_be(answer, size - 4)
    copy(answer + 4, frame + 4, 4)
    copy(answer + 8, get(row, CachedDecision.ANSWER), get(row, CachedDecision.ANSWER_BYTES))
    out = get(cache, CacheTables.HEARTBEAT_ANSWERS) + used
    put(
        cache,
        CacheTables.HEARTBEAT_BYTES,
        used + write_answer(out, load_i64(message + MessageHead.CALL), answer, size) - out,
    )
    counter = CacheTables.HEARTBEATS if api == ApiKey.HEARTBEAT else CacheTables.CONSUMER_HEARTBEATS
    put(cache, counter, get(cache, counter) + 1)
    store_i64(message + MessageHead.CALL, 0)
    _touch(cache, number)


@inlined
def _write_batch(
    cache: int, block: int, partition: int, number: int, batches: int, records: int, ready: int
) -> int:
    """Write one batch and its answers from commit ``number`` on; the commit that found no room in
    it, -1: none."""
    row = get(cache, CacheTables.BATCHES) + batches * CommitBatch.STRIDE
    batch = get(cache, CacheTables.RECORDS) + records
    out = batch + rb.RECORDS
    answer = get(cache, CacheTables.READY) + ready
    put(row, CommitBatch.PARTITION, partition)
    put(row, CommitBatch.BYTES_AT, records)
    put(row, CommitBatch.ANSWERS_AT, ready)
    put(row, CommitBatch.COMMIT, number)
    count = 0
    delta = 0
    while number >= 0:
        commit = get(cache, CacheTables.COMMITS) + number * Commit.STRIDE
        if count > 0 and out - batch + get(commit, Commit.BOUND) > get(cache, CacheTables.MAX_BATCH):
            break
        for each in range(get(commit, Commit.ENTRY), get(commit, Commit.ENTRY) + get(commit, Commit.ENTRIES)):
            out = _write_record(
                cache, get(cache, CacheTables.ENTRIES) + each * CommitEntry.STRIDE, batch, out, delta
            )
            delta += 1
        message = block + get(commit, Commit.MESSAGE)
        call = load_i64(message + MessageHead.CALL)
        answer = write_answer(answer, call, get(commit, Commit.ANSWER), get(commit, Commit.ANSWER_BYTES))
        store_i64(message + MessageHead.CALL, 0)  # served
        count += 1
        number = get(commit, Commit.NEXT)
    _write_batch_header(cache, batch, out - batch, delta)
    put(row, CommitBatch.BYTES, out - batch)
    put(row, CommitBatch.ANSWERS_BYTES, answer - get(cache, CacheTables.READY) - ready)
    put(row, CommitBatch.COMMITS, count)
    put(row, CommitBatch.ENTRIES, delta)
    return number


@inlined
def _write_batches(cache: int, block: int) -> int:
    """Write the chained commits of every offsets partition; returns the number of batches."""
    batches = 0
    records = 0
    ready = 0
    for partition in range(get(cache, CacheTables.TOPIC_COUNT)):
        head = get(cache, CacheTables.HEADS) + partition * 16
        number = load_i64(head)
        store_i64(head, -1)
        while number >= 0:
            number = _write_batch(cache, block, partition, number, batches, records, ready)
            row = get(cache, CacheTables.BATCHES) + batches * CommitBatch.STRIDE
            records += get(row, CommitBatch.BYTES)
            ready += get(row, CommitBatch.ANSWERS_BYTES)
            batches += 1
    return batches


@inlined
def _begin_block(cache: int) -> None:
    """The time of a block, and nothing served of it."""
    clock = get(cache, CacheTables.SCRATCH)
    put(cache, CacheTables.NOW, clock_ns(CLOCK_REALTIME, clock) // 1_000_000)
    put(cache, CacheTables.NOW_MONOTONIC, clock_ns(CLOCK_MONOTONIC, clock) // 1_000_000)
    put(cache, CacheTables.HEARTBEAT_BYTES, 0)
    put(cache, CacheTables.HEARTBEATS, 0)
    put(cache, CacheTables.CONSUMER_HEARTBEATS, 0)


@inlined
def _count_left(cache: int, requests: int, commits: int) -> None:
    """Count those of these requests that are left to Python."""
    heartbeats = get(cache, CacheTables.HEARTBEATS) + get(cache, CacheTables.CONSUMER_HEARTBEATS)
    put(cache, CacheTables.LEFT, requests - commits - heartbeats)


@kernel("int64(int64, int64, int64)")
def take_commits(cache: int, block: int, length: int) -> int:
    """Serve the requests of a block that have a cached decision; the number of batches to write. A
    request that is served loses its call. If a table is full, the rest counts as one that is
    left."""
    _begin_block(cache)
    position = 0
    requests = 0
    commits = 0
    entries = 0
    answered = 0
    bound = 0
    while position < length and commits < get(cache, CacheTables.COMMIT_ROOM):
        message = block + position
        commit = get(cache, CacheTables.COMMITS) + commits * Commit.STRIDE
        put(commit, Commit.ENTRY, entries)
        put(commit, Commit.MESSAGE, position)
        put(commit, Commit.ANSWER, get(cache, CacheTables.ANSWERS) + answered)
        if get(cache, CacheTables.ANSWER_ROOM) - answered < 256:
            break
        _answer_heartbeat(cache, message)
        number = read_commit(cache, commit, message)
        if number >= 0 and not _is_for_sender(
            get(cache, CacheTables.DECISIONS) + number * CachedDecision.STRIDE, message
        ):
            number = -1
        if number >= 0 and get(commit, Commit.BOUND) + rb.RECORDS <= get(cache, CacheTables.MAX_BATCH):
            if bound + get(commit, Commit.BOUND) + rb.RECORDS > get(cache, CacheTables.RECORD_ROOM):
                break
            bound += get(commit, Commit.BOUND) + rb.RECORDS
            row = get(cache, CacheTables.DECISIONS) + number * CachedDecision.STRIDE
            group = get(row, CachedDecision.GROUP)
            put(commit, Commit.GROUP, group)
            counter = get(cache, CacheTables.IN_FLIGHT) + 8 * group
            store_i64(counter, load_i64(counter) + 1)
            _touch(cache, number)
            _chain(cache, commits, get(row, CachedDecision.PARTITION))
            entries += get(commit, Commit.ENTRIES)
            answered += get(commit, Commit.ANSWER_BYTES)
            commits += 1
        position += load_i64(message)
        requests += 1
    _count_left(cache, requests + (1 if position < length else 0), commits)
    return _write_batches(cache, block) if commits else 0


@kernel("int64(int64, int64, int64, int64)")
def list_batch(cache: int, batch: int, out: int, groups: int) -> int:
    """List the entries of a batch that is in the log; returns their number.

    out: takes (row, value position, value bytes) of each entry. groups: takes (group, message
    position) of each commit.
    """
    row = get(cache, CacheTables.BATCHES) + batch * CommitBatch.STRIDE
    number = get(row, CommitBatch.COMMIT)
    listed = 0
    for each in range(get(row, CommitBatch.COMMITS)):
        commit = get(cache, CacheTables.COMMITS) + number * Commit.STRIDE
        store_i64(groups + 16 * each, get(commit, Commit.GROUP))
        store_i64(groups + 16 * each + 8, get(commit, Commit.MESSAGE))
        for at in range(get(commit, Commit.ENTRY), get(commit, Commit.ENTRY) + get(commit, Commit.ENTRIES)):
            entry = get(cache, CacheTables.ENTRIES) + at * CommitEntry.STRIDE
            store_i64(out + 24 * listed, get(entry, CommitEntry.ROW))
            store_i64(out + 24 * listed + 8, get(entry, CommitEntry.VALUE))
            store_i64(out + 24 * listed + 16, get(entry, CommitEntry.VALUE_BYTES))
            listed += 1
        number = get(commit, Commit.NEXT)
    return listed


@kernel("int64(int64, int64, int64, int64)")
def apply_entries(cache: int, entries: int, count: int, batch: int) -> int:
    """A batch is in the log: its offsets are the rows' values. Returns how many rows were gone
    meanwhile."""
    gone = 0
    for at in range(count):
        entry = entries + 24 * at
        row = get(cache, CacheTables.ROWS) + load_i64(entry) * Committed.STRIDE
        if get(row, Committed.LIVE) == 0:
            gone += 1
            continue
        sequence = load_i64(get(cache, CacheTables.SEQUENCE)) + 1
        store_i64(get(cache, CacheTables.SEQUENCE), sequence)
        put(row, Committed.SEQUENCE, sequence)
        put(row, Committed.VALUE_BYTES, load_i64(entry + 16))
        copy(row + 8 * Committed.VALUE, batch + load_i64(entry + 8), load_i64(entry + 16))
    return gone


@kernel("void(int64, int64, int64, boolean)")
def end_commits(cache: int, groups: int, count: int, written: bool) -> None:
    """Commits of these groups have ended. written: they are in the log, so cached answers with
    offsets of the groups are outdated."""
    for at in range(count):
        group = load_i64(groups + 16 * at)
        counter = get(cache, CacheTables.IN_FLIGHT) + 8 * group
        store_i64(counter, load_i64(counter) - 1)
        if written:
            number = load_i64(get(cache, CacheTables.GROUP_VERSIONS) + 8 * group)
            version = get(cache, CacheTables.VERSIONS) + 8 * number
            store_i64(version, load_i64(version) + 1)
