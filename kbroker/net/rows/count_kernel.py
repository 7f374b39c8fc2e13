"""Metrics of requests, counted where they are answered: a few stores into this process's row of slots.

Times come from the clock that the pump reads once a round, so counting reads no clock. All requests of one
round have the same time, so a run of them is added to a histogram in one step.
"""

from kbroker.ipc.layout import Completion
from kbroker.kernels.cache import MEASURED
from kbroker.kernels.codes import ApiKey
from kbroker.kernels.jit import inlined, kernel
from kbroker.kernels.libc import clock_gettime
from kbroker.kernels.memory import load_i64
from kbroker.kernels.rows import get, put
from kbroker.metrics import layout as ml
from kbroker.metrics.histogram_kernel import add, observe
from kbroker.net.rows import Connection, Context, Phase, Request, Result, Run

PARSE_SAMPLE = 31  # one Produce in 32 is timed by clocks of its own
SIZE_BYTES = 4


@inlined
def observe_phase(metrics: int, api: int, phase: int, nanoseconds: int) -> None:
    """One time of a request's phase."""
    observe(
        metrics + 8 * (ml.PHASE_SECONDS + (api * ml.PHASE_COUNT + phase) * ml.HISTOGRAM_WORDS), nanoseconds
    )


@inlined
def _observe_alike(cx: int, run: int, phase: int, nanoseconds: int) -> None:
    """One time of a Produce request's phase; neighbouring requests often have the same time."""
    if MEASURED:
        row = cx + 8 * (Context.RUNS + run * Run.WORDS)
        if get(row, Run.NS) != nanoseconds:
            _end_run(cx, run, phase)
            put(row, Run.NS, nanoseconds)
        put(row, Run.COUNT, get(row, Run.COUNT) + 1)


@inlined
def _end_run(cx: int, run: int, phase: int) -> None:
    row = cx + 8 * (Context.RUNS + run * Run.WORDS)
    if get(row, Run.COUNT) > 0:
        histogram = get(cx, Context.METRICS) + 8 * (
            ml.PHASE_SECONDS + (ApiKey.PRODUCE * ml.PHASE_COUNT + phase) * ml.HISTOGRAM_WORDS
        )
        observe(histogram, get(row, Run.NS), get(row, Run.COUNT))
        put(row, Run.COUNT, 0)


@inlined
def end_runs(cx: int) -> None:
    """Bring the histograms up to date, at the end of a turn."""
    _end_run(cx, Phase.QUEUE, ml.PHASE_QUEUE)
    _end_run(cx, Phase.APPEND, ml.PHASE_APPEND)
    _end_run(cx, Phase.RESPOND, ml.PHASE_RESPOND)
    _end_run(cx, Phase.TOTAL, ml.PHASE_TOTAL)


@inlined
def count_error(metrics: int, api: int, error: int) -> None:
    """One error code (0 for none) in an answer."""
    add(metrics + 8 * (ml.ERRORS + api * ml.ERROR_COUNT + error + 1), 1)


@inlined
def count_request(metrics: int, api: int, version: int, size: int) -> None:
    """One request that is answered; size: bytes without the size field."""
    add(metrics + 8 * (ml.REQUESTS + api * ml.VERSION_COUNT + min(version, ml.VERSION_COUNT - 1)), 1)
    add(metrics + 8 * (ml.REQUEST_BYTES + api), size + SIZE_BYTES)


@inlined
def count_produce(cx: int, number: int) -> None:
    """A Produce request has been answered."""
    metrics = get(cx, Context.METRICS)
    request = get(cx, Context.REQUESTS) + number * Request.STRIDE
    count_request(metrics, ApiKey.PRODUCE, get(request, Request.VERSION), get(request, Request.FRAME_BYTES))
    _observe_alike(
        cx, Phase.TOTAL, ml.PHASE_TOTAL, get(cx, Context.NOW_NS) - get(request, Request.RECEIVED_NS)
    )
    result = get(request, Request.RESULT)
    while result >= 0:
        row = get(cx, Context.RESULTS) + result * Result.STRIDE
        count_error(metrics, ApiKey.PRODUCE, get(row, Result.ERROR))
        result = get(row, Result.NEXT)


