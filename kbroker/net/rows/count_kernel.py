"""Metrics of requests, counted where they are answered: a few stores into this process's row of
slots.

Times come from the clock that the pump reads once a round, so counting reads no clock. All requests
of one round have the same time, so a run of them is added to a histogram in one step.
"""

from kbroker.ipc.layout import Completion
from kbroker.kernels.cache import MEASURED
from kbroker.kernels.codes import ApiKey
from kbroker.kernels.jit import inlined, kernel
from kbroker.kernels.libc import CLOCK_MONOTONIC, clock_ns
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
def _observe_run(cx: int, run: int, phase: int, nanoseconds: int) -> None:
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
    _end_run(cx, Phase.FLUSH, ml.PHASE_FLUSH)
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
def _count_stages(cx: int, request: int) -> None:
    """The phases of a Produce request: their sum is its total. Nothing was written of one that was
    refused."""
    queued = max(0, get(request, Request.QUEUED_NS))
    received_ns = get(request, Request.RECEIVED_NS)
    written_ns = max(received_ns, get(request, Request.WRITTEN_NS))
    ended_ns = max(written_ns, get(request, Request.ENDED_NS))
    now_ns = max(ended_ns, get(cx, Context.NOW_NS))
    _observe_run(cx, Phase.QUEUE, ml.PHASE_QUEUE, queued)
    _observe_run(cx, Phase.APPEND, ml.PHASE_APPEND, written_ns - received_ns)
    _observe_run(cx, Phase.FLUSH, ml.PHASE_FLUSH, ended_ns - written_ns)
    _observe_run(cx, Phase.RESPOND, ml.PHASE_RESPOND, now_ns - ended_ns)
    _observe_run(cx, Phase.TOTAL, ml.PHASE_TOTAL, queued + now_ns - received_ns)


@inlined
def count_produce(cx: int, number: int) -> None:
    """A Produce request has been answered."""
    metrics = get(cx, Context.METRICS)
    request = get(cx, Context.REQUESTS) + number * Request.STRIDE
    count_request(metrics, ApiKey.PRODUCE, get(request, Request.VERSION), get(request, Request.FRAME_BYTES))
    _count_stages(cx, request)
    result = get(request, Request.RESULT)
    while result >= 0:
        row = get(cx, Context.RESULTS) + result * Result.STRIDE
        count_error(metrics, ApiKey.PRODUCE, get(row, Result.ERROR))
        result = get(row, Result.NEXT)


@inlined
def count_fetch(
    cx: int, version: int, request_bytes: int, answer_bytes: int, record_bytes: int, by_sendfile: int, partitions: int,
) -> None:  # fmt: skip
    """A Fetch request has been answered by the kernel, without any error. partitions: in the
    answer."""
    metrics = get(cx, Context.METRICS)
    count_request(metrics, ApiKey.FETCH, version, request_bytes)
    add(metrics + 8 * (ml.RESPONSE_BYTES + ApiKey.FETCH), answer_bytes)
    add(metrics + 8 * ml.FETCHED_BYTES, record_bytes)
    add(metrics + 8 * ml.SENT_BY_SENDFILE, by_sendfile)
    add(metrics + 8 * ml.SENT_BY_COPY, record_bytes - by_sendfile)
    add(metrics + 8 * (ml.ERRORS + ApiKey.FETCH * ml.ERROR_COUNT + 1), max(partitions, 1))


@inlined
def fetch_waits(row: int, began_ns: int) -> None:
    """Remember that a Fetch waits for bytes. row: its connection."""
    put(row, Connection.QUEUED_NS, began_ns - get(row, Connection.LAST_NS))
    put(row, Connection.BEGAN_NS, began_ns)


@inlined
def fetch_built(cx: int, row: int, began_ns: int, waited: bool) -> None:
    """Count the times of a fetch whose answer is built. began_ns: when the kernel began with it,
    for the second time if it has waited."""
    if MEASURED:
        queued = get(row, Connection.QUEUED_NS) if waited else began_ns - get(row, Connection.LAST_NS)
        queued = max(0, queued)
        waiting = began_ns - get(row, Connection.BEGAN_NS) if waited else 0
        now_ns = monotonic_ns(cx)
        metrics = get(cx, Context.METRICS)
        observe_phase(metrics, ApiKey.FETCH, ml.PHASE_QUEUE, queued)
        observe_phase(metrics, ApiKey.FETCH, ml.PHASE_PURGATORY, waiting)
        observe_phase(metrics, ApiKey.FETCH, ml.PHASE_LOCAL, now_ns - began_ns)
        observe_phase(metrics, ApiKey.FETCH, ml.PHASE_COLD_READ, 0)
        put(row, Connection.QUEUED_NS, queued + waiting + now_ns - began_ns)
        put(row, Connection.BEGAN_NS, now_ns)


