"""Metrics of requests, counted where they are answered: a few stores into this process's row of slots.

Times come from the clock that the pump reads once a round, so that counting reads no clock of its own, and what is done
in one round took the same time: such runs go into a histogram together.
"""

from kbroker.ipc import layout as sm
from kbroker.kernels.cache import MEASURED
from kbroker.kernels.jit import inlined, kernel
from kbroker.kernels.libc import clock_gettime
from kbroker.kernels.memory import load_i64
from kbroker.kernels.rows import get, put
from kbroker.metrics.histogram_kernel import add, observe
from kbroker.metrics.layout import (
    ERROR_COUNT,
    ERRORS,
    FETCHED_BYTES,
    HISTOGRAM_WORDS,
    PHASE_APPEND,
    PHASE_COUNT,
    PHASE_LOCAL,
    PHASE_PARSE,
    PHASE_QUEUE,
    PHASE_RESPOND,
    PHASE_SECONDS,
    PHASE_TOTAL,
    REQUEST_BYTES,
    REQUESTS,
    RESPONSE_BYTES,
    SENT_BY_COPY,
    SENT_BY_SENDFILE,
    VERSION_COUNT,
)
from kbroker.net.rows.layout import (
    CN_LAST_NS,
    CX_METRICS,
    CX_NOW_NS,
    CX_REQUESTS,
    CX_RESULTS,
    CX_RUNS,
    CX_SCRATCH,
    CX_STAT_REQUESTS,
    REQUEST_WORDS,
    RESULT_WORDS,
    RQ_BYTES,
    RQ_RECEIVED_NS,
    RQ_RESULT,
    RQ_VERSION,
    RS_ERROR,
    RS_NEXT,
    RS_REQUEST,
    RUN_APPEND,
    RUN_COUNT,
    RUN_NS,
    RUN_QUEUE,
    RUN_RESPOND,
    RUN_TOTAL,
    RUN_WORDS,
)

PRODUCE = 0
FETCH = 1
PARSE_SAMPLE = 31  # one Produce in 32 is timed by clocks of its own
SIZE_BYTES = 4


@inlined
def observe_phase(metrics: int, api: int, phase: int, nanoseconds: int) -> None:
    """One time of a request's phase."""
    observe(metrics + 8 * (PHASE_SECONDS + (api * PHASE_COUNT + phase) * HISTOGRAM_WORDS), nanoseconds)


@inlined
def _observe_alike(cx: int, run: int, phase: int, nanoseconds: int) -> None:
    """One time of a Produce request's phase, which most of its neighbours took as well."""
    if MEASURED:
        row = cx + 8 * (CX_RUNS + run * RUN_WORDS)
        if get(row, RUN_NS) != nanoseconds:
            _end_run(cx, run, phase)
            put(row, RUN_NS, nanoseconds)
        put(row, RUN_COUNT, get(row, RUN_COUNT) + 1)


@inlined
def _end_run(cx: int, run: int, phase: int) -> None:
    row = cx + 8 * (CX_RUNS + run * RUN_WORDS)
    if get(row, RUN_COUNT) > 0:
        histogram = get(cx, CX_METRICS) + 8 * (
            PHASE_SECONDS + (PRODUCE * PHASE_COUNT + phase) * HISTOGRAM_WORDS
        )
        observe(histogram, get(row, RUN_NS), get(row, RUN_COUNT))
        put(row, RUN_COUNT, 0)


@inlined
def end_runs(cx: int) -> None:
    """Bring the histograms up to date, at the end of a turn."""
    _end_run(cx, RUN_QUEUE, PHASE_QUEUE)
    _end_run(cx, RUN_APPEND, PHASE_APPEND)
    _end_run(cx, RUN_RESPOND, PHASE_RESPOND)
    _end_run(cx, RUN_TOTAL, PHASE_TOTAL)


@inlined
def count_error(metrics: int, api: int, error: int) -> None:
    """One error code (0 for none) in an answer."""
    add(metrics + 8 * (ERRORS + api * ERROR_COUNT + error + 1), 1)


@inlined
def count_request(metrics: int, api: int, version: int, size: int) -> None:
    """One request that is answered; size: bytes without the size field."""
    add(metrics + 8 * (REQUESTS + api * VERSION_COUNT + min(version, VERSION_COUNT - 1)), 1)
    add(metrics + 8 * (REQUEST_BYTES + api), size + SIZE_BYTES)


