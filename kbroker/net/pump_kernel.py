"""One turn of a network process in one compiled call: completions, answers, readable sockets,
appends, wake-ups.
"""

from kbroker.ipc.layout import Completion, ProcessLine
from kbroker.ipc.ring import TAIL, ring_entry, ring_ready, wake
from kbroker.kernels.jit import inlined, kernel
from kbroker.kernels.libc import (
    CLOCK_REALTIME,
    CLOCK_THREAD_CPUTIME_ID,
    Epoll,
    clock_ns,
    epoll_ctl,
    epoll_wait,
    sched_yield,
)
from kbroker.kernels.memory import (
    INT64_MAX,
    exchange,
    fence,
    load_i32,
    load_i64,
    store_i32,
    store_i64,
    store_release,
)
from kbroker.kernels.rows import get, put
from kbroker.net.fetch.outbox_kernel import continue_sending, forget_box, take_returned
from kbroker.net.produce.queue_kernel import answer_dirty, forget_requests, take_completion
from kbroker.net.receive_kernel import drop_region, handle_region, receive
from kbroker.net.rows import Connection, Context, EventKind, Flag, Request, Token, Worker
from kbroker.net.rows.connection_kernel import (
    arm,
    connection_row,
    events_left,
    mark_dirty,
    mark_stalled,
    push_event,
)
from kbroker.net.rows.count_kernel import end_runs, monotonic_ns

ROUNDS = 4  # rounds in one call that find something, before Python has a turn
POLL_TURN_NS = 50_000  # of polling in one call, before the event loop has a turn
POLL_GAP_NS = 20_000  # CPU time between two calls that poll; a longer one was other work
OWN_EVENT_FD = -1  # epoll data of the process's own eventfd
SENDERS = -2  # epoll data of the pipe by which senders return outboxes
FLAGS_SERVED = (
    Flag.BUSY | Flag.VERIFYING
)  # a client that disconnects while its request is served gets no answer


@inlined
def _take_stalled(cx: int) -> None:
    """Resume connections that waited for room."""
    connection = get(cx, Context.STALLED)
    put(cx, Context.STALLED, -1)
    while connection >= 0:
        row = connection_row(cx, connection)
        following = get(row, Connection.STALLED_NEXT)
        flags = get(row, Connection.FLAGS) & ~Flag.STALLED
        put(row, Connection.FLAGS, flags)
        if flags & Flag.OPEN != 0:
            read_again(cx, connection)
        connection = following


@inlined
def read_again(cx: int, connection: int) -> None:
    """Continue with received bytes, and let epoll report the connection again."""
    row = connection_row(cx, connection)
    if get(row, Connection.FLAGS) & Flag.NOT_READING != 0:
        return
    if get(row, Connection.CHUNK) >= 0:
        handle_region(cx, connection)
    if get(row, Connection.FLAGS) & (Flag.NOT_READING | Flag.STALLED) == 0:
        arm(cx, connection, Epoll.READING)


@inlined
def _expects_no_answer(cx: int, row: int) -> bool:
    """Whether the request that is served has acks=0: its client may have sent further ones before
    it disconnected."""
    head = get(row, Connection.HEAD)
    return head >= 0 and get(get(cx, Context.REQUESTS) + head * Request.STRIDE, Request.ACKS) == 0


@inlined
def _poll(cx: int) -> int:
    """Serve up to Context.EPOLL_CAPACITY ready sockets; returns how many there were."""
    events = get(cx, Context.EPOLL_EVENTS)
    ready = epoll_wait(get(cx, Context.EPOLL_FD), events, get(cx, Context.EPOLL_CAPACITY), 0)
    for i in range(ready):
        event = events + i * Epoll.STRIDE
        mask = load_i32(event)
        connection = load_i64(event + Epoll.DATA)
        if connection < 0:
            if connection == SENDERS:
                take_returned(cx)
            continue  # the eventfd is edge-triggered: its count need not be read
        row = connection_row(cx, connection)
        flags = get(row, Connection.FLAGS)
        if flags & Flag.OPEN == 0 or flags & Flag.CLOSING != 0 or events_left(cx) < 64:
            continue
        if mask & Epoll.OUT != 0 and flags & Flag.SENDING != 0:
            continue_sending(cx, connection)
            flags = get(row, Connection.FLAGS)
            if flags & Flag.CLOSING != 0:
                continue
        elif mask & Epoll.OUT != 0:
            push_event(cx, EventKind.WRITABLE, connection, 0, 0)
        gone = mask & Epoll.RDHUP != 0 and flags & FLAGS_SERVED != 0 and not _expects_no_answer(cx, row)
        if mask & (Epoll.ERR | Epoll.HUP) != 0 or gone:
            if flags & Flag.NOT_READING != 0:
                put(row, Connection.FLAGS, flags | Flag.CLOSING)
                push_event(cx, EventKind.CLOSED, connection, 0, 0)
                continue
        if mask & (Epoll.IN | Epoll.ERR | Epoll.HUP | Epoll.RDHUP) != 0:
            receive(cx, connection)
    return ready


