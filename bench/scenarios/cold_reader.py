"""Acks at 1,000/s while another client reads data that is no longer in the page cache."""

from bench import limits
from bench.scenario import Measure, Scenario, latency
from bench.turn import Measures, Turn

MAX_READ_SECONDS = 45


def cold_topic(turn: Turn) -> tuple[str, float]:
    """A filled topic that is no longer in the page cache; the share of it that still is."""
    cold = turn.kept_topic("cold", 2, lambda name: turn.fill(name, turn.size.cold_bytes, records=256))
    resident = left = 0
    for folder in turn.target.data_dir.glob("cold-[0-9]"):
        evicted = turn.generator.run("evict", {"folder": folder})
        left += evicted["resident"]
        resident += evicted["bytes"]
    return cold, left / max(resident, 1)


def run(turn: Turn) -> Measures:
    cold, resident_share = cold_topic(turn)
    topic = turn.topic("beside-cold", partitions=8)
    load = turn.load(
        "paced",
        topic=topic,
        rate=1000,
        connections=10,
        cold_topic=cold,
        warm=turn.size.warm_seconds,
        seconds=MAX_READ_SECONDS,
    )
    return {
        **load.latency(),
        "cold_mb_per_s": load.answer["cold_bytes"] / load.answer["cold_seconds"] / 1e6,
        "resident_share": resident_share,
    }


SCENARIO = Scenario(
    "cold_reader",
    "ack latency beside a client that reads cold data",
    (
        Measure("cold_mb_per_s", "the cold reader", "MB/s", "higher", 1.0),
        latency("p50"),
        latency("p99", 0.3),
        latency("p999"),
        Measure("resident_share", "share still cached at its start", "", "lower"),
    ),
    run,
    kind="fetch",
    limit=limits.cold_read("cold-[0-9]"),
)
