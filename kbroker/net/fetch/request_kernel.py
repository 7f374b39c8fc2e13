"""Reads a Fetch request, v4 to v18, into the plan, together with the entries of its session, which
it updates when the answer is built."""

from kbroker.kernels.jit import inlined
from kbroker.kernels.memory import (
    INT32_MAX,
    load_i8,
    load_i16_be,
    load_i32_be,
    load_i64,
    load_i64_be,
    store_i64,
)
from kbroker.kernels.rows import get, put
from kbroker.kernels.wire import read_length, read_uvarint, skip_request_header, skip_tags
from kbroker.net.rows import (
    Connection,
    Context,
    FetchVersion,
    Isolation,
    May,
    Outcome,
    Partition,
    Plan,
    Session,
    SessionEntry,
    Topic,
)
from kbroker.net.rows.topic_kernel import may_use, topic_by_id, topic_by_name

NO_SESSION_EPOCH = -1


@inlined
def plan_row(cx: int, number: int) -> int:
    """Address of a plan row."""
    return get(cx, Context.PLAN) + number * Plan.STRIDE


@inlined
def _resolve(cx: int, number: int, topic: int, index: int) -> bool:
    """Fill in slot and generation of a partition in a plan row; False when there is no such
    partition."""
    if index < 0 or index >= get(topic, Topic.COUNT):
        return False
    partition = get(cx, Context.PARTITIONS) + (get(topic, Topic.PARTITIONS) + index) * Partition.STRIDE
    put(partition, Partition.PLANNED, number)
    row = plan_row(cx, number)
    put(row, Plan.TOPIC, topic)
    put(row, Plan.INDEX, index)
    put(row, Plan.SLOT, get(partition, Partition.SLOT))
    put(row, Plan.GENERATION, get(partition, Partition.GENERATION))
    return True


@inlined
def _plan_session(cx: int, number: int, epoch: int, version: int) -> int:
    """Plan every entry of a session; TO_PYTHON if the session differs from the request."""
    session = get(cx, Context.SESSIONS) + (number & get(cx, Context.SESSION_MASK)) * Session.STRIDE
    if number <= 0 or get(session, Session.ID) != number or get(session, Session.EPOCH) != epoch:
        return Outcome.TO_PYTHON
    if get(session, Session.USES_IDS) != (1 if version >= FetchVersion.TOPIC_IDS else 0):
        return Outcome.TO_PYTHON
    if get(session, Session.TOPICS_VERSION) != get(cx, Context.TOPICS_VERSION):
        return Outcome.TO_PYTHON
    count = get(session, Session.COUNT)
    for at in range(count):
        entry = (
            get(session, Session.ENTRIES)
            + load_i64(get(session, Session.ORDER) + 8 * at) * SessionEntry.STRIDE
        )
        row = plan_row(cx, at)
        topic = get(cx, Context.TOPICS) + get(entry, SessionEntry.TOPIC) * Topic.STRIDE
        if not _resolve(cx, at, topic, get(entry, SessionEntry.INDEX)):
            return Outcome.TO_PYTHON
        put(row, Plan.OFFSET, get(entry, SessionEntry.OFFSET))
        put(row, Plan.MAX_BYTES, get(entry, SessionEntry.MAX_BYTES))
        put(row, Plan.CURRENT_LEADER_EPOCH, get(entry, SessionEntry.CURRENT_LEADER_EPOCH))
        put(row, Plan.LAST_FETCHED_EPOCH, get(entry, SessionEntry.LAST_FETCHED_EPOCH))
        put(row, Plan.ENTRY, entry)
    put(cx, Context.PLAN_SESSION, session)
    put(cx, Context.PLAN_COUNT, count)
    return Outcome.READY


@inlined
def _planned(cx: int, topic: int, index: int) -> int:
    """Number of the plan row of a partition; -1 when there is none."""
    if index < 0 or index >= get(topic, Topic.COUNT):
        return -1
    partition = get(cx, Context.PARTITIONS) + (get(topic, Topic.PARTITIONS) + index) * Partition.STRIDE
    at = get(partition, Partition.PLANNED)  # perhaps of an earlier request
    if at < get(cx, Context.PLAN_COUNT):
        row = plan_row(cx, at)
        if get(row, Plan.INDEX) == index and get(row, Plan.TOPIC) == topic:
            return at
    return -1


@inlined
def _named(cx: int, topic: int, index: int) -> int:
    """Number of the plan row of a partition that the request names outside a session: of the names
    of one partition, the last counts, at the place of the first. -1 when Python must serve it."""
    at = _planned(cx, topic, index)
    if at >= 0:
        return at
    count = get(cx, Context.PLAN_COUNT)
    if count >= get(cx, Context.PLAN_CAPACITY) or not _resolve(cx, count, topic, index):
        return -1
    put(plan_row(cx, count), Plan.ENTRY, 0)
    put(cx, Context.PLAN_COUNT, count + 1)
    return count


@inlined
def _partition_bytes(version: int) -> int:
    """Bytes of one partition's fixed fields."""
    size = 16
    if version >= FetchVersion.LOG_START:
        size += 8
    if version >= FetchVersion.LEADER_EPOCH:
        size += 4
    if version >= FetchVersion.LAST_FETCHED_EPOCH:
        size += 4
    return size


@inlined
def _read_partition(row: int, position: int, version: int) -> None:
    """Take a partition's fields; its index has been read."""
    position += 4
    put(row, Plan.CURRENT_LEADER_EPOCH, -1)
    put(row, Plan.LAST_FETCHED_EPOCH, -1)
    if version >= FetchVersion.LEADER_EPOCH:
        put(row, Plan.CURRENT_LEADER_EPOCH, load_i32_be(position))
        position += 4
    put(row, Plan.OFFSET, load_i64_be(position))
    position += 8
    if version >= FetchVersion.LAST_FETCHED_EPOCH:
        put(row, Plan.LAST_FETCHED_EPOCH, load_i32_be(position))
        position += 4
    if version >= FetchVersion.LOG_START:
        position += 8
    put(row, Plan.MAX_BYTES, load_i32_be(position))