@inlined
def _wake_workers(cx: int) -> None:
    for worker in range(get(cx, Context.WORKER_COUNT)):
        row = get(cx, Context.WORKERS) + worker * Worker.STRIDE
        if get(row, Worker.PUSHED) > 0:
            put(row, Worker.PUSHED, 0)
            wake(get(row, Worker.LINE), get(row, Worker.EVENT_FD), get(cx, Context.ONE))


@inlined
def _take_completions(cx: int) -> int:
    """Take what the IO workers have completed; returns how many entries were taken."""
    capacity = get(cx, Context.RING_ENTRIES)
    taken = 0
    for worker in range(get(cx, Context.WORKER_COUNT)):
        row = get(cx, Context.WORKERS) + worker * Worker.STRIDE
        ring = get(row, Worker.COMPLETION)
        ready = min(ring_ready(ring), events_left(cx) - 64)
        if ready <= 0:
            continue
        tail = load_i64(ring + TAIL)
        for number in range(tail, tail + ready):
            _take_completion(cx, ring_entry(ring, capacity, number))
        store_release(ring + TAIL, tail + ready)
        taken += ready
    return taken


@inlined
def _take_completion(cx: int, entry: int) -> None:
    token = get(entry, Completion.TOKEN)
    if token == Completion.SLOT_ADVANCED:
        push_event(cx, EventKind.ADVANCED, -1, get(entry, Completion.SLOT), 0)
        return
    if token & ~Token.MASK != get(cx, Context.TOKEN_EPOCH):
        return  # for a predecessor of this process
    token &= Token.MASK
    if token >= Token.READ_AHEAD:
        push_event(cx, EventKind.READ_AHEAD, -1, token, 0)
        return
    take_completion(cx, token, entry)


@inlined
def _answer_dirty(cx: int) -> int:
    """Answer the connections whose requests are complete; returns how many are left."""
    return answer_dirty(cx) if get(cx, Context.DIRTY) >= 0 else 0


@inlined
def _completions_wait(cx: int) -> bool:
    for worker in range(get(cx, Context.WORKER_COUNT)):
        row = get(cx, Context.WORKERS) + worker * Worker.STRIDE
        if ring_ready(get(row, Worker.COMPLETION)) > 0:
            return True
    return False


