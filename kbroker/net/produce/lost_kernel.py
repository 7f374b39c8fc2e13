"""Answers the requests whose append entries an IO worker held when it died."""

from kbroker.ipc.layout import Ring
from kbroker.ipc.ring import ring_ready
from kbroker.kernels.codes import Code
from kbroker.kernels.jit import kernel
from kbroker.kernels.memory import load_acquire
from kbroker.kernels.rows import get, put
from kbroker.net.produce.queue_kernel import settle
from kbroker.net.rows import Context, Result, ResultState, Worker


@kernel("int64(int64, int64)")
def settle_lost(cx: int, results: int) -> int:
    """Answer the entries that were lost with an IO worker: it took them and never completed them,
    and its successor does not know them.

    To be called when the completions have been taken. results: rows of the result table. Returns
    how many were lost.
    """
    lost = 0
    for worker in range(get(cx, Context.WORKER_COUNT)):
        row = get(cx, Context.WORKERS) + worker * Worker.STRIDE
        recovered = load_acquire(get(row, Worker.APPEND) + 8 * Ring.RECOVERED)
        if recovered == get(row, Worker.RECOVERED) or ring_ready(get(row, Worker.COMPLETION)) > 0:
            continue
        put(row, Worker.RECOVERED, recovered)
        for result in range(results):
            found = get(cx, Context.RESULTS) + result * Result.STRIDE
            waiting = get(found, Result.STATE) == ResultState.WAITING and get(found, Result.WORKER) == worker
            if waiting and get(found, Result.NUMBER) < recovered:
                settle(cx, result, Code.NOT_LEADER_OR_FOLLOWER, -1, -1, -1)
                lost += 1
    return lost
