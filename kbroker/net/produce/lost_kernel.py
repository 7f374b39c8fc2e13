"""Requests that an IO worker took with it when it died."""

from kbroker.ipc import layout as sm
from kbroker.ipc.ring import ring_ready
from kbroker.kernels.jit import kernel
from kbroker.kernels.memory import load_acquire
from kbroker.kernels.rows import get, put
from kbroker.net.produce.check_kernel import NOT_LEADER_OR_FOLLOWER
from kbroker.net.produce.queue_kernel import settle
from kbroker.net.rows.layout import (
    CX_RESULTS,
    CX_WORKER_COUNT,
    CX_WORKERS,
    RESULT_WAITING,
    RESULT_WORDS,
    RS_NUMBER,
    RS_STATE,
    RS_WORKER,
    WK_APPEND,
    WK_COMPLETION,
    WK_RECOVERED,
    WORKER_WORDS,
)


@kernel("int64(int64, int64)")
def settle_lost(cx: int, results: int) -> int:
    """Answer what died with an IO worker: entries that it took, never completed, and that its successor does not know.

    To be called when the completions have been taken. results: rows of the result table. Returns how many were lost.
    """
    lost = 0
    for worker in range(get(cx, CX_WORKER_COUNT)):
        row = get(cx, CX_WORKERS) + worker * WORKER_WORDS * 8
        recovered = load_acquire(get(row, WK_APPEND) + sm.RING_RECOVERED)
        if recovered == get(row, WK_RECOVERED) or ring_ready(get(row, WK_COMPLETION)) > 0:
            continue
        put(row, WK_RECOVERED, recovered)
        for result in range(results):
            found = get(cx, CX_RESULTS) + result * RESULT_WORDS * 8
            waiting = get(found, RS_STATE) == RESULT_WAITING and get(found, RS_WORKER) == worker
            if waiting and get(found, RS_NUMBER) < recovered:
                settle(cx, result, NOT_LEADER_OR_FOLLOWER, -1, -1, -1)
                lost += 1
    return lost
