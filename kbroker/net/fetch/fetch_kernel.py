"""Fetch in one compiled call: plan, select the partitions of the answer, build their headers around
file ranges, send. Uncommon requests go to Python unchanged.

What the socket does not take now, and answers with large file ranges, go into an outbox."""

from kbroker.ipc.layout import Counter
from kbroker.kernels.jit import inlined, kernel
from kbroker.kernels.libc import MSG_MORE, Epoll, pread
from kbroker.kernels.memory import (
    copy,
    load_i16_be,
    load_i32_be,
    store_i16_be,
    store_i32_be,
    store_i64,
    store_i64_be,
    store_u8,
)
from kbroker.kernels.rows import get, put
from kbroker.kernels.wire import write_count, write_no_tags, write_uvarint
from kbroker.net.fetch.outbox_kernel import fill_box, keep, send_on
from kbroker.net.fetch.read_kernel import plan_reads, remember, remember_end, segment_row
from kbroker.net.fetch.request_kernel import plan_request, plan_row, update_session
from kbroker.net.rows import (
    Connection,
    Context,
    Event,
    EventKind,
    FetchVersion,
    Flag,
    Outcome,
    Part,
    Plan,
    Segment,
    Session,
    SessionEntry,
    Topic,
)
from kbroker.net.rows.connection_kernel import (
    arm,
    connection_row,
    events_left,
    mark_closing,
    note_sent,
    push_event,
    send_part,
)
from kbroker.net.rows.count_kernel import count_fetch, fetch_built, fetch_sent, fetch_waits, monotonic_ns

HEADER_BOUND = 64
TOPIC_BOUND = 300
PARTITION_BOUND = 64


# --- selection of partitions ----------------------------------------------------------------------------------------


@inlined
def _select(cx: int) -> None:
    """Mark the partitions that the answer holds: in a session, those that have changed."""
    session = get(cx, Context.PLAN_SESSION)
    for number in range(get(cx, Context.PLAN_COUNT)):
        row = plan_row(cx, number)
        changed = 1
        if session != 0 and get(row, Plan.LENGTH) == 0:
            entry = get(row, Plan.ENTRY)
            same = get(entry, SessionEntry.SENT_HIGH_WATERMARK) == get(row, Plan.HIGH_WATERMARK)
            changed = 0 if same and get(entry, SessionEntry.SENT_LOG_START) == get(row, Plan.LOG_START) else 1
        put(row, Plan.SELECTED, changed)


@inlined
def _has_room(cx: int) -> bool:
    """Whether headers and small ranges fit into the scratch, and the parts into their table."""
    small = get(cx, Context.SENDFILE_MIN)
    size = HEADER_BOUND
    parts = 1
    for number in range(get(cx, Context.PLAN_COUNT)):
        row = plan_row(cx, number)
        if get(row, Plan.SELECTED) != 0:
            size += TOPIC_BOUND + PARTITION_BOUND
            if get(row, Plan.LENGTH) < small:
                size += get(row, Plan.LENGTH)
            else:
                parts += 2
    if parts > Part.ROWS or events_left(cx) < parts + 64:
        return False
    return size <= get(cx, Context.OUT_BYTES) - get(cx, Context.OUT_USED)


@inlined
def _partitions_of_topic(cx: int, number: int) -> int:
    """Selected partitions of one topic that follow each other, from plan row ``number`` on."""
    topic = get(plan_row(cx, number), Plan.TOPIC)
    count = 0
    for other in range(number, get(cx, Context.PLAN_COUNT)):
        row = plan_row(cx, other)
        if get(row, Plan.SELECTED) != 0:
            if get(row, Plan.TOPIC) != topic:
                break
            count += 1
    return count


@inlined
def _topics_in_answer(cx: int) -> int:
    """Topics of the answer: runs of selected partitions of one topic."""
    last = 0
    count = 0
    for number in range(get(cx, Context.PLAN_COUNT)):
        row = plan_row(cx, number)
        if get(row, Plan.SELECTED) != 0 and get(row, Plan.TOPIC) != last:
            last = get(row, Plan.TOPIC)
            count += 1
    return count


# --- building ------------------------------------------------------------------------------------------------------


@inlined
def _add_part(cx: int, segment: int, start: int, length: int, fd: int, slot: int) -> None:
    count = get(cx, Context.PART_COUNT)
    part = get(cx, Context.PARTS) + count * Part.STRIDE
    put(part, Part.SEGMENT, segment)
    put(part, Part.START, start)
    put(part, Part.LENGTH, length)
    put(part, Part.FD, fd)
    put(part, Part.SLOT, slot)
    put(cx, Context.PART_COUNT, count + 1)


@inlined
def _write_topic(out: int, topic: int, version: int) -> int:
    if version >= FetchVersion.TOPIC_IDS:
        store_i64(out, get(topic, Topic.ID_HIGH))
        store_i64(out + 8, get(topic, Topic.ID_LOW))
        return out + 16
    length = get(topic, Topic.NAME_LENGTH)
    if version >= FetchVersion.FLEXIBLE:
        out = write_uvarint(out, length + 1)
    else:
        store_i16_be(out, length)
        out += 2
    copy(out, get(topic, Topic.NAME), length)
    return out + length


