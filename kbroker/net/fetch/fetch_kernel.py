"""Fetch in one compiled call: plan, answer, send; what is not common is left to Python untouched."""

from kbroker.ipc import layout as sm
from kbroker.kernels.jit import inlined, kernel
from kbroker.kernels.libc import (
    memmove,
)
from kbroker.kernels.memory import (
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
from kbroker.net.rows.access_kernel import may_use
from kbroker.net.rows.access_layout import CN_ACCESS, MAY_READ
from kbroker.net.rows.connection_kernel import connection_row
from kbroker.net.rows.count_kernel import count_fetch
from kbroker.net.rows.fetch_layout import (
    CX_FETCHED,
    CX_PART_COUNT,
    CX_PARTS,
    CX_PLAN_COUNT,
    CX_PLAN_SESSION,
    ENTRY_WORDS,
    PA_LENGTH,
    PA_SEGMENT,
    PART_WORDS,
    PL_ENTRY,
    PL_EPOCH,
    PL_HIGH_WATERMARK,
    PL_LAST_EPOCH,
    PL_LENGTH,
    PL_LOG_START,
    PL_MAX_BYTES,
    PL_OFFSET,
    PL_SELECTED,
    PL_SLOT,
    PL_TOPIC,
    READY,
    SE_EPOCH,
    SE_LAST_EPOCH,
    SE_MAX_BYTES,
    SE_OFFSET,
    SE_TOLD_HIGH_WATERMARK,
    SE_TOLD_LOG_START,
    SERVED,
    SS_COUNT,
    SS_ENTRIES,
    SS_EPOCH,
    SS_ORDER,
    SS_USED_MS,
    TO_PYTHON,
    WAITING,
)
from kbroker.net.rows.layout import (
    CN_LAST_NS,
    CX_COUNTERS,
    CX_NOW_MS,
    CX_OUT,
    CX_OUT_USED,
)

INT32_MAX = (1 << 31) - 1


# --- session and counters ------------------------------------------------------------------------------------------


@inlined
def _to_the_end(session: int, entry: int) -> None:
    """Read an entry last from now on."""
    count = get(session, SS_COUNT)
    order = get(session, SS_ORDER)
    number = (entry - get(session, SS_ENTRIES)) // (ENTRY_WORDS * 8)
    for at in range(count):
        if load_i64(order + 8 * at) == number:
            memmove(order + 8 * at, order + 8 * (at + 1), 8 * (count - at - 1))
            store_i64(order + 8 * (count - 1), number)
            return


@inlined
def _commit(cx: int) -> None:
    """Note in the session what was asked and what is told; count what leaves."""
    session = get(cx, CX_PLAN_SESSION)
    for number in range(get(cx, CX_PLAN_COUNT)):
        row = plan_row(cx, number)
        counter = get(cx, CX_COUNTERS) + get(row, PL_SLOT) * sm.COUNTER_WORDS * 8
        if get(row, PL_SELECTED) != 0:
            put(counter, sm.COUNTER_FETCHES, get(counter, sm.COUNTER_FETCHES) + 1)
            put(counter, sm.COUNTER_BYTES_OUT, get(counter, sm.COUNTER_BYTES_OUT) + get(row, PL_LENGTH))
        if session != 0:
            entry = get(row, PL_ENTRY)
            put(entry, SE_OFFSET, get(row, PL_OFFSET))
            put(entry, SE_MAX_BYTES, get(row, PL_MAX_BYTES))
            put(entry, SE_EPOCH, get(row, PL_EPOCH))
            put(entry, SE_LAST_EPOCH, get(row, PL_LAST_EPOCH))
            put(entry, SE_TOLD_HIGH_WATERMARK, get(row, PL_HIGH_WATERMARK))
            put(entry, SE_TOLD_LOG_START, get(row, PL_LOG_START))
            if get(row, PL_LENGTH) > 0 and get(session, SS_COUNT) > 1:
                _to_the_end(session, entry)
    if session != 0:
        epoch = get(session, SS_EPOCH)
        put(session, SS_EPOCH, 1 if epoch == INT32_MAX else epoch + 1)
        put(session, SS_USED_MS, get(cx, CX_NOW_MS))


@inlined
def _weigh(cx: int) -> tuple[int, int, int, int]:
    """Of the answer that is built: its bytes, those of records, those that go by sendfile, and its partitions."""
    answer = 0
    by_sendfile = 0
    for number in range(get(cx, CX_PART_COUNT)):
        part = get(cx, CX_PARTS) + number * PART_WORDS * 8
        answer += get(part, PA_LENGTH)
        if get(part, PA_SEGMENT) >= 0:
            by_sendfile += get(part, PA_LENGTH)
    records = 0
    partitions = 0
    for number in range(get(cx, CX_PLAN_COUNT)):
        row = plan_row(cx, number)
        if get(row, PL_SELECTED) != 0:
            records += get(row, PL_LENGTH)
            partitions += 1
    return answer, records, by_sendfile, partitions


@inlined
def _may_read_all(cx: int, where: int) -> bool:
    if get(where, CN_ACCESS) == 0:
        return True
    for number in range(get(cx, CX_PLAN_COUNT)):
        if not may_use(cx, where, get(plan_row(cx, number), PL_TOPIC), MAY_READ):
            return False
    return True


@inlined
def serve(cx: int, connection: int, frame: int, length: int, force: bool) -> int:
    """Answer a Fetch request (address of its header) if it is a common one: SERVED, WAITING or TO_PYTHON.

    force: answer with what there is. WAITING and TO_PYTHON have changed nothing.
    """
    where = connection_row(cx, connection)
    if plan_request(cx, frame, length) != READY or not _may_read_all(cx, where):
        return TO_PYTHON
    state = plan_reads(cx, where)
    if state == TO_PYTHON or (state == WAITING and not force):
        return state
    select(cx)
    if not has_room(cx):
        return TO_PYTHON
    start = get(cx, CX_OUT) + get(cx, CX_OUT_USED)
    end = build(cx, where, start, load_i32_be(frame + 4), load_i16_be(frame + 2))
    if end == 0:
        return TO_PYTHON
    _commit(cx)
    put(cx, CX_FETCHED, get(cx, CX_FETCHED) + 1)
    arrived_ns = get(where, CN_LAST_NS)
    answer, records, by_sendfile, partitions = _weigh(cx)
    send_parts(cx, connection, end)
    count_fetch(cx, load_i16_be(frame + 2), length, answer, records, by_sendfile, partitions, arrived_ns)
    return SERVED


@kernel("int64(int64, int64, int64, int64, int64)")
def serve_fetch(cx: int, connection: int, frame: int, length: int, force: int) -> int:
    """``serve``, for a request that has waited in Python. It may leave events."""
    return serve(cx, connection, frame, length, force != 0)


@kernel("int64(int64, int64, int64, int64)")
def plan_fetch(cx: int, connection: int, frame: int, length: int) -> int:
    """Fill the plan: READY, WAITING or TO_PYTHON."""
    where = connection_row(cx, connection)
    if plan_request(cx, frame, length) != READY or not _may_read_all(cx, where):
        return TO_PYTHON
    return plan_reads(cx, where)
