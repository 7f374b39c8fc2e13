"""Fetch in one compiled call: plan, build the answer, send. Uncommon requests go to Python
unchanged."""

from kbroker.ipc.layout import Counter
from kbroker.kernels.jit import inlined, kernel
from kbroker.kernels.libc import (
    memmove,
)
from kbroker.kernels.memory import (
    INT32_MAX,
    load_i16_be,
    load_i32_be,
    load_i64,
    store_i64,
)
from kbroker.kernels.rows import get, put
from kbroker.net.fetch.answer_kernel import build, has_room, select
from kbroker.net.fetch.read_kernel import plan_reads
from kbroker.net.fetch.request_kernel import plan_request, plan_row
from kbroker.net.fetch.send_kernel import send_parts
from kbroker.net.rows import Connection, Context, May, Outcome, Part, Plan, Session, SessionEntry
from kbroker.net.rows.connection_kernel import connection_row
from kbroker.net.rows.count_kernel import count_fetch, fetch_built, fetch_waits, monotonic_ns
from kbroker.net.rows.topic_kernel import may_use

# --- session and counters ------------------------------------------------------------------------------------------


@inlined
def _move_to_end(session: int, entry: int) -> None:
    """Move an entry to the end of the reading order."""
    count = get(session, Session.COUNT)
    order = get(session, Session.ORDER)
    number = (entry - get(session, Session.ENTRIES)) // (SessionEntry.STRIDE)
    for at in range(count):
        if load_i64(order + 8 * at) == number:
            memmove(order + 8 * at, order + 8 * (at + 1), 8 * (count - at - 1))
            store_i64(order + 8 * (count - 1), number)
            return


@inlined
def _update_session(cx: int) -> None:
    """Note in the session what was requested and what is returned; count what is sent."""
    session = get(cx, Context.PLAN_SESSION)
    for number in range(get(cx, Context.PLAN_COUNT)):
        row = plan_row(cx, number)
        counter = get(cx, Context.COUNTERS) + get(row, Plan.SLOT) * Counter.STRIDE
        if get(row, Plan.SELECTED) != 0:
            put(counter, Counter.FETCHES, get(counter, Counter.FETCHES) + 1)
            put(counter, Counter.BYTES_OUT, get(counter, Counter.BYTES_OUT) + get(row, Plan.LENGTH))
        if session != 0:
            entry = get(row, Plan.ENTRY)
            put(entry, SessionEntry.OFFSET, get(row, Plan.OFFSET))
            put(entry, SessionEntry.MAX_BYTES, get(row, Plan.MAX_BYTES))
            put(entry, SessionEntry.EPOCH, get(row, Plan.EPOCH))
            put(entry, SessionEntry.LAST_EPOCH, get(row, Plan.LAST_EPOCH))
            put(entry, SessionEntry.SENT_HIGH_WATERMARK, get(row, Plan.HIGH_WATERMARK))
            put(entry, SessionEntry.SENT_LOG_START, get(row, Plan.LOG_START))
            if get(row, Plan.LENGTH) > 0 and get(session, Session.COUNT) > 1:
                _move_to_end(session, entry)
    if session != 0:
        epoch = get(session, Session.EPOCH)
        put(session, Session.EPOCH, 1 if epoch == INT32_MAX else epoch + 1)
        put(session, Session.USED_MS, get(cx, Context.NOW_MS))


@inlined
def _sizes(cx: int) -> tuple[int, int, int, int]:
    """Sizes of the built answer: all bytes, bytes of records, bytes sent by sendfile,
    partitions."""
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
    return answer, records, by_sendfile, partitions


@inlined
def _may_read_all(cx: int, client_row: int) -> bool:
    if get(client_row, Connection.ACCESS) == 0:
        return True
    for number in range(get(cx, Context.PLAN_COUNT)):
        if not may_use(cx, client_row, get(plan_row(cx, number), Plan.TOPIC), May.READ):
            return False
    return True


@inlined
def serve(cx: int, connection: int, frame: int, length: int, force: bool) -> int:
    """Answer a Fetch request (address of its header) if it is a common one: SERVED, WAITING or
    TO_PYTHON.

    force: the fetch has waited; answer with the bytes that exist. WAITING and TO_PYTHON leave
    everything unchanged that the answer depends on.
    """
    client_row = connection_row(cx, connection)
    began_ns = monotonic_ns(cx)
    if plan_request(cx, frame, length) != Outcome.READY or not _may_read_all(cx, client_row):
        return Outcome.TO_PYTHON
    state = plan_reads(cx, client_row)
    if state == Outcome.WAITING and not force:
        fetch_waits(client_row, began_ns)
    if state == Outcome.TO_PYTHON or (state == Outcome.WAITING and not force):
        return state
    select(cx)
    if not has_room(cx):
        return Outcome.TO_PYTHON
    start = get(cx, Context.OUT) + get(cx, Context.OUT_USED)
    end = build(cx, client_row, start, load_i32_be(frame + 4), load_i16_be(frame + 2))
    if end == 0:
        return Outcome.TO_PYTHON
    _update_session(cx)
    answer, records, by_sendfile, partitions = _sizes(cx)
    count_fetch(cx, load_i16_be(frame + 2), length, answer, records, by_sendfile, partitions)
    fetch_built(cx, client_row, began_ns, force)
    send_parts(cx, connection, end)
    return Outcome.SERVED


@kernel("int64(int64, int64, int64, int64, int64)")
def serve_fetch(cx: int, connection: int, frame: int, length: int, force: int) -> int:
    """``serve``, for a request that has waited in Python. It may leave events."""
    return serve(cx, connection, frame, length, force != 0)


@kernel("int64(int64, int64, int64, int64)")
def plan_fetch(cx: int, connection: int, frame: int, length: int) -> int:
    """Fill the plan: READY, WAITING or TO_PYTHON."""
    client_row = connection_row(cx, connection)
    if plan_request(cx, frame, length) != Outcome.READY or not _may_read_all(cx, client_row):
        return Outcome.TO_PYTHON
    return plan_reads(cx, client_row)