@inlined
def _write_partition(out: int, row: int, version: int, committed: int) -> int:
    """Write all fields before the records. committed: 1 for read_committed: no transaction was
    aborted."""
    store_i32_be(out, get(row, Plan.INDEX))
    store_i16_be(out + 4, 0)
    store_i64_be(out + 6, get(row, Plan.HIGH_WATERMARK))
    store_i64_be(out + 14, get(row, Plan.LAST_STABLE))
    out += 22
    if version >= FetchVersion.LOG_START:
        store_i64_be(out, get(row, Plan.LOG_START))
        out += 8
    if version >= FetchVersion.FLEXIBLE:
        store_u8(out, committed)  # aborted transactions: null, or none
        out += 1
    else:
        store_i32_be(out, committed - 1)
        out += 4
    if version >= FetchVersion.PREFERRED_REPLICA:
        store_i32_be(out, -1)
        out += 4
    if version >= FetchVersion.FLEXIBLE:
        return write_uvarint(out, get(row, Plan.LENGTH) + 1)
    store_i32_be(out, get(row, Plan.LENGTH))
    return out + 4


@inlined
def _write_head(cx: int, start: int, correlation: int, version: int) -> int:
    """Write the answer up to its first topic, all but its size."""
    compact = version >= FetchVersion.FLEXIBLE
    session = get(cx, Context.PLAN_SESSION)
    store_i32_be(start + 4, correlation)
    out = start + 8
    out = write_no_tags(out, compact)
    store_i32_be(out, 0)
    out += 4
    if version >= FetchVersion.SESSIONS:
        store_i16_be(out, 0)
        store_i32_be(out + 2, get(session, Session.ID) if session != 0 else 0)
        out += 6
    return write_count(out, _topics_in_answer(cx), compact)


@inlined
def _build(cx: int, client_row: int, start: int, correlation: int, version: int) -> int:
    """Build the answer at an address. Large ranges become parts of their own. 0 when a file is
    shorter than expected."""
    compact = version >= FetchVersion.FLEXIBLE
    small = get(cx, Context.SENDFILE_MIN)
    put(cx, Context.PART_COUNT, 0)
    out = _write_head(cx, start, correlation, version)
    memory = start
    files = 0
    topic = 0
    for number in range(get(cx, Context.PLAN_COUNT)):
        row = plan_row(cx, number)
        if get(row, Plan.SELECTED) == 0:
            continue
        if get(row, Plan.TOPIC) != topic:
            if topic != 0:
                out = write_no_tags(out, compact)
            topic = get(row, Plan.TOPIC)
            out = _write_topic(out, topic, version)
            out = write_count(out, _partitions_of_topic(cx, number), compact)
        out = _write_partition(out, row, version, get(cx, Context.PLAN_COMMITTED))
        length = get(row, Plan.LENGTH)
        if length > 0:
            fd = get(segment_row(cx, get(row, Plan.SEGMENT)), Segment.LOG_FD)
            if length < small:
                if pread(fd, out, length, get(row, Plan.POSITION)) < length:
                    return 0
                remember_end(row, client_row, out, length)
                out += length
            else:
                if get(row, Plan.TO_END) != 0:
                    remember(row, client_row, get(row, Plan.END), get(row, Plan.POSITION) + length)
                _add_part(cx, -1, memory, out - memory, -1, -1)
                _add_part(
                    cx, get(row, Plan.SEGMENT), get(row, Plan.POSITION), length, fd, get(row, Plan.SLOT)
                )
                memory = out
                files += length
        out = write_no_tags(out, compact)
    if topic != 0:
        out = write_no_tags(out, compact)
    out = write_no_tags(out, compact)
    _add_part(cx, -1, memory, out - memory, -1, -1)
    store_i32_be(start, out - start + files - 4)
    return out


# --- sending -------------------------------------------------------------------------------------------------------


@inlined
def _leave_to_python(cx: int, connection: int, first: int, end: int) -> None:
    """Leave the parts from ``first`` on to Python. end: address after the scratch's memory
    parts."""
    put(cx, Context.OUT_USED, end - get(cx, Context.OUT))
    for number in range(first, get(cx, Context.PART_COUNT)):
        part = get(cx, Context.PARTS) + number * Part.STRIDE
        length = get(part, Part.LENGTH)
        if length > 0 and get(part, Part.SEGMENT) < 0:
            push_event(cx, EventKind.UNSENT, connection, get(part, Part.START), length)
        elif length > 0:
            put(get(cx, Context.EVENTS) + get(cx, Context.EVENT_COUNT) * Event.STRIDE, Event.C, length)
            push_event(cx, EventKind.UNSENT_FILE, connection, get(part, Part.FD), get(part, Part.START))


