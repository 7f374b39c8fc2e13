"""One bit is flipped in one file of a broker that was killed or stopped. Everything that it then
serves is what was written, without aborted records. All records before a damaged batch are served,
and all records of logs that have a damaged index or no damage (docs/durability.md, Damage). A start
takes about as long as one without damage. A batch whose base offset is damaged may be served at
that offset.

KBROKER_FLIPS files are damaged, the first one a log; each needs a start of the broker.
`make crash-matrix` damages more of them than the tier.
"""

import os
import shutil
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.crash.seeds import chances
from tests.peer.eventually import eventually
from tests.peer.kbroker_node import BrokerFailed, KBroker

FLIPS = int(os.environ.get("KBROKER_FLIPS", "3"))
pytestmark = [pytest.mark.crash, pytest.mark.timeout(600 + 60 * FLIPS)]

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
TURN = 8  # offsets of two transactions at once, their markers included
MORE_CPU, MORE_CPU_S = 3.0, 3.0
"""CPU of a start with a damaged file: at most this many times that of the first start, plus this
many seconds."""
EVERYTHING = 1 << 60
PATIENCE_S, CLOSED_S = 90.0, 8.0
Records = dict[int, tuple[bytes | None, bytes | None]]
SETTINGS = {
    "log.roll.ms": "300",
    "log.cleaner.backoff.ms": "100",
    "log.flush.offset.checkpoint.interval.ms": "200",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
REBUILT = {".index", ".timeindex", ".txnindex", ".snapshot"}
REBUILT |= {"cleaner-offset-checkpoint", "recovery-point-offset-checkpoint"}
"""Damage to these files loses no record."""
REFUSALS = ("kbroker.db", "meta.properties", "the store", "cluster", "all log dirs have failed")


def fill(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics(
        [NewTopic(topic, 1, 1, config=config) for topic, config in TOPICS.items()]
    ).values():
        future.result(120)
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})
    for number in range(600):
        for topic in ("plain", "compacted"):
            producer.produce(topic, f"{number}".encode() + b"v" * 100, f"k{number % 50}", partition=0)
        producer.poll(0.002)
    assert producer.flush(120) == 0
    (deleted,) = admin.delete_records([TopicPartition("plain", 0, 7)]).values()
    assert deleted.result(120).low_watermark == 7
    transactions(bootstrap)


def transactions(bootstrap: str) -> None:
    """Write transactions, every other one aborted."""
    settings = {"bootstrap.servers": bootstrap, "linger.ms": 1}
    producers = [Producer({**settings, "transactional.id": name}) for name in ("a", "b")]
    for producer in producers:
        producer.init_transactions(120)
    for number in range(TRANSACTIONS):
        for producer, fate in zip(producers, ("committed", "aborted"), strict=True):
            producer.begin_transaction()
            for _ in range(3):
                producer.produce("transactional", f"{fate} {number}".encode() + b"v" * 50, partition=0)
            assert producer.flush(120) == 0
        producers[0].commit_transaction(30)
        producers[1].abort_transaction(30)
    for name in ("a", "b"):  # an end is answered before its markers are in the log
        Producer({**settings, "transactional.id": name}).init_transactions(120)


def read(bootstrap: str, topic: str, needed: set[int] | None = None) -> Records:
    """Key and value by offset; ends at the first error or the log's end. A log that does not open
    is waited for until it has delivered what must be served, or for PATIENCE_S."""
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
    found: Records = {}
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        began = time.monotonic()
        while time.monotonic() < began + PATIENCE_S:
            if needed is not None and needed <= found.keys() and time.monotonic() > began + CLOSED_S:
                return found
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


def batch_start(content: bytearray, at: int) -> int:
    """Position of the batch that contains a byte of a whole log segment."""
    start = 0
    while True:
        (length,) = struct.unpack_from(">i", content, start + 8)
        if at < start + 12 + length:
            return start
        start += 12 + length


def damaged_batch(content: bytearray, at: int) -> int:
    """Base offset of the batch that contains a byte of a whole log segment."""
    return int(struct.unpack_from(">q", content, batch_start(content, at))[0])


def moved(content: bytearray, start: int, at: int) -> range:
    """Offsets at which a batch is served if its base offset is damaged: in Kafka's format a batch's
    CRC does not cover it. Empty for other damage. content: of the damaged segment; start: position
    of the batch."""
    if at >= start + 8:
        return range(0)
    (base,), (last,) = struct.unpack_from(">q", content, start), struct.unpack_from(">i", content, start + 23)
    return range(base, base + last + 1)


