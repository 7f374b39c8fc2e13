"""Compaction of one log of updates: its speed and cost, and its effect on produce to other
topics."""

import re
import time
from pathlib import Path
from threading import Timer

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from bench import limits
from bench.generator import LoadFailed
from bench.measure import cpu_seconds
from bench.scenario import Measure, Scenario, cpu_per_gb, megabytes
from bench.targets import Target
from bench.turn import Measures, Turn

KEYS = 100_000
VALUE_BYTES = 1000
SEGMENT_BYTES = 32 << 20
PATIENCE_S = 240
BEGIN_S = 0.1
"""Seconds of the measured part before the other log becomes compacted."""


def fill(turn: Turn, topic: str, total_bytes: int) -> int:
    """Updates of KEYS keys, uncompressed; bytes of the closed segments."""
    producer = Producer(
        {
            "bootstrap.servers": f"127.0.0.1:{turn.target.port}",
            "linger.ms": 20,
            "batch.size": 200_000,
            "queue.buffering.max.kbytes": 65_536,
        }
    )
    value = b"v" * VALUE_BYTES
    for number in range(total_bytes // (VALUE_BYTES + 20)):
        key = b"key-%08d" % (number * 7919 % KEYS)
        while True:
            try:
                producer.produce(topic, value, key, partition=0)
                break
            except BufferError:
                producer.poll(0.05)
        if number % 1000 == 0:
            producer.poll(0)
    if producer.flush(120):
        raise LoadFailed("not everything was produced")
    sizes = sorted((path.name, path.stat().st_size) for path in logs(turn.target, topic))
    return sum(size for _, size in sizes[:-1])


def logs(target: Target, topic: str) -> list[Path]:
    return list((target.data_dir / f"{topic}-0").glob("*.log"))


def begin(turn: Turn, topic: str) -> None:
    """Set cleanup.policy=compact, so that the cleaner begins with the topic's log."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    for name, value in (("cleanup.policy", "compact"), ("min.cleanable.dirty.ratio", "0.001")):
        resource.add_incremental_config(ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET))
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{turn.target.port}", "log_level": 3})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(30)


def wait(turn: Turn, topic: str) -> None:
    """Wait until all segments but the active one are cleaned."""
    active = max(int(path.stem) for path in logs(turn.target, topic))
    checkpoint = turn.target.data_dir / "cleaner-offset-checkpoint"
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        text = checkpoint.read_text() if checkpoint.exists() else ""
        found = re.search(rf"^{re.escape(topic)} 0 (\d+)$", text, re.MULTILINE)
        if found and int(found[1]) >= active:
            return
        time.sleep(0.02)
    raise LoadFailed(f"{topic} was not compacted in {PATIENCE_S} s")


def alone(turn: Turn) -> Measures:
    topic = turn.topic("updates", 1, {"segment.bytes": str(SEGMENT_BYTES)})
    total = fill(turn, topic, turn.size.cached_bytes // 4)
    turn.sync()
    pid = turn.target.pid
    begun, cpu = time.monotonic(), cpu_seconds(pid)
    begin(turn, topic)
    wait(turn, topic)
    seconds, cpu = time.monotonic() - begun, cpu_seconds(pid) - cpu
    return {"mb_per_s": total / 1e6 / seconds, "cpu_s_per_gb": cpu / (total / 1e9)}


def with_produce(turn: Turn) -> Measures:
    """Acks at 1,000 records a second, first alone, then while a log is
    compacted."""
    updates = turn.topic("updates", 1, {"segment.bytes": str(SEGMENT_BYTES)})
    fill(turn, updates, turn.size.cached_bytes // 4)
    acks = turn.topic("acks", 8)
    turn.sync()
    paced = {"topic": acks, "rate": 1000, "connections": 10, **turn.timed(1.5)}
    quiet = turn.load("paced", **paced).latency()["ack_p99_ms"]
    # a log is compacted in less time than the warm-up takes, and what counts is how it is meanwhile
    later = Timer(turn.size.warm_seconds + BEGIN_S, begin, (turn, updates))
    later.start()
    busy = turn.load("paced", **paced).latency()["ack_p99_ms"]
    later.join()
    wait(turn, updates)
    return {"ack_p99_ms": busy, "quiet_p99_ms": quiet, "slower": busy / quiet}


SCENARIOS = (
    Scenario(
        "compaction",
        "compaction of updates",
        (megabytes(1.5), cpu_per_gb(0.6)),
        alone,
        kind="compaction",
        limit=limits.copy(),
    ),
    Scenario(
        "produce_compaction",
        "ack latency during compaction",
        (
            Measure("ack_p99_ms", "ack p99 during compaction", "ms", "lower"),
            Measure("quiet_p99_ms", "ack p99 before it", "ms", "lower"),
            Measure("slower", "p99 during it / before it", "times", "lower", 1.5, absolute=True),
        ),
        with_produce,
        kind="compaction",
    ),
)
