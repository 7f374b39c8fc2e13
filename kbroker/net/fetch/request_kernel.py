"""A Fetch request, v4 to v18: read it into the plan, with the entries of its session."""

from kbroker.kernels.jit import inlined
from kbroker.kernels.memory import load_i8, load_i16_be, load_i32_be, load_i64, load_i64_be
from kbroker.kernels.rows import get, put
from kbroker.kernels.wire import read_length, skip_request_header, skip_tags
from kbroker.net.rows.fetch_layout import (
    CX_PLAN,
    CX_PLAN_CAPACITY,
    CX_PLAN_COMMITTED,
    CX_PLAN_COUNT,
    CX_PLAN_MAX_BYTES,
    CX_PLAN_MAX_WAIT,
    CX_PLAN_MIN_BYTES,
    CX_PLAN_SESSION,
    CX_TOPICS_VERSION,
    ENTRY_WORDS,
    PL_ENTRY,
    PL_EPOCH,
    PL_GENERATION,
    PL_INDEX,
    PL_LAST_EPOCH,
    PL_MAX_BYTES,
    PL_OFFSET,
    PL_SLOT,
    PL_TOPIC,
    PLAN_WORDS,
    READY,
    SE_EPOCH,
    SE_INDEX,
    SE_LAST_EPOCH,
    SE_MAX_BYTES,
    SE_OFFSET,
    SE_TOPIC,
    SESSION_WORDS,
    SS_COUNT,
    SS_ENTRIES,
    SS_EPOCH,
    SS_ID,
    SS_ORDER,
    SS_TOPICS_VERSION,
    SS_USES_IDS,
    TO_PYTHON,
)
from kbroker.net.rows.layout import (
    CX_FETCH_MAX_BYTES,
    CX_PARTITIONS,
    CX_SESSION_MASK,
    CX_SESSIONS,
    CX_TOPICS,
    PARTITION_WORDS,
    PT_GENERATION,
    PT_SLOT,
    TOPIC_WORDS,
    TP_COUNT,
    TP_PARTITIONS,
)
from kbroker.net.rows.topic_kernel import topic_by_id, topic_by_name

FLEXIBLE = 12  # first versions of fields
SESSIONS = 7
LOG_START = 5
LEADER_EPOCH = 9
LAST_FETCHED_EPOCH = 12
TOPIC_IDS = 13
REPLICA_TAG = 15  # from here on the replica id is a tagged field
NO_SESSION_EPOCH = -1
READ_COMMITTED = 1  # isolation level


@inlined
def plan_row(cx: int, number: int) -> int:
    """Address of a plan row."""
    return get(cx, CX_PLAN) + number * PLAN_WORDS * 8


@inlined
def _resolve(cx: int, row: int, topic: int, index: int) -> bool:
    """Fill in slot and generation of a partition; False when there is no such partition."""
    if index < 0 or index >= get(topic, TP_COUNT):
        return False
    partition = get(cx, CX_PARTITIONS) + (get(topic, TP_PARTITIONS) + index) * PARTITION_WORDS * 8
    put(row, PL_TOPIC, topic)
    put(row, PL_INDEX, index)
    put(row, PL_SLOT, get(partition, PT_SLOT))
    put(row, PL_GENERATION, get(partition, PT_GENERATION))
    return True


@inlined
def _plan_session(cx: int, number: int, epoch: int, version: int) -> int:
    """Plan every entry of a session; TO_PYTHON unless all is as the client believes."""
    session = get(cx, CX_SESSIONS) + (number & get(cx, CX_SESSION_MASK)) * SESSION_WORDS * 8
    if number <= 0 or get(session, SS_ID) != number or get(session, SS_EPOCH) != epoch:
        return TO_PYTHON
    if get(session, SS_USES_IDS) != (1 if version >= TOPIC_IDS else 0):
        return TO_PYTHON
    if get(session, SS_TOPICS_VERSION) != get(cx, CX_TOPICS_VERSION):
        return TO_PYTHON
    count = get(session, SS_COUNT)
    for at in range(count):
        entry = get(session, SS_ENTRIES) + load_i64(get(session, SS_ORDER) + 8 * at) * ENTRY_WORDS * 8
        row = plan_row(cx, at)
        topic = get(cx, CX_TOPICS) + get(entry, SE_TOPIC) * TOPIC_WORDS * 8
        if not _resolve(cx, row, topic, get(entry, SE_INDEX)):
            return TO_PYTHON
        put(row, PL_OFFSET, get(entry, SE_OFFSET))
        put(row, PL_MAX_BYTES, get(entry, SE_MAX_BYTES))
        put(row, PL_EPOCH, get(entry, SE_EPOCH))
        put(row, PL_LAST_EPOCH, get(entry, SE_LAST_EPOCH))
        put(row, PL_ENTRY, entry)
    put(cx, CX_PLAN_SESSION, session)
    put(cx, CX_PLAN_COUNT, count)
    return READY


