"""kill -9 with many unsynced bytes, and a restart: the time until every partition answers, and its
cost.

KBROKER_BENCH_RECOVERY_GB (10 in docs/durability.md's figures) sets the amount; otherwise it is that
of the run's size.
"""

import os
import time

from bench.measure import cpu_seconds, tree_pids
from bench.scenario import Measure, Scenario
from bench.targets import Target
from bench.turn import Measures, Turn

PARTITIONS = 10
SHORT_SESSION = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "500"}
"""Apache Kafka's controller waits for the dead broker's session (9 s) before the new one may serve:
what is to be measured is recovery."""
ONE_SEGMENT = {"segment.bytes": "2147483647"}  # nothing rolls, so the recovery point stays at the start


def total_bytes(turn: Turn) -> int:
    gigabytes = os.environ.get("KBROKER_BENCH_RECOVERY_GB")
    return turn.size.cold_bytes if gigabytes is None else int(float(gigabytes) * 1e9)


def kill(broker: Target) -> None:
    """kill -9 of the whole tree."""
    assert broker.process is not None
    for pid in tree_pids(broker.pid):
        try:
            os.kill(pid, 9)
        except ProcessLookupError:
            continue
    broker.process.wait()
    broker.process = None


def recover(turn: Turn) -> Measures:
    with turn.fresh_broker() as broker:
        broker.extra = broker.only_kafka(SHORT_SESSION)
        broker.launch()
        broker.wait_ready()
        beside = turn.beside(broker)
        topic = beside.topic("recovered", PARTITIONS, ONE_SEGMENT)
        size = total_bytes(turn)
        beside.fill(topic, size, records=100)
        turn.sync()
        kill(broker)
        broker.launch()
        ready = broker.wait_ready(topic, PARTITIONS, timeout_s=600)
        cpu = cpu_seconds(broker.pid)
    return {"ready_s": ready, "mb_per_s": size / 1e6 / ready, "cpu_s_per_gb": cpu / (size / 1e9)}


def restart(turn: Turn) -> Measures:
    """Orderly stop and start with twice the size's partitions, all of which hold data."""
    partitions = 2 * turn.size.partitions
    with turn.fresh_broker() as broker:
        broker.extra = broker.only_kafka(SHORT_SESSION)
        broker.launch()
        broker.wait_ready()
        beside = turn.beside(broker)
        topic = beside.topic("restarted", partitions)
        beside.load(
            "produce",
            topic=topic,
            connections=10,
            partitions_per_request=partitions // 10,
            warm=0.1,
            seconds=0.5,
        )
        broker.stop(120)
        broker.launch()
        ready = broker.wait_ready(topic, partitions, timeout_s=300)
        cpu = cpu_seconds(broker.pid)
    return {"ready_s": ready, "cpu_s": cpu}


def produce_meanwhile(turn: Turn) -> Measures:
    """Acks of small logs that are ready at once, while large ones are still being recovered."""
    with turn.fresh_broker() as broker:
        broker.extra = broker.only_kafka(SHORT_SESSION)
        broker.launch()
        broker.wait_ready()
        beside = turn.beside(broker)
        large = beside.topic("recovered", PARTITIONS, ONE_SEGMENT)
        small = beside.topic("acks", 8)
        paced = {"topic": small, "rate": 1000, "connections": 10, **turn.timed()}
        quiet = beside.load("paced", **paced).latency()["ack_p99_ms"]
        beside.fill(large, total_bytes(turn), records=100)
        turn.sync()
        kill(broker)
        broker.launch()
        broker.wait_ready(small, 8, timeout_s=600)
        served = time.monotonic() - broker.launched_at
        busy = beside.load("paced", **paced).latency()["ack_p99_ms"]
        all_ready = broker.wait_ready(large, PARTITIONS, timeout_s=600)
    return {"served_s": served, "all_s": all_ready, "slower": busy / quiet}


SCENARIOS = (
    Scenario(
        "recovery",
        "recovery after kill -9",
        (
            Measure("ready_s", "time until all partitions answer", "s", "lower", 0.5),
            Measure("mb_per_s", "log checked", "MB/s", "higher"),
            Measure("cpu_s_per_gb", "broker CPU per GB", "s/GB", "lower"),
        ),
        recover,
        new_broker=True,
    ),
    Scenario(
        "restart_many",
        "restart with {twice:,} partitions",
        (
            Measure("ready_s", "time until all partitions answer", "s", "lower", 0.3),
            Measure("cpu_s", "broker CPU", "s", "lower"),
        ),
        restart,
        new_broker=True,
    ),
    Scenario(
        "produce_recovery",
        "produce while other logs are recovered",
        (
            Measure("served_s", "time until small logs answer", "s", "lower"),
            Measure("all_s", "time until all do", "s", "lower"),
            Measure("slower", "ack p99 meanwhile / quiet", "times", "lower", 1.5, absolute=True),
        ),
        produce_meanwhile,
        new_broker=True,
    ),
)
