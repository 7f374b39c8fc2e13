"""End to end at 1,000 records a second: from when a record was due to when a waiting consumer holds
it."""

from bench.scenario import Scenario, cpu_per_message, latency, lateness
from bench.turn import Measures, Turn

WHAT = "end to end"


def run(turn: Turn) -> Measures:
    topic = turn.topic("end-to-end", partitions=1)
    load = turn.load("paced", topic=topic, rate=1000, connections=10, consumer=1, **turn.timed(2))
    return {
        **load.latency(WHAT.replace(" ", "_"), "end_to_end_us"),
        "cpu_us": load.rate()["cpu_us"],
        **load.lateness(),
    }


SCENARIO = Scenario(
    "end_to_end",
    "end to end at 1,000/s",
    (
        latency("p50", 1.0, WHAT),
        latency("p99", 0.5, WHAT),
        latency("p999", None, WHAT),
        cpu_per_message(),
        lateness(),
    ),
    run,
    kind="end to end",
)