@inlined
def _planned(cx: int, topic: int, index: int, start: int) -> int:
    """Number of the plan row of a partition, looked for from ``start`` on and around; -1 when there is none."""
    count = get(cx, CX_PLAN_COUNT)
    at = start
    for _ in range(count):
        if at >= count:
            at = 0
        row = plan_row(cx, at)
        if get(row, PL_INDEX) == index and get(row, PL_TOPIC) == topic:
            return at
        at += 1
    return -1


@inlined
def _partition_bytes(version: int) -> int:
    """Bytes of one partition's fixed fields."""
    size = 16
    if version >= LOG_START:
        size += 8
    if version >= LEADER_EPOCH:
        size += 4
    if version >= LAST_FETCHED_EPOCH:
        size += 4
    return size


@inlined
def _read_partition(row: int, position: int, version: int) -> None:
    """Take a partition's fields; its index has been read."""
    position += 4
    put(row, PL_EPOCH, -1)
    put(row, PL_LAST_EPOCH, -1)
    if version >= LEADER_EPOCH:
        put(row, PL_EPOCH, load_i32_be(position))
        position += 4
    put(row, PL_OFFSET, load_i64_be(position))
    position += 8
    if version >= LAST_FETCHED_EPOCH:
        put(row, PL_LAST_EPOCH, load_i32_be(position))
        position += 4
    if version >= LOG_START:
        position += 8
    put(row, PL_MAX_BYTES, load_i32_be(position))


@inlined
def _plan_topics(cx: int, position: int, end: int, version: int, in_session: bool) -> int:
    """Plan what the request names; the position behind it, -1 when Python must see to it."""
    compact = version >= FLEXIBLE
    size = _partition_bytes(version)
    topics, position = read_length(position, end, compact, True)
    if position < 0 or topics < 0 or topics > end - position:
        return -1
    at = 0
    for _ in range(topics):
        if version >= TOPIC_IDS:
            if end - position < 16:
                return -1
            topic = topic_by_id(cx, position)
            position += 16
        else:
            length, position = read_length(position, end, compact, False)
            if position < 0 or length < 0 or length > end - position:
                return -1
            topic = topic_by_name(cx, position, length)
            position += length
        partitions, position = read_length(position, end, compact, True)
        if topic == 0 or position < 0 or partitions < 0:
            return -1
        for _ in range(partitions):
            if end - position < size:
                return -1
            index = load_i32_be(position)
            if in_session:
                at = _planned(cx, topic, index, at)
                if at < 0:
                    return -1
            else:
                at = get(cx, CX_PLAN_COUNT)
                if at >= get(cx, CX_PLAN_CAPACITY) or not _resolve(cx, plan_row(cx, at), topic, index):
                    return -1
                put(plan_row(cx, at), PL_ENTRY, 0)
                put(cx, CX_PLAN_COUNT, at + 1)
            _read_partition(plan_row(cx, at), position, version)
            at += 1
            position += size
            if compact:
                position = skip_tags(position, end)
                if position < 0:
                    return -1
        if compact:
            position = skip_tags(position, end)
            if position < 0:
                return -1
    return position


@inlined
def plan_request(cx: int, frame: int, length: int) -> int:
    """Read a request (address of its header) into the plan: READY, or TO_PYTHON for what is not common."""
    version = load_i16_be(frame + 2)
    end = frame + length
    compact = version >= FLEXIBLE
    position = skip_request_header(frame, end, compact)
    put(cx, CX_PLAN_COUNT, 0)
    put(cx, CX_PLAN_SESSION, 0)
    if position < 0 or end - position < 25:
        return TO_PYTHON
    if version < REPLICA_TAG:
        if load_i32_be(position) >= 0:
            return TO_PYTHON
        position += 4
    most = min(load_i32_be(position + 8), get(cx, CX_FETCH_MAX_BYTES))
    put(cx, CX_PLAN_MAX_WAIT, load_i32_be(position))
    put(cx, CX_PLAN_MIN_BYTES, min(load_i32_be(position + 4), most))
    put(cx, CX_PLAN_MAX_BYTES, most)
    isolation = load_i8(position + 12)
    if isolation != 0 and isolation != READ_COMMITTED:
        return TO_PYTHON
    put(cx, CX_PLAN_COMMITTED, 1 if isolation == READ_COMMITTED else 0)
    position += 13
    in_session = False
    if version >= SESSIONS:
        number = load_i32_be(position)
        epoch = load_i32_be(position + 4)
        position += 8
        if number != 0 or epoch != NO_SESSION_EPOCH:
            in_session = True
            if epoch <= 0 or _plan_session(cx, number, epoch, version) != READY:
                return TO_PYTHON
    position = _plan_topics(cx, position, end, version, in_session)
    if position < 0:
        return TO_PYTHON
    if version >= SESSIONS:
        forgotten, position = read_length(position, end, compact, True)
        if position < 0 or forgotten > 0:
            return TO_PYTHON
    return READY if get(cx, CX_PLAN_COUNT) > 0 else TO_PYTHON
