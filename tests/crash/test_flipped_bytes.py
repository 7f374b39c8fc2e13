"""One bit is flipped in one file of a broker that was killed, or stopped: what is served is what
was written, or nothing is. Aborted records do not count as written.

KBROKER_FLIPS files are damaged (each takes a start of the broker); `make crash-matrix` takes more
than the tier.
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

TOPICS = {
    "plain": {},
    "compacted": {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"},
    "transactional": {},
}
KINDS = {
    ".log",
    ".index",
    ".timeindex",
    ".txnindex",
    ".snapshot",
    "leader-epoch-checkpoint",
    "partition.metadata",
}
KINDS |= {"meta.properties", "kbroker.db", "cleaner-offset-checkpoint", "log-start-offset-checkpoint"}
KINDS |= {"recovery-point-offset-checkpoint"}
ONLY = os.environ.get("KBROKER_FLIPS_IN", "")  # end of the names of those kinds that are damaged
TRANSACTIONS = 60
SETTINGS = {
    "log.roll.ms": "300",
    "log.cleaner.backoff.ms": "100",
    "log.flush.offset.checkpoint.interval.ms": "200",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
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
        for topic in ("plain", "compacted"):
            producer.produce(topic, f"{number}".encode() + b"v" * 100, f"k{number % 50}", partition=0)
        producer.poll(0.002)
    assert producer.flush(30) == 0
    (deleted,) = admin.delete_records([TopicPartition("plain", 0, 7)]).values()
    assert deleted.result(30).low_watermark == 7
    transactions(bootstrap)


def transactions(bootstrap: str) -> None:
    """Every other one is aborted."""
    settings = {"bootstrap.servers": bootstrap, "linger.ms": 1}
    producers = [Producer({**settings, "transactional.id": name}) for name in ("a", "b")]
    for producer in producers:
        producer.init_transactions(30)
    for number in range(TRANSACTIONS):
        for producer, fate in zip(producers, ("committed", "aborted"), strict=True):
            producer.begin_transaction()
            for _ in range(3):
                producer.produce("transactional", f"{fate} {number}".encode() + b"v" * 50, partition=0)
            assert producer.flush(30) == 0
        producers[0].commit_transaction(30)
        producers[1].abort_transaction(30)


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


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_a_flipped_bit_is_never_served(how: str, broker_factory: Callable[..., KBroker]) -> None:
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    broker = broker_factory(SETTINGS)
    fill(broker.bootstrap)
    wanted = {topic: read(broker.bootstrap, topic) for topic in TOPICS}
    assert len(wanted["plain"]) == 593
    time.sleep(1)  # a compaction more, and checkpoints
    wanted["compacted"] = read(broker.bootstrap, "compacted")
    wanted["transactional"] = read(broker.bootstrap, "transactional")
    assert len(wanted["transactional"]) == 3 * TRANSACTIONS
    if how == "killed":
        broker.kill9()
    else:
        broker.stop()
    whole = broker.folder / "whole"
    shutil.copytree(broker.data_dir, whole)
    paths = [path for path in whole.rglob("*") if path.is_file() and path.stat().st_size]
    kinds = sorted({kind_of(path) for path in paths})
    assert set(kinds) >= KINDS
    kinds = [kind for kind in kinds if kind.endswith(ONLY)]
    for _ in range(FLIPS):
        kind = kinds[chance.randrange(len(kinds))]
        path = chance.choice([path for path in paths if kind_of(path) == kind])
        shutil.rmtree(broker.data_dir)
        shutil.copytree(whole, broker.data_dir)
        damaged = broker.data_dir / path.relative_to(whole)
        content = bytearray(damaged.read_bytes())
        at = chance.randrange(len(content))
        content[at] ^= 1 << chance.randrange(8)
        damaged.write_bytes(content)
        print(f"{how}, {path.relative_to(whole)} at {at} of {len(content)}: {_outcome(broker, wanted)}")


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
        gone = (
            object() if topic == "transactional" else None
        )  # was deleted, or cleaned away; none of these was
        wrong = {offset: one for offset, one in found.items() if before.get(offset) not in (one, gone)}
        assert not wrong, (topic, dict(list(wrong.items())[:3]))
        told.append(f"{topic} {len(found)} of {len(before)}")
    broker.kill9()
    return ", ".join(told)
