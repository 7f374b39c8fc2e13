"""Ack latency at 1,000 records a second, open loop: time counts from when a record was due."""

from bench import limits
from bench.scenario import Scenario, cpu_per_message, latency, lateness
from bench.turn import Measures, Turn


def run(turn: Turn) -> Measures:
    topic = turn.topic("acks", partitions=8)
    load = turn.load("paced", topic=topic, rate=1000, connections=10, **turn.timed(2))
    return {**load.latency(), "cpu_us": load.rate()["cpu_us"], **load.lateness()}


SCENARIO = Scenario(
    "ack_latency",
    "ack latency at 1,000/s",
    (latency("p50", 1.0), latency("p99", 0.5), latency("p999"), cpu_per_message(), lateness()),
    run,
    kind="produce",
    limit=limits.paced("ack_p50_ms"),
)
