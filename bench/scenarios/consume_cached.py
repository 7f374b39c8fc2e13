"""Consume 1 KB records that are in the page cache; the first quarter is warm-up."""

from bench import limits
from bench.scenario import Scenario, client_cpu, cpu_per_gb, megabytes
from bench.turn import Measures, Turn

CLIENT = "fetch.wait.max.ms=100,queued.min.messages=1000000,queued.max.messages.kbytes=131072,fetch.queue.backoff.ms=5"


def run(turn: Turn) -> Measures:
    topic = turn.cached_topic("consumed", 4, lambda name: turn.fill(name, turn.size.cached_bytes, records=64))
    return turn.load("rd-consume", topic=topic, set=CLIENT).throughput()


SCENARIO = Scenario(
    "consume_1kb",
    "consume 1 KB from cache (librdkafka)",
    (megabytes(1.0), cpu_per_gb(0.8), client_cpu("s/GB")),
    run,
    kind="fetch",
    limit=limits.sendfile(lambda turn: turn.size.cached_bytes // 4, 1 << 20, connections=1),
)