@inlined
def count_fetch(
    cx: int, version: int, request_bytes: int, answer_bytes: int, record_bytes: int, by_sendfile: int, partitions: int,
    arrived_ns: int,
) -> None:  # fmt: skip
    """A Fetch request has been answered by the kernel, without any error. partitions: in the answer."""
    metrics = get(cx, Context.METRICS)
    count_request(metrics, ApiKey.FETCH, version, request_bytes)
    add(metrics + 8 * (ml.RESPONSE_BYTES + ApiKey.FETCH), answer_bytes)
    add(metrics + 8 * ml.FETCHED_BYTES, record_bytes)
    add(metrics + 8 * ml.SENT_BY_SENDFILE, by_sendfile)
    add(metrics + 8 * ml.SENT_BY_COPY, record_bytes - by_sendfile)
    add(metrics + 8 * (ml.ERRORS + ApiKey.FETCH * ml.ERROR_COUNT + 1), max(partitions, 1))
    observe_phase(metrics, ApiKey.FETCH, ml.PHASE_TOTAL, _now_ns(cx) - arrived_ns)


@inlined
def count_response(cx: int, api: int, size: int) -> None:
    """Bytes of an answer."""
    add(get(cx, Context.METRICS) + 8 * (ml.RESPONSE_BYTES + api), size)


@inlined
def count_queued(cx: int, connection_row: int) -> None:
    """A Produce request is taken now; its last byte came with the connection's last ones."""
    _observe_alike(
        cx, Phase.QUEUE, ml.PHASE_QUEUE, get(cx, Context.NOW_NS) - get(connection_row, Connection.LAST_NS)
    )


@inlined
def count_completion(cx: int, result_row: int, entry: int) -> None:
    """The IO worker has completed the batch of a result row. entry: address of the completion."""
    written_ns = get(entry, Completion.NANOSECONDS)
    request = get(cx, Context.REQUESTS) + get(result_row, Result.REQUEST) * Request.STRIDE
    _observe_alike(cx, Phase.APPEND, ml.PHASE_APPEND, written_ns - get(request, Request.RECEIVED_NS))
    _observe_alike(cx, Phase.RESPOND, ml.PHASE_RESPOND, get(cx, Context.NOW_NS) - written_ns)


@inlined
def parse_begins(cx: int) -> int:
    """CLOCK_MONOTONIC for one Produce in 32, 0 for the others."""
    if not MEASURED or get(cx, Context.STAT_REQUESTS) & PARSE_SAMPLE != 0:
        return 0
    return _now_ns(cx)


@inlined
def parse_ends(cx: int, began_ns: int) -> None:
    """The request that ``parse_begins`` was asked about has been taken."""
    if began_ns != 0:
        observe_phase(get(cx, Context.METRICS), ApiKey.PRODUCE, ml.PHASE_PARSE, _now_ns(cx) - began_ns)


@inlined
def _now_ns(cx: int) -> int:
    scratch = get(cx, Context.SCRATCH)
    clock_gettime(1, scratch)
    return load_i64(scratch) * 1_000_000_000 + load_i64(scratch + 8)


@kernel("void(int64, int64, int64, int64, int64, int64, int64, int64)")
def count_answer(
    metrics: int, api: int, version: int, request_bytes: int, response_bytes: int, queued_ns: int, local_ns: int,
    total_ns: int,
) -> None:  # fmt: skip
    """A request that Python served has been answered."""
    count_request(metrics, api, version, request_bytes)
    add(metrics + 8 * (ml.RESPONSE_BYTES + api), response_bytes)
    observe_phase(metrics, api, ml.PHASE_QUEUE, queued_ns)
    observe_phase(metrics, api, ml.PHASE_LOCAL, local_ns)
    observe_phase(metrics, api, ml.PHASE_TOTAL, total_ns)