@inlined
def _send_parts(cx: int, connection: int, end: int, file_bytes: int) -> None:
    """Send every part, or have a sender do it. Unsent parts go to an outbox or to Python, in order.
    end: as for `_leave_to_python`; file_bytes: of all parts that are ranges of files."""
    row = connection_row(cx, connection)
    fd = get(row, Connection.FD)
    if file_bytes >= get(cx, Context.SENDER_MIN_BYTES):
        box = fill_box(cx, connection, fd, 0)
        if box != 0:
            keep(row, box)
            send_on(cx, connection, box)
            return
    count = get(cx, Context.PART_COUNT)
    total = 0
    for number in range(count):
        part = get(cx, Context.PARTS) + number * Part.STRIDE
        length = get(part, Part.LENGTH)
        start = get(part, Part.START)
        more = MSG_MORE if number + 1 < count else 0
        sent = 0
        while sent < length:
            now = send_part(
                fd, get(part, Part.FD), start + sent, length - sent, more, get(cx, Context.SCRATCH)
            )
            if now < 0:
                fetch_sent(cx, row)
                mark_closing(cx, connection, -now)
                return
            if now == 0:
                break
            sent += now
        total += sent
        if sent < length:
            put(part, Part.START, start + sent)
            put(part, Part.LENGTH, length - sent)
            box = fill_box(cx, connection, fd, number)
            if box != 0:
                keep(row, box)
                arm(cx, connection, Epoll.OUT)
            else:
                put(row, Connection.FLAGS, get(row, Connection.FLAGS) | Flag.OUT_BLOCKED)
                _leave_to_python(cx, connection, number, end)
            break
    note_sent(cx, row, total)
    if get(row, Connection.FLAGS) & Flag.SENDING == 0:
        fetch_sent(cx, row)


# --- serving -------------------------------------------------------------------------------------------------------


@inlined
def _count_sent(cx: int) -> tuple[int, int, int, int]:
    """Count what is sent of each partition. Returns sizes of the built answer: all bytes, bytes of
    records, bytes sent by sendfile, partitions."""
    answer = 0
    by_sendfile = 0
    for number in range(get(cx, Context.PART_COUNT)):
        part = get(cx, Context.PARTS) + number * Part.STRIDE
        answer += get(part, Part.LENGTH)
        if get(part, Part.SEGMENT) >= 0:
            by_sendfile += get(part, Part.LENGTH)
    records = 0
    partitions = 0
    for number in range(get(cx, Context.PLAN_COUNT)):
        row = plan_row(cx, number)
        if get(row, Plan.SELECTED) != 0:
            records += get(row, Plan.LENGTH)
            partitions += 1
            counter = get(cx, Context.COUNTERS) + get(row, Plan.SLOT) * Counter.STRIDE
            put(counter, Counter.FETCHES, get(counter, Counter.FETCHES) + 1)
            put(counter, Counter.BYTES_OUT, get(counter, Counter.BYTES_OUT) + get(row, Plan.LENGTH))
    return answer, records, by_sendfile, partitions


@inlined
def serve(cx: int, connection: int, frame: int, length: int, force: bool) -> int:
    """Answer a Fetch request (address of its header) if it is a common one: SERVED, WAITING or
    TO_PYTHON.

    force: the fetch has waited; answer with the bytes that exist. WAITING and TO_PYTHON leave
    everything unchanged that the answer depends on.
    """
    client_row = connection_row(cx, connection)
    began_ns = monotonic_ns(cx)
    if plan_request(cx, client_row, frame, length) != Outcome.READY:
        return Outcome.TO_PYTHON
    state = plan_reads(cx, client_row)
    if state == Outcome.WAITING and not force:
        fetch_waits(client_row, began_ns)
    if state == Outcome.TO_PYTHON or (state == Outcome.WAITING and not force):
        return state
    _select(cx)
    if not _has_room(cx):
        return Outcome.TO_PYTHON
    start = get(cx, Context.OUT) + get(cx, Context.OUT_USED)
    end = _build(cx, client_row, start, load_i32_be(frame + 4), load_i16_be(frame + 2))
    if end == 0:
        return Outcome.TO_PYTHON
    if get(cx, Context.PLAN_SESSION) != 0:
        update_session(cx)
    answer, records, by_sendfile, partitions = _count_sent(cx)
    count_fetch(cx, load_i16_be(frame + 2), length, answer, records, by_sendfile, partitions)
    fetch_built(cx, client_row, began_ns, force)
    _send_parts(cx, connection, end, by_sendfile)
    return Outcome.SERVED


@kernel("int64(int64, int64, int64, int64, int64)")
def serve_fetch(cx: int, connection: int, frame: int, length: int, force: int) -> int:
    """``serve``, for a request that has waited in Python. It may leave events."""
    return serve(cx, connection, frame, length, force != 0)


@kernel("int64(int64, int64, int64, int64)")
def plan_fetch(cx: int, connection: int, frame: int, length: int) -> int:
    """Fill the plan: READY, WAITING or TO_PYTHON."""
    client_row = connection_row(cx, connection)
    if plan_request(cx, client_row, frame, length) != Outcome.READY:
        return Outcome.TO_PYTHON
    return plan_reads(cx, client_row)