@inlined
def count_produce(cx: int, number: int) -> None:
    """A Produce request has been answered."""
    metrics = get(cx, CX_METRICS)
    request = get(cx, CX_REQUESTS) + number * REQUEST_WORDS * 8
    count_request(metrics, PRODUCE, get(request, RQ_VERSION), get(request, RQ_BYTES))
    _observe_alike(cx, RUN_TOTAL, PHASE_TOTAL, get(cx, CX_NOW_NS) - get(request, RQ_RECEIVED_NS))
    result = get(request, RQ_RESULT)
    while result >= 0:
        row = get(cx, CX_RESULTS) + result * RESULT_WORDS * 8
        count_error(metrics, PRODUCE, get(row, RS_ERROR))
        result = get(row, RS_NEXT)


@inlined
def count_fetch(
    cx: int, version: int, request_bytes: int, answer_bytes: int, record_bytes: int, by_sendfile: int, partitions: int,
    arrived_ns: int,
) -> None:  # fmt: skip
    """A Fetch request has been answered by the kernel, without any error. partitions: in the answer."""
    metrics = get(cx, CX_METRICS)
    count_request(metrics, FETCH, version, request_bytes)
    add(metrics + 8 * (RESPONSE_BYTES + FETCH), answer_bytes)
    add(metrics + 8 * FETCHED_BYTES, record_bytes)
    add(metrics + 8 * SENT_BY_SENDFILE, by_sendfile)
    add(metrics + 8 * SENT_BY_COPY, record_bytes - by_sendfile)
    add(metrics + 8 * (ERRORS + FETCH * ERROR_COUNT + 1), max(partitions, 1))
    observe_phase(metrics, FETCH, PHASE_TOTAL, _now_ns(cx) - arrived_ns)


@inlined
def count_response(cx: int, api: int, size: int) -> None:
    """Bytes of an answer."""
    add(get(cx, CX_METRICS) + 8 * (RESPONSE_BYTES + api), size)


@inlined
def count_queued(cx: int, connection_row: int) -> None:
    """A Produce request is taken now; its last byte came with the connection's last ones."""
    _observe_alike(cx, RUN_QUEUE, PHASE_QUEUE, get(cx, CX_NOW_NS) - get(connection_row, CN_LAST_NS))


@inlined
def count_completion(cx: int, result_row: int, entry: int) -> None:
    """The IO worker has completed the batch of a result row. entry: address of the completion."""
    written_ns = get(entry, sm.COMPLETION_NANOSECONDS)
    request = get(cx, CX_REQUESTS) + get(result_row, RS_REQUEST) * REQUEST_WORDS * 8
    _observe_alike(cx, RUN_APPEND, PHASE_APPEND, written_ns - get(request, RQ_RECEIVED_NS))
    _observe_alike(cx, RUN_RESPOND, PHASE_RESPOND, get(cx, CX_NOW_NS) - written_ns)


@inlined
def parse_begins(cx: int) -> int:
    """CLOCK_MONOTONIC for one Produce in 32, 0 for the others."""
    if not MEASURED or get(cx, CX_STAT_REQUESTS) & PARSE_SAMPLE != 0:
        return 0
    return _now_ns(cx)


@inlined
def parse_ends(cx: int, began_ns: int) -> None:
    """The request that ``parse_begins`` was asked about has been taken."""
    if began_ns != 0:
        observe_phase(get(cx, CX_METRICS), PRODUCE, PHASE_PARSE, _now_ns(cx) - began_ns)


@inlined
def _now_ns(cx: int) -> int:
    scratch = get(cx, CX_SCRATCH)
    clock_gettime(1, scratch)
    return load_i64(scratch) * 1_000_000_000 + load_i64(scratch + 8)


@kernel("void(int64, int64, int64, int64, int64, int64, int64, int64)")
def count_answer(
    metrics: int, api: int, version: int, request_bytes: int, response_bytes: int, queued_ns: int, local_ns: int,
    total_ns: int,
) -> None:  # fmt: skip
    """A request that Python served has been answered."""
    count_request(metrics, api, version, request_bytes)
    add(metrics + 8 * (RESPONSE_BYTES + api), response_bytes)
    observe_phase(metrics, api, PHASE_QUEUE, queued_ns)
    observe_phase(metrics, api, PHASE_LOCAL, local_ns)
    observe_phase(metrics, api, PHASE_TOTAL, total_ns)
