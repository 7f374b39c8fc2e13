"""Raw fetch from the page cache: large ranges, the zero-copy path, and small ones, the cost of a
request."""

from bench import limits
from bench.scenario import Scenario, client_cpu, cpu_per_gb, cpu_per_message, latency, megabytes, rate
from bench.turn import Measures, Turn

PARTITIONS = 8
LARGE_BYTES = 1 << 20
LARGE_CONNECTIONS = 8
SMALL_BYTES = 4096
SMALL_CONNECTIONS = 50


def large_bytes(turn: Turn) -> int:
    return turn.size.cached_bytes // 4


def large(turn: Turn) -> Measures:
    total = large_bytes(turn)
    topic = turn.cached_topic("fetched-large", PARTITIONS, lambda name: turn.fill(name, total, records=63))
    load = turn.load(
        "fetch", topic=topic, connections=LARGE_CONNECTIONS, max_bytes=LARGE_BYTES, **turn.timed()
    )
    return load.throughput()


def small(turn: Turn) -> Measures:
    """Batches of 4,000 bytes, so that an answer of 4 KiB holds one."""
    total = turn.size.cached_bytes // 8
    topic = turn.cached_topic(
        "fetched-small", PARTITIONS, lambda name: turn.fill(name, total, 4, value_bytes=970)
    )
    load = turn.load(
        "fetch",
        topic=topic,
        connections=SMALL_CONNECTIONS,
        max_bytes=SMALL_BYTES,
        verify_every=64,
        **turn.timed(),
    )
    return {**load.rate("requests"), **load.latency("fetch")}


SCENARIOS = (
    Scenario(
        "fetch_1m",
        "raw fetch, 1 MiB x 8 connections",
        (
            megabytes(1.0),
            cpu_per_gb(1.0),
            client_cpu("s/GB"),
        ),
        large,
        kind="fetch",
        limit=limits.sendfile(large_bytes, LARGE_BYTES, LARGE_CONNECTIONS, goal=0.95),
    ),
    Scenario(
        "fetch_4k",
        "raw fetch, 4 KiB x 50 connections",
        (
            rate(1.3, "requests/s"),
            cpu_per_message(0.7, "request"),
            latency("p99", what="fetch"),
            client_cpu(),
        ),
        small,
        kind="fetch",
        limit=limits.answer_of(SMALL_BYTES, SMALL_CONNECTIONS),
    ),
)
