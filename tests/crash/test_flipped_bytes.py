"""One bit is flipped in one file of a broker that was killed: what is served is what was written, or nothing is.

KBROKER_FLIPS files are damaged (each takes a start of the broker); `make crash-matrix` takes more than the tier.
"""

import os
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.peer.kbroker_node import BrokerFailed, KBroker

FLIPS = int(os.environ.get("KBROKER_FLIPS", "3"))
SEED = int(os.environ.get("KBROKER_CRASH_SEED", str(random.SystemRandom().randrange(1 << 30))))
pytestmark = [pytest.mark.crash, pytest.mark.timeout(120 + 20 * FLIPS)]

TOPICS = {"plain": {}, "compacted": {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}}
SETTINGS = {
    "log.roll.ms": "300",
    "log.cleaner.backoff.ms": "100",
    "log.flush.offset.checkpoint.interval.ms": "200",
    "offsets.topic.num.partitions": "1",
}
REFUSALS = ("kbroker.db", "meta.properties", "the store", "cluster", "all log dirs have failed")


def fill(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics(
        [NewTopic(topic, 1, 1, config=config) for topic, config in TOPICS.items()]
    ).values():
        future.result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})
    for number in range(600):
        for topic in TOPICS:
            producer.produce(topic, f"{number}".encode() + b"v" * 100, f"k{number % 50}", partition=0)
        producer.poll(0.002)
    assert producer.flush(30) == 0
    (deleted,) = admin.delete_records([TopicPartition("plain", 0, 7)]).values()
    assert deleted.result(30).low_watermark == 7


def read(bootstrap: str, topic: str, patience_s: float = 8) -> dict[int, tuple[bytes | None, bytes | None]]:
    """Key and value by offset; ends at the first error or the log's end."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "judge",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "check.crcs": True,
            "auto.offset.reset": "earliest",
        }
    )
    found: dict[int, tuple[bytes | None, bytes | None]] = {}
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline:
            for message in consumer.consume(500, 0.5):
                error = message.error()
                if error is None:
                    offset = message.offset()
                    assert offset is not None
                    found[offset] = (message.key(), message.value())
                elif error.code() in (KafkaError._PARTITION_EOF, KafkaError.KAFKA_STORAGE_ERROR):
                    return found
        return found
    finally:
        consumer.close()


def kind_of(path: Path) -> str:
    return path.suffix if path.name[:1].isdigit() else path.name


def test_a_flipped_bit_is_never_served(broker_factory: Callable[..., KBroker]) -> None:
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    broker = broker_factory(SETTINGS)
    fill(broker.bootstrap)
    wanted = {topic: read(broker.bootstrap, topic) for topic in TOPICS}
    assert len(wanted["plain"]) == 593
    time.sleep(1)  # a compaction more, and checkpoints
    wanted["compacted"] = read(broker.bootstrap, "compacted")
    broker.kill9()
    whole = broker.folder / "whole"
    shutil.copytree(broker.data_dir, whole)
    paths = [path for path in whole.rglob("*") if path.is_file() and path.stat().st_size]
    kinds = sorted({kind_of(path) for path in paths})
    for number in range(FLIPS):
        kind = kinds[chance.randrange(len(kinds))] if number else ".log"
        path = chance.choice([path for path in paths if kind_of(path) == kind])
        shutil.rmtree(broker.data_dir)
        shutil.copytree(whole, broker.data_dir)
        damaged = broker.data_dir / path.relative_to(whole)
        content = bytearray(damaged.read_bytes())
        at = chance.randrange(len(content))
        content[at] ^= 1 << chance.randrange(8)
        damaged.write_bytes(content)
        print(f"{number}: {path.relative_to(whole)} at {at} of {len(content)}: {_outcome(broker, wanted)}")


def _outcome(broker: KBroker, wanted: dict[str, dict[int, tuple[bytes | None, bytes | None]]]) -> str:
    seen = len(broker.logs(1 << 30))
    try:
        broker.start()
    except BrokerFailed:
        said = broker.logs(1 << 30)[seen:]
        assert any(word in said for word in REFUSALS), said
        return "the broker refuses to start"
    told = []
    for topic, before in wanted.items():
        found = read(broker.bootstrap, topic)
        wrong = {offset: one for offset, one in found.items() if before.get(offset) not in (one, None)}
        assert not wrong, (topic, dict(list(wrong.items())[:3]))
        told.append(f"{topic} {len(found)} of {len(before)}")
    broker.kill9()
    return ", ".join(told)
