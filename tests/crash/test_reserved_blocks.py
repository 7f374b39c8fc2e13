"""Blocks reserved ahead of a log's end: no crash leaves them behind, no full disk comes early by
them, they are not seen as bytes of a log."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from tests.compat.raw import SocketPeer
from tests.crash.load import create_topic, read_all
from tests.crash.loop_disk import LoopDisk
from tests.peer.eventually import eventually
from tests.peer.kbroker_node import KBroker

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]

TOPIC = "fast"
VALUE = b" " + b"x" * 100_000
SMALL_MB = 128
MIB = 1 << 20
ROUND, MAX_ROUNDS = 300, 8


@pytest.fixture
def disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[LoopDisk]:
    """An ext4 file system; with more than a gibibyte of room it is one on which logs reserve blocks
    for long."""
    made = LoopDisk(tmp_path / "disk", getattr(request, "param", 3 << 10))
    yield made
    made.remove()


@pytest.fixture
def broker(disk: LoopDisk, broker_factory: Callable[..., KBroker]) -> KBroker:
    made = broker_factory({"log.dirs": str(disk.folder / "data")})
    create_topic(made.bootstrap, TOPIC)
    return made


def produce(broker: KBroker, first: int, count: int, topic: str = TOPIC) -> tuple[dict[int, int], set[int]]:
    """100 kB records to partition 0, as fast as they go; (number by offset of the acknowledged
    ones, error codes)."""
    acknowledged: dict[int, int] = {}
    errors: set[int] = set()
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "acks": "all",
        "retries": 0,
        "message.timeout.ms": 60_000,
    }
    producer = Producer(settings)
    for number in range(first, first + count):

        def delivered(error: KafkaError | None, message: Message, number: int = number) -> None:
            offset = message.offset()
            if error is not None:
                errors.add(error.code())
            elif offset is not None:
                acknowledged[offset] = number

        producer.produce(topic, str(number).encode() + VALUE, partition=0, on_delivery=delivered)
        producer.poll(0)
        if errors:
            break
    assert producer.flush(90) == 0
    return acknowledged, errors


def found(broker: KBroker, topic: str = TOPIC) -> dict[int, int]:
    return read_all(broker.bootstrap, topic, lambda value: int(value.split(b" ")[0]), [0])[0]


def segment(disk: LoopDisk, topic: str = TOPIC) -> os.stat_result:
    return (disk.folder / "data" / f"{topic}-0" / f"{0:020d}.log").stat()


def tail(disk: LoopDisk, topic: str = TOPIC) -> int:
    """Bytes that the active segment takes beyond its records."""
    return segment(disk, topic).st_blocks * 512 - segment(disk, topic).st_size


def described(broker: KBroker) -> int:
    """Bytes of the partition as DescribeLogDirs returns them."""
    peer = SocketPeer(int(broker.bootstrap.rpartition(":")[2]))
    answer = peer.ask(ApiKey.DESCRIBE_LOG_DIRS, 4, DescribeLogDirsRequest(None))
    assert isinstance(answer, DescribeLogDirsResponse)
    return next(
        one.partition_size
        for log_dir in answer.results
        for topic in log_dir.topics
        for one in topic.partitions
        if (topic.name, one.partition_index) == (TOPIC, 0)
    )


def grow(
    broker: KBroker, disk: LoopDisk, topics: tuple[str, ...] = (TOPIC,), first: int = 0
) -> dict[str, dict[int, int]]:
    """Produce to each topic until all have blocks ahead of their ends: the last write may be so
    large, after a pause of the IO worker, that it fills what was reserved. What was acknowledged,
    by topic."""
    made: dict[str, dict[int, int]] = {topic: {} for topic in topics}
    for _ in range(MAX_ROUNDS):
        for topic, acknowledged in made.items():
            more, errors = produce(broker, first + len(acknowledged), ROUND, topic)
            assert not errors
            acknowledged |= more
        if all(tail(disk, topic) > 2 * MIB for topic in topics):
            return made
    raise AssertionError("a fast log has no blocks ahead of its end")


@pytest.mark.parametrize("victim", ["broker", "io"])
def test_a_crash_leaves_no_blocks_reserved(disk: LoopDisk, broker: KBroker, victim: str) -> None:
    acknowledged = grow(broker, disk)[TOPIC]
    assert described(broker) == segment(disk).st_size
    if victim == "io":
        broker.kill9_child("io")
    else:
        broker.kill9()
        assert tail(disk) > 2 * MIB
        broker.start()
    assert found(broker) == acknowledged
    eventually(lambda: abs(tail(disk)) < MIB)  # the network process may have served the records
    acknowledged |= grow(broker, disk, first=len(acknowledged))[TOPIC]
    broker.stop()
    assert abs(tail(disk)) < MIB
    broker.start()
    assert found(broker) == acknowledged


@pytest.mark.parametrize("disk", [SMALL_MB], indirect=True)
def test_a_disk_is_full_when_its_records_fill_it(disk: LoopDisk, broker: KBroker) -> None:
    acknowledged, errors = produce(broker, 0, 1)
    assert found(broker) == acknowledged, "makes the topic of group offsets, for which there is no room later"
    room = os.statvfs(disk.folder).f_bavail * os.statvfs(disk.folder).f_frsize
    while not errors:
        more, errors = produce(broker, len(acknowledged), 50)
        acknowledged |= more
    assert KafkaError.KAFKA_STORAGE_ERROR in errors
    assert errors - {KafkaError.KAFKA_STORAGE_ERROR, KafkaError._MSG_TIMED_OUT} == set()
    assert len(acknowledged) * len(VALUE) > 0.95 * room - 2 * MIB
    assert set(acknowledged.items()) <= set(found(broker).items())
    broker.kill9()
    broker.start()
    assert set(acknowledged.items()) <= set(found(broker).items())


def test_a_power_cut_leaves_a_complete_prefix_and_no_reserved_blocks(disk: LoopDisk, broker: KBroker) -> None:
    create_topic(broker.bootstrap, "durable", {"write.caching": "false"})
    made = grow(broker, disk, (TOPIC, "durable"))
    cached, durable = made[TOPIC], made["durable"]
    disk.fail()
    broker.kill9()
    disk.remount()
    assert tail(disk, "durable") > 2 * MIB, "the reservation was in the journal"
    broker.start()
    assert found(broker, "durable") == durable
    left = found(broker)
    assert left == dict(sorted(cached.items())[: len(left)])
    eventually(lambda: all(abs(tail(disk, topic)) < MIB for topic in (TOPIC, "durable")))
