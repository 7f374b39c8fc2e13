"""Batched 100 B produce, as a log shipper does it. librdkafka fills batches as fast as it can."""

from bench import limits
from bench.scenario import Scenario, client_cpu, cpu_per_message, rate
from bench.turn import Measures, Turn

CLIENT = "acks=all,linger.ms=5,batch.num.messages=10000,queue.buffering.max.messages=500000"
# what its batches come to, over as many connections
RAW = {"connections": 1, "in_flight": 5, "records": 9000, "value_bytes": 100}


def run(turn: Turn) -> Measures:
    topic = turn.topic("batched", partitions=4)
    turn.touch_memory(turn.size.produced_bytes)
    load = turn.load(
        "rd-produce",
        topic=topic,
        value_bytes=100,
        set=CLIENT,
        max_bytes=turn.size.produced_bytes,
        **turn.timed(),
    )
    return load.rate()


SCENARIO = Scenario(
    "batched_100b",
    "batched 100 B produce (librdkafka)",
    (rate(1.0), cpu_per_message(0.5), client_cpu()),
    run,
    kind="batches",
    limit=limits.produce("rate", "records", RAW),
)