def must_be_served(
    path: Path, content: bytearray, at: int, requested: dict[str, Records]
) -> dict[str, set[int]]:
    """Offsets that must be served, by topic, after damage to a byte of a partition's or the log
    dir's file."""
    kind, topic = kind_of(path), path.parent.name.rpartition("-")[0]
    if kind not in REBUILT and not topic:
        return {}
    below = dict.fromkeys(requested, EVERYTHING)
    if kind not in REBUILT:
        below[topic] = damaged_batch(content, at) if kind == ".log" else 0
    return {name: undamaged(name, before, below[name]) for name, before in requested.items()}


def undamaged(topic: str, before: Records, below: int) -> set[int]:
    """Offsets below the first damaged one. Of keys only the last record, as compaction may remove
    the others; of transactions those of finished turns."""
    if topic == "compacted":
        last = {key: offset for offset, (key, _) in sorted(before.items())}
        return {offset for offset in last.values() if offset < below}
    if topic == "transactional":
        below = below // TURN * TURN
    return {offset for offset in before if offset < below}


def kinds_in(folder: Path) -> set[str]:
    """Of the files that are not empty; some may be deleted meanwhile."""
    found = set()
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):
            if path.is_file() and path.stat().st_size:
                found.add(kind_of(path))
    return found


def kind_of(path: Path) -> str:
    return path.suffix if path.name[:1].isdigit() else path.name


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_a_flipped_bit_is_never_served(how: str, broker_factory: Callable[..., KBroker]) -> None:
    chance = chances()
    broker = broker_factory(SETTINGS)
    calm_cpu_s = broker.cpu_s()
    fill(broker.bootstrap)
    expected = {topic: read(broker.bootstrap, topic) for topic in TOPICS}
    assert len(expected["plain"]) == 593
    eventually(lambda: kinds_in(broker.data_dir) >= KINDS)  # a compaction more, and checkpoints
    expected["compacted"] = read(broker.bootstrap, "compacted")
    expected["transactional"] = read(broker.bootstrap, "transactional")
    assert len(expected["transactional"]) == 3 * TRANSACTIONS
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
    for number in range(FLIPS):
        kind = chance.choice(kinds)
        some = [path for path in paths if kind_of(path) == kind]
        if number == 0 and ".log" in kinds:
            some = [path for path in paths if path.suffix == ".log" and path.parent.name[:-2] in TOPICS]
        path = chance.choice(some)
        kind = kind_of(path)  # the first one is a log, whatever was drawn
        shutil.rmtree(broker.data_dir)
        shutil.copytree(whole, broker.data_dir)
        damaged = broker.data_dir / path.relative_to(whole)
        content = bytearray(damaged.read_bytes())
        at = chance.randrange(len(content))
        served = must_be_served(path.relative_to(whole), content, at, expected)
        start = batch_start(content, at) if kind == ".log" else 0
        content[at] ^= 1 << chance.randrange(8)
        moved_offsets = moved(content, start, at) if kind == ".log" else range(0)
        damaged.write_bytes(content)
        print(f"{how}, {path.relative_to(whole)} at {at} of {len(content)}")
        print(_outcome(broker, expected, served, moved_offsets, calm_cpu_s))


def _outcome(
    broker: KBroker,
    requested: dict[str, Records],
    served: dict[str, set[int]],
    moved_offsets: range,
    calm_cpu_s: float,
) -> str:
    seen = len(broker.logs(1 << 30))
    try:
        broker.start()
    except BrokerFailed:
        reported = broker.logs(1 << 30)[seen:]
        assert any(word in reported for word in REFUSALS), reported
        return "the broker refuses to start"
    cpu_s = broker.cpu_s()
    assert cpu_s < calm_cpu_s * MORE_CPU + MORE_CPU_S, (
        f"the start took {cpu_s:.1f} s, {calm_cpu_s:.1f} before"
    )
    received = [f"{cpu_s:.1f} s of CPU"]
    for topic, before in requested.items():
        found = read(broker.bootstrap, topic, served.get(topic, set()))
        gone = (
            object() if topic == "transactional" else None
        )  # was deleted, or cleaned away; none of these was
        wrong = {
            offset: one
            for offset, one in found.items()
            if before.get(offset) not in (one, gone) and offset not in moved_offsets
        }
        assert not wrong, (topic, dict(list(wrong.items())[:3]))
        missing = sorted(served.get(topic, set()) - found.keys())
        assert not missing, f"{topic}: {len(missing)} records are not served, the first is {missing[0]}"
        received.append(f"{topic} {len(found)} of {len(before)}")
    broker.kill9()
    return ", ".join(received)