@inlined
def _read_clocks(cx: int) -> None:
    put(cx, Context.NOW_MS, clock_ns(CLOCK_REALTIME, get(cx, Context.SCRATCH)) // 1_000_000)
    now = monotonic_ns(cx)
    put(cx, Context.NOW_NS, now)
    store_i64(get(cx, Context.PROCESS_LINE) + 8 * ProcessLine.HEARTBEAT_NS, now)


@inlined
def _count_polling(cx: int, max_ns: int, continues: bool) -> None:
    """Count the CPU time since the last call as polling if it is less than `max_ns`. continues:
    what follows is polling, too."""
    now = clock_ns(CLOCK_THREAD_CPUTIME_ID, get(cx, Context.SCRATCH))
    before = get(cx, Context.POLLED_NS)
    if before != 0 and now - before < max_ns:
        put(cx, Context.STAT_POLLED_NS, get(cx, Context.STAT_POLLED_NS) + now - before)
    put(cx, Context.POLLED_NS, now if continues else 0)


@inlined
def _polls(cx: int, found: int) -> bool:
    """Whether the process polls on, because its last work is not long ago. found: by this round."""
    poll_ns = get(cx, Context.POLL_NS)
    if poll_ns == 0:
        return False
    if found > 0:
        put(cx, Context.LAST_WORK_NS, get(cx, Context.NOW_NS))
    polls = found == 0 and get(cx, Context.NOW_NS) - get(cx, Context.LAST_WORK_NS) < poll_ns
    if polls != (get(cx, Context.POLLED_NS) != 0):
        _count_polling(cx, INT64_MAX, polls)
    return polls


@inlined
def _ends_polling(cx: int, began: int) -> bool:
    """Whether a call that polls ends: there is something for Python, or its time is over. If not,
    another process that can run on this core, such as a client, has its turn."""
    for_python = get(cx, Context.EVENT_COUNT) + get(cx, Context.LINK_USED)
    if for_python == 0 and get(cx, Context.NOW_NS) - began < POLL_TURN_NS:
        sched_yield()
        return False
    _count_polling(cx, INT64_MAX, for_python == 0)
    put(cx, Context.POLLING, 1)
    return True


@inlined
def _leave(cx: int, more: int) -> None:
    put(cx, Context.MORE, more)
    asleep = more == 0 and get(cx, Context.DIRTY) < 0 and get(cx, Context.POLLING) == 0
    put(cx, Context.LEFT, 0 if asleep and get(cx, Context.LINK_USED) == 0 else 1)


@kernel("int64(int64)")
def pump(cx: int) -> int:
    """Serve everything that is ready. Returns the number of events for Python; sets Context.MORE if
    work is left, and Context.LEFT if anything besides events is left to Python.

    At the end the process announces that it sleeps, unless work is left: a worker that completes
    something later writes the eventfd, which the nested epoll reports. A process that polls sets
    Context.POLLING instead: the caller calls again after a turn of the loop that does not block.
    """
    put(cx, Context.EVENT_COUNT, 0)
    put(cx, Context.OUT_USED, 0)
    put(cx, Context.STAT_TURNS, get(cx, Context.STAT_TURNS) + 1)
    line = get(cx, Context.PROCESS_LINE)
    if load_i64(line) != 0:
        exchange(line, 0)
    more, began, rounds = 1, 0, 0
    if get(cx, Context.POLLED_NS) != 0:  # the turn of a loop that has nothing else to do is polling
        _count_polling(cx, POLL_GAP_NS, True)
    put(cx, Context.POLLING, 0)
    while rounds < ROUNDS:
        _read_clocks(cx)
        began = began or get(cx, Context.NOW_NS)
        put(cx, Context.UNFINISHED, 0)
        taken = _take_completions(cx)
        left = _answer_dirty(cx)
        if get(cx, Context.STALLED) >= 0:
            _take_stalled(cx)
        ready = _poll(cx)
        _wake_workers(cx)
        polls = _polls(cx, taken + ready)
        if events_left(cx) < 1024 or left > 0 or get(cx, Context.UNFINISHED) != 0:
            break
        rounds += 1
        if taken + ready == 0:
            left = _answer_dirty(cx)
            if polls and left == 0:
                if _ends_polling(cx, began):
                    more = 0
                    break
                rounds -= 1
                continue
            store_i64(line, 1)
            fence()
            if left == 0 and not _completions_wait(cx):
                more = 0
                break
            exchange(line, 0)
    end_runs(cx)
    _leave(cx, more)
    return get(cx, Context.EVENT_COUNT)


@kernel("void(int64, int64)")
def resume(cx: int, connection: int) -> None:
    """Resume a connection that could not read or answer: the next turn continues with it."""
    mark_dirty(cx, connection)
    mark_stalled(cx, connection)


@kernel("void(int64, int64)")
def close_row(cx: int, connection: int) -> None:
    """Forget a connection whose socket Python is about to close."""
    row = connection_row(cx, connection)
    drop_region(cx, row)
    put(row, Connection.CALL, 0)
    if get(row, Connection.FLAGS) & Flag.LENT == 0:
        forget_box(cx, connection)
    put(row, Connection.FLAGS, get(row, Connection.FLAGS) & ~Flag.OPEN)
    forget_requests(cx, connection)


@kernel("void(int64, int64, int64)")
def arm_row(cx: int, connection: int, mask: int) -> None:
    """Set what epoll reports of a connection, from Python."""
    arm(cx, connection, mask)


@kernel("void(int64)")
def wake_workers(cx: int) -> None:
    """Wake the workers that Python pushed to."""
    _wake_workers(cx)


@kernel("int64(int64, int64, int64, int64)")
def register(cx: int, fd: int, mask: int, data: int) -> int:
    """Add a descriptor to the nested epoll under a connection row, OWN_EVENT_FD or SENDERS; 0 on
    success."""
    event = get(cx, Context.SCRATCH)
    store_i32(event, mask)
    store_i64(event + Epoll.DATA, data)
    return epoll_ctl(get(cx, Context.EPOLL_FD), Epoll.ADD, fd, event)
