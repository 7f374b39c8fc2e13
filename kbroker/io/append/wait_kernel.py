"""The wait of an IO worker, and its looks into the append rings. A process that has slept runs
Python slowly, so the way from its sleep to the drain is compiled (docs/lab/ack-latency.md).

clients, count: the address of the Client rows, and how many. Times: CLOCK_MONOTONIC.
"""
# mypy: disable-error-code="no-untyped-call"

from kbroker.io.append.rows import Client, Environment, WaitResult
from kbroker.ipc.layout import ProcessLine
from kbroker.ipc.ring import ring_ready
from kbroker.kernels.jit import inlined, kernel
from kbroker.kernels.libc import CLOCK_MONOTONIC, Epoll, clock_ns, epoll_wait, sched_yield
from kbroker.kernels.memory import INT32_MAX, exchange, fence, load_i32, store_i64
from kbroker.kernels.rows import get, put
from kbroker.metrics import layout as ml
from kbroker.metrics.histogram_kernel import add

MAX_WITHOUT_EPOLL = 32  # calls in a row that do not ask epoll, because entries wait
AT_ONCE = -1
BLOCKED_MS = 1  # between two tries when a completion ring is full


@inlined
def count_waiting(clients: int, count: int) -> int:
    total = 0
    for c in range(count):
        total += ring_ready(get(clients + c * Client.STRIDE, Client.APPEND_RING))
    return total


@kernel("int64(int64, int64)")
def waiting_entries(clients: int, count: int) -> int:
    """Entries in all append rings."""
    return count_waiting(clients, count)


@kernel("int64(int64, int64, int64, int64, int64)")
def wait(env: int, clients: int, count: int, due_ms: int, until_ms: int) -> int:
    """Wait for entries, a descriptor or a time, and return `WaitResult`; at once while entries
    wait, if there is room for their answers, or if until_ms is AT_ONCE. due_ms: when other work is
    due. until_ms: when the wait ends.

    Where entries always wait, one of MAX_WITHOUT_EPOLL calls asks epoll.
    """
    blocked = get(env, Environment.BLOCKED) != 0
    sleeps = until_ms >= 0 and (blocked or count_waiting(clients, count) == 0)
    asked = get(env, Environment.WITHOUT_EPOLL) + 1
    if not sleeps and asked < MAX_WITHOUT_EPOLL:
        put(env, Environment.WITHOUT_EPOLL, asked)
        return 0
    put(env, Environment.WITHOUT_EPOLL, 0)
    line = get(env, Environment.PROCESS_LINE)
    clock = get(env, Environment.CLOCK)
    began = clock_ns(CLOCK_MONOTONIC, clock)
    due_ms = min(due_ms, get(env, Environment.DELAYED_DUE_MS))
    timeout_ms = 0
    if sleeps and until_ms > 0:
        store_i64(line, 1)
        fence()
        waiting = count_waiting(clients, count)
        if waiting == 0:
            timeout_ms = min(INT32_MAX, max(0, min(due_ms, until_ms) - began // 1_000_000))
        elif blocked:
            timeout_ms = BLOCKED_MS
    events = get(env, Environment.EVENTS)
    ready = epoll_wait(get(env, Environment.EPOLL_FD), events, Environment.MAX_EVENTS, timeout_ms)
    woken = clock_ns(CLOCK_MONOTONIC, clock)
    exchange(line, 0)
    add(get(env, Environment.METRICS) + 8 * ml.IDLE_NS, woken - began)
    store_i64(line + 8 * ProcessLine.HEARTBEAT_NS, woken)
    found = (
        WaitResult.OTHER if woken // 1_000_000 >= due_ms else 0
    )  # after a signal its handler asks for more
    for i in range(ready):
        fd = load_i32(events + i * Epoll.STRIDE + Epoll.DATA)
        if fd == get(env, Environment.SYNC_RESULTS):
            found |= WaitResult.SYNCED
        elif fd != get(env, Environment.EVENT_FD):
            found |= WaitResult.OTHER
    return found


@kernel("int64(int64, int64, int64, int64)")
def poll_entries(env: int, clients: int, count: int, time_ns: int) -> int:
    """Look into the append rings until there are entries, for at most this time; returns how
    many."""
    clock = get(env, Environment.CLOCK)
    began = clock_ns(CLOCK_MONOTONIC, clock)
    while True:
        waiting = count_waiting(clients, count)
        if waiting > 0 or clock_ns(CLOCK_MONOTONIC, clock) - began >= time_ns:
            return waiting
        sched_yield()  # to another process that can run on this core, such as a client