@inlined
def _plan_topics(cx: int, position: int, end: int, version: int, in_session: bool) -> int:
    """Plan the partitions of the request; returns the position after them, -1 when Python must
    serve it."""
    compact = version >= FetchVersion.FLEXIBLE
    size = _partition_bytes(version)
    topics, position = read_length(position, end, compact, True)
    if position < 0 or topics < 0 or topics > end - position:
        return -1
    for _ in range(topics):
        if version >= FetchVersion.TOPIC_IDS:
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
                at = _planned(cx, topic, index)
            else:
                at = _named(cx, topic, index)
            if at < 0:
                return -1
            _read_partition(plan_row(cx, at), position, version)
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
def _may_read(cx: int, client_row: int) -> bool:
    """Whether the plan has partitions, and the client may read all of them."""
    count = get(cx, Context.PLAN_COUNT)
    if get(client_row, Connection.ACCESS) != 0:
        for number in range(count):
            if not may_use(cx, client_row, get(plan_row(cx, number), Plan.TOPIC), May.READ):
                return False
    return count > 0


@inlined
def plan_request(cx: int, client_row: int, frame: int, length: int) -> int:
    """Read a request (address of its header) into the plan: READY, or TO_PYTHON for what is not
    common, or not allowed."""
    version, end = load_i16_be(frame + 2), frame + length
    compact = version >= FetchVersion.FLEXIBLE
    position = skip_request_header(frame, end, compact)
    put(cx, Context.PLAN_COUNT, 0)
    put(cx, Context.PLAN_SESSION, 0)
    if position < 0 or end - position < 25:
        return Outcome.TO_PYTHON
    if version < FetchVersion.REPLICA_TAG:
        if load_i32_be(position) >= 0:
            return Outcome.TO_PYTHON
        position += 4
    max_bytes = min(load_i32_be(position + 8), get(cx, Context.FETCH_MAX_BYTES))
    put(cx, Context.PLAN_MAX_WAIT, load_i32_be(position))
    put(cx, Context.PLAN_MIN_BYTES, min(load_i32_be(position + 4), max_bytes))
    put(cx, Context.PLAN_MAX_BYTES, max_bytes)
    isolation = load_i8(position + 12)
    if isolation != 0 and isolation != Isolation.READ_COMMITTED:
        return Outcome.TO_PYTHON
    put(cx, Context.PLAN_COMMITTED, isolation)
    position += 13
    in_session = False
    if version >= FetchVersion.SESSIONS:
        number = load_i32_be(position)
        epoch = load_i32_be(position + 4)
        position += 8
        if number != 0 or epoch != NO_SESSION_EPOCH:
            in_session = True
            if epoch <= 0 or _plan_session(cx, number, epoch, version) != Outcome.READY:
                return Outcome.TO_PYTHON
    position = _plan_topics(cx, position, end, version, in_session)
    if position < 0:
        return Outcome.TO_PYTHON
    if version >= FetchVersion.SESSIONS:
        forgotten, position = read_length(position, end, compact, True)
        if position < 0 or forgotten > 0:
            return Outcome.TO_PYTHON
    if version >= FetchVersion.PREFERRED_REPLICA:
        rack, position = read_length(position, end, compact, False)
        if position < 0 or rack < 0 or rack > end - position:
            return Outcome.TO_PYTHON
        position += rack
    if compact:
        tags, position = read_uvarint(position, end)
        if position < 0 or tags != 0:  # of a replica
            return Outcome.TO_PYTHON
    return Outcome.READY if _may_read(cx, client_row) else Outcome.TO_PYTHON


# --- after the answer is built --------------------------------------------------------------------


@inlined
def _update_order(cx: int, session: int) -> None:
    """Move the entries whose records are returned to the end of the reading order, which is the
    order of the plan."""
    order, entries = get(session, Session.ORDER), get(session, Session.ENTRIES)
    for returned in range(2):
        for number in range(get(cx, Context.PLAN_COUNT)):
            row = plan_row(cx, number)
            if (1 if get(row, Plan.LENGTH) > 0 else 0) == returned:
                store_i64(order, (get(row, Plan.ENTRY) - entries) // SessionEntry.STRIDE)
                order += 8


@inlined
def update_session(cx: int) -> None:
    """Note in the plan's session what was requested and what is returned."""
    session = get(cx, Context.PLAN_SESSION)
    for number in range(get(cx, Context.PLAN_COUNT)):
        row = plan_row(cx, number)
        entry = get(row, Plan.ENTRY)
        put(entry, SessionEntry.OFFSET, get(row, Plan.OFFSET))
        put(entry, SessionEntry.MAX_BYTES, get(row, Plan.MAX_BYTES))
        put(entry, SessionEntry.CURRENT_LEADER_EPOCH, get(row, Plan.CURRENT_LEADER_EPOCH))
        put(entry, SessionEntry.LAST_FETCHED_EPOCH, get(row, Plan.LAST_FETCHED_EPOCH))
        put(entry, SessionEntry.SENT_HIGH_WATERMARK, get(row, Plan.HIGH_WATERMARK))
        put(entry, SessionEntry.SENT_LOG_START, get(row, Plan.LOG_START))
    _update_order(cx, session)
    epoch = get(session, Session.EPOCH)
    put(session, Session.EPOCH, 1 if epoch == INT32_MAX else epoch + 1)
    put(session, Session.USED_NS, get(cx, Context.NOW_NS))
