"""Acks at 1,000/s while the broker does everything else: bulk produce, a cold reader, compaction,
retention, rebalances, and scrapes."""

import asyncio
import re
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event

from bench.generator import LoadFailed
from bench.members import gather_group, rebalance
from bench.scenario import Measure, Scenario, latency, lateness
from bench.scenarios import compaction
from bench.scenarios.cold_reader import cold_topic
from bench.targets import Target
from bench.turn import Measures, Turn

BULK = {"connections": 2, "records": 63, "value_bytes": 1024, "warm": 0}
RETAINED_BYTES = 64 << 20
SEGMENT_BYTES = 16 << 20
MEMBERS = 20
GATHERED_S = 60
SCRAPE_S = 1.0
HTTP = re.compile(r"http://(127\.0\.0\.1:\d+)/metrics")


def run(turn: Turn) -> Measures:
    updates = turn.topic("updates", 1, {"segment.bytes": str(compaction.SEGMENT_BYTES)})
    compaction.fill(turn, updates, turn.size.cached_bytes // 4)
    sizes = {"retention.bytes": str(RETAINED_BYTES), "segment.bytes": str(SEGMENT_BYTES)}
    bulk = turn.topic("bulk", 4, sizes)
    acks = turn.topic("acks", 8)
    turn.sync()
    cold, _ = cold_topic(turn)
    compaction.begin(turn, updates)
    seconds = turn.size.warm_seconds + 2 * turn.size.seconds
    load = {"port": turn.target.port, "topic": bulk, **BULK, "seconds": seconds + 1}
    gathered = Event()
    with beside(lambda ended: asyncio.run(_rebalances(turn, gathered, ended))) as rebalances:
        if not gathered.wait(GATHERED_S):
            raise LoadFailed(f"a group of {MEMBERS} has not gathered in {GATHERED_S} s")
        with beside(
            lambda _: int(turn.generator.run("produce", load)["bytes"]),
            lambda ended: _scrapes(turn.target, ended),
            lambda _: _cold_reads(turn, cold, seconds),
        ) as done:
            time.sleep(0.2)
            result = turn.load("paced", topic=acks, rate=1000, connections=10, watch_stops=1, **turn.timed(2))
    compaction.wait(turn, updates)
    return {
        **result.latency(),
        **result.lateness(),
        **result.running(),
        "bulk_mb_per_s": done[0] / seconds / 1e6,
        "rebalances": rebalances[0],
        "cold_mb": done[2] / 1e6,
    }


@contextmanager
def beside(*works: Callable[[Event], int]) -> Iterator[list[int]]:
    """Works that run until the block has ended; then their results are in the list."""
    ended = Event()
    results: list[int] = []
    with ThreadPoolExecutor(len(works)) as pool:
        running = [pool.submit(work, ended) for work in works]
        try:
            yield results
        finally:
            ended.set()
        results += [each.result() for each in running]


async def _rebalances(turn: Turn, gathered: Event, ended: Event) -> int:
    count = 0
    members = await gather_group(turn.target.port, f"restless-{turn.number}", MEMBERS)
    gathered.set()
    while not ended.is_set():
        await rebalance(members)
        count += 1
        await asyncio.sleep(0.2)
    for member in members:
        await member.close()
    return count


def _scrapes(target: Target, ended: Event) -> int:
    """Scrapes of kbroker's metrics; Apache Kafka has no such port."""
    found = HTTP.search(target.log_tail(1 << 20))
    count = 0
    while not ended.wait(SCRAPE_S):
        if found:
            with urllib.request.urlopen(found[0], timeout=10) as answer:
                answer.read()
            count += 1
    return count


def _cold_reads(turn: Turn, topic: str, seconds: float) -> int:
    """Bytes that a client reads from the start of a topic, in answers of 1 MiB."""
    options = {"port": turn.target.port, "topic": topic, "connections": 1, "max_bytes": 1 << 20}
    times = {"warm": 0, "seconds": seconds, "verify_every": 256}
    return int(turn.generator.run("fetch", {**options, **times})["bytes"])


SCENARIO = Scenario(
    "everything",
    "ack latency beside bulk produce, cold reads, compaction, retention, rebalances and scrapes at once",
    (
        latency("p50"),
        latency("p99"),
        Measure("ack_p999_ms", "ack p99.9", "ms", "lower", 5.0, absolute=True),
        lateness(),
        Measure("running_p999_ms", "ack p99.9 of those that no stop of a processor touched", "ms", "lower"),
        Measure("stopped_ms", "processors stopped by the host meanwhile", "ms", "lower"),
        Measure("bulk_mb_per_s", "the bulk producer", "MB/s", "higher"),
        Measure("cold_mb", "read by the cold reader", "MB", "higher"),
        Measure("rebalances", "rebalances meanwhile", "", "higher"),
    ),
    run,
    kind="produce",
)
