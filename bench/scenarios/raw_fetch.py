"""Raw fetch from the page cache: large ranges, the zero-copy path, and small ones, the cost of a request."""

import itertools

from bench.scenario import (
    Measure,
    Measures,
    Scenario,
    client_cpu,
    cpu_per_gb,
    cpu_per_message,
    latency,
    megabytes,
    rate,
)
from bench.turn import Turn

PARTITIONS = 8
LARGE_BYTES = 1 << 20
LARGE_CONNECTIONS = 8
SEND_BUFFERS = (0, 102400, 1 << 20)
CONGESTION_CONTROLS = ("", "reno")
"""Which ones are best differs by machine (0, "": the kernel's own); a bare loop counts with its best."""


def large(turn: Turn) -> Measures:
    """The bare sendfile loop of the same bytes runs in the same turn: the physical limit."""
    total = turn.size.cached_bytes // 4
    topic = turn.kept_topic("fetched-large", PARTITIONS, lambda name: turn.fill(name, total, records=63))
    load = turn.load(
        "fetch", topic=topic, connections=LARGE_CONNECTIONS, max_bytes=LARGE_BYTES, **turn.timed()
    )
    figures = load.throughput()
    for key, threads in (("bare", 1), ("bare_2", 2)):
        ways = itertools.product(SEND_BUFFERS, CONGESTION_CONTROLS)
        best = max(bare_sendfile(turn, total, threads, *way) for way in ways)
        figures[f"{key}_mb_per_s"] = best
        figures[f"of_{key}"] = figures["mb_per_s"] / best
    return figures


def bare_sendfile(turn: Turn, file_bytes: int, threads: int, send_buffer: int, congestion: str) -> float:
    """MB/s of a sendfile loop that answers nobody's requests."""
    options = {
        "folder": turn.target.folder,
        "connections": LARGE_CONNECTIONS,
        "file_bytes": file_bytes,
        "chunk": LARGE_BYTES,
        "threads": threads,
        "send_buffer": send_buffer,
        "congestion_control": congestion,
        "seconds": max(turn.size.seconds / 8, 0.3),
    }
    bare = turn.generator.run("bare-sendfile", options)
    return float(bare["bytes"]) / float(bare["seconds"]) / 1e6


def small(turn: Turn) -> Measures:
    """Batches of 4,000 bytes, so that an answer of 4 KiB holds one."""
    total = turn.size.cached_bytes // 8
    topic = turn.kept_topic(
        "fetched-small", PARTITIONS, lambda name: turn.fill(name, total, 4, value_bytes=970)
    )
    load = turn.load("fetch", topic=topic, connections=50, max_bytes=4096, verify_every=64, **turn.timed())
    return {**load.rate("requests"), **load.latency("fetch")}


SCENARIOS = (
    Scenario(
        "fetch_1m",
        "raw fetch, 1 MiB x 8 connections",
        (
            megabytes(1.0),
            cpu_per_gb(1.0),
            Measure("of_bare", "share of a bare sendfile loop", "", "higher", 0.85, absolute=True),
            Measure("bare_mb_per_s", "that loop", "MB/s", "higher"),
            Measure("of_bare_2", "share of two such loops side by side", "", "higher"),
            Measure("bare_2_mb_per_s", "those loops", "MB/s", "higher"),
            client_cpu("s/GB"),
        ),
        large,
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
    ),
)
