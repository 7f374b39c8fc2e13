"""A fresh broker with no data: time to its first answer, memory idle, and memory after a fixed
load."""

import time

from bench.measure import pss_bytes
from bench.scenario import Measure, Scenario
from bench.turn import Measures, Turn

MEGABYTE = 1e6


def run(turn: Turn) -> Measures:
    with turn.fresh_broker() as broker:
        broker.prepare()
        broker.launch()
        ready = broker.wait_ready()
        time.sleep(turn.size.settle_seconds)
        idle = pss_bytes(broker.pid)
        beside = turn.beside(broker)
        loaded = max(load_memory(beside))
    return {"ready_s": ready, "idle_mb": idle / MEGABYTE, "loaded_mb": loaded / MEGABYTE}


def load_memory(turn: Turn) -> list[int]:
    """PSS after batched produce, small requests of 250 connections, and fetches of what was
    written."""
    topic = turn.topic("loaded", partitions=8)
    seconds = turn.size.seconds
    bulk = turn.load(
        "produce", topic=topic, connections=8, records=100, value_bytes=1024, warm=0, seconds=seconds,
        max_bytes=turn.size.produced_bytes,
    )  # fmt: skip
    small = turn.load("produce", topic=topic, connections=250, warm=0, seconds=seconds)
    read = turn.load("fetch", topic=topic, connections=16, warm=0, seconds=seconds)
    return [bulk.broker_pss, small.broker_pss, read.broker_pss]


SCENARIO = Scenario(
    "start",
    "cold start and memory",
    (
        Measure("ready_s", "time to the first answer", "s", "lower", 0.6),
        Measure("idle_mb", "memory idle (PSS)", "MB", "lower", 0.6),
        Measure("loaded_mb", "memory loaded (PSS)", "MB", "lower", 0.4),
    ),
    run,
    new_broker=True,
)