@inlined
def fetch_sent(cx: int, row: int) -> None:
    """All of its answer is sent, or the connection has failed."""
    if MEASURED:
        sending = monotonic_ns(cx) - get(row, Connection.BEGAN_NS)
        metrics = get(cx, Context.METRICS)
        observe_phase(metrics, ApiKey.FETCH, ml.PHASE_SEND, sending)
        observe_phase(metrics, ApiKey.FETCH, ml.PHASE_TOTAL, get(row, Connection.QUEUED_NS) + sending)


@inlined
def count_response(cx: int, api: int, size: int) -> None:
    """Bytes of an answer."""
    add(get(cx, Context.METRICS) + 8 * (ml.RESPONSE_BYTES + api), size)


@inlined
def count_completion(cx: int, result_row: int, entry: int) -> None:
    """The IO worker has completed the batch of a result row. entry: address of the completion."""
    if MEASURED:
        ended_ns = get(entry, Completion.NANOSECONDS)
        request = get(cx, Context.REQUESTS) + get(result_row, Result.REQUEST) * Request.STRIDE
        written_ns = ended_ns - get(entry, Completion.HELD_NS)
        put(request, Request.WRITTEN_NS, max(get(request, Request.WRITTEN_NS), written_ns))
        put(request, Request.ENDED_NS, max(get(request, Request.ENDED_NS), ended_ns))


@inlined
def parse_begins(cx: int) -> int:
    """CLOCK_MONOTONIC for one Produce in 32, 0 for the others."""
    if not MEASURED or get(cx, Context.STAT_REQUESTS) & PARSE_SAMPLE != 0:
        return 0
    return monotonic_ns(cx)


@inlined
def parse_ends(cx: int, began_ns: int) -> None:
    """The request that ``parse_begins`` was asked about has been taken."""
    if began_ns != 0:
        observe(get(cx, Context.METRICS) + 8 * ml.PARSE_SECONDS, monotonic_ns(cx) - began_ns)


@inlined
def monotonic_ns(cx: int) -> int:
    """CLOCK_MONOTONIC now; the pump's own reading is that of the round."""
    return clock_ns(CLOCK_MONOTONIC, get(cx, Context.SCRATCH))


@kernel("void(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def count_answer(
    metrics: int, api: int, version: int, request_bytes: int, response_bytes: int, queued_ns: int, local_ns: int,
    purgatory_ns: int, cold_ns: int, send_ns: int,
) -> None:  # fmt: skip
    """A request that Python served has been answered. Among them are a few Produce requests, of
    which nothing was written."""
    count_request(metrics, api, version, request_bytes)
    add(metrics + 8 * (ml.RESPONSE_BYTES + api), response_bytes)
    observe_phase(metrics, api, ml.PHASE_QUEUE, queued_ns)
    if api == ApiKey.PRODUCE:
        observe_phase(metrics, api, ml.PHASE_APPEND, local_ns)
        observe_phase(metrics, api, ml.PHASE_FLUSH, 0)
        observe_phase(metrics, api, ml.PHASE_RESPOND, send_ns)
    else:
        observe_phase(metrics, api, ml.PHASE_LOCAL, local_ns)
        observe_phase(metrics, api, ml.PHASE_SEND, send_ns)
    if api == ApiKey.FETCH:
        observe_phase(metrics, api, ml.PHASE_PURGATORY, purgatory_ns)
        observe_phase(metrics, api, ml.PHASE_COLD_READ, cold_ns)
    observe_phase(metrics, api, ml.PHASE_TOTAL, queued_ns + local_ns + purgatory_ns + cold_ns + send_ns)


@inlined
def count_sent(metrics: int, api: int, before_ns: int, send_ns: int) -> None:
    """The end of an answer from control: the times of all stages before, and of the sending."""
    observe_phase(metrics, api, ml.PHASE_SEND, send_ns)
    observe_phase(metrics, api, ml.PHASE_TOTAL, before_ns + send_ns)


@kernel("void(int64, int64, int64, int64)")
def count_sent_late(metrics: int, api: int, before_ns: int, send_ns: int) -> None:
    """`count_sent` from Python: the socket did not take it at once."""
    count_sent(metrics, api, before_ns, send_ns)
