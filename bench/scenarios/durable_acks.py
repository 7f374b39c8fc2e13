"""acks=all that means "on disk": 64 producers with one record each in flight, every ack after an
fdatasync.

Apache Kafka's way is flush.messages=1, a sync of each append by itself; kbroker's is
write.caching=false, where one sync serves all appends that wait.
"""

from bench import limits
from bench.scenario import Scenario, client_cpu, cpu_per_message, latency, rate
from bench.turn import Measures, Turn

PRODUCERS = 64
PARTITIONS = 8
DURABLE = {"kafka": {"flush.messages": "1"}, "kbroker": {"write.caching": "false"}}


def run(turn: Turn) -> Measures:
    topic = turn.topic("durable", PARTITIONS, DURABLE[turn.target.name])
    load = turn.load(
        "produce", topic=topic, connections=PRODUCERS, in_flight=1, value_bytes=100, **turn.timed()
    )
    return {**load.rate("requests"), **load.latency()}


SCENARIO = Scenario(
    "durable_acks",
    "durable acks: 64 producers, one record in flight each, answered when on disk",
    (rate(5.0, "requests/s"), cpu_per_message(None, "request"), latency("p50"), latency("p99"), client_cpu()),
    run,
    kind="produce",
    limit=limits.durable(goal=0.8),
)
