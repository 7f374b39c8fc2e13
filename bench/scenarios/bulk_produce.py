"""Large batches as fast as they are taken."""

from bench import limits
from bench.scenario import Scenario, client_cpu, cpu_per_gb, megabytes
from bench.turn import Measures, Turn

RECORDS = 500
PARTITIONS = 4


def run(turn: Turn) -> Measures:
    topic = turn.topic("bulk", PARTITIONS)
    turn.touch_memory(turn.size.produced_bytes)
    load = turn.load(
        "produce",
        topic=topic,
        connections=8,
        records=RECORDS,
        value_bytes=1024,
        max_bytes=turn.size.produced_bytes,
        warm=turn.size.warm_seconds / 2,
        seconds=turn.size.seconds,
    )
    return load.throughput()


SCENARIO = Scenario(
    "bulk_produce",
    "512 KB batches, 8 raw connections",
    (megabytes(), cpu_per_gb(), client_cpu("s/GB")),
    run,
    kind="batches",
    limit=limits.produce("mb_per_s", "bytes", goal=0.8),
)
