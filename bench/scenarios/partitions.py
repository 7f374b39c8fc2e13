"""Produce over 1,000 partitions: each request carries one record for each of a tenth of them."""

from bench import limits
from bench.scenario import Scenario, client_cpu, cpu_per_message, latency, rate
from bench.turn import Measures, Turn

CONNECTIONS = 10
WARM_ROUNDS = 200
"""Apache Kafka flushes several small files of a partition after its first append; this waits until
it is through."""


def run(turn: Turn) -> Measures:
    topic = turn.topic("wide", turn.size.partitions)
    load = turn.load(
        "produce",
        topic=topic,
        connections=CONNECTIONS,
        partitions_per_request=turn.size.partitions // CONNECTIONS,
        value_bytes=100,
        warm_rounds=WARM_ROUNDS,
        **turn.timed(),
    )
    return {**load.rate(), **load.latency()}


SCENARIO = Scenario(
    "partitions",
    "produce over {partitions:,} partitions",
    (rate(1.0), cpu_per_message(), latency("p99"), client_cpu()),
    run,
    kind="produce",
    limit=limits.echo("records"),
)
