"""Clean shutdown and restart with 1,000 partitions that hold data."""

import time

from bench.scenario import Measure, Scenario
from bench.turn import Measures, Turn


def run(turn: Turn) -> Measures:
    partitions = turn.size.partitions
    with turn.fresh_broker() as broker:
        broker.prepare()
        broker.launch()
        broker.wait_ready()
        topic = turn.beside(broker).topic("restarted", partitions)
        turn.beside(broker).load(
            "produce",
            topic=topic,
            connections=10,
            partitions_per_request=partitions // 10,
            warm=0.1,
            seconds=0.5,
        )
        begun = time.monotonic()
        broker.stop()
        stopped = time.monotonic() - begun
        broker.launch()
        ready = broker.wait_ready(topic, partitions)
    return {"ready_s": ready, "stop_s": stopped}


SCENARIO = Scenario(
    "restart",
    "restart with {partitions:,} partitions",
    (
        Measure("ready_s", "time until all partitions answer", "s", "lower", 0.3),
        Measure("stop_s", "orderly stop before it", "s", "lower"),
    ),
    run,
    new_broker=True,
)
