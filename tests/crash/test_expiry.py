"""kill -9 while records expire: no record is gone before its time, and none is back."""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from tests.crash.load import PARTITIONS, Load, create_topic, watermarks
from tests.crash.sited import create, described, start_sites, wait_for_in_sync
from tests.peer.eventually import eventually
from tests.peer.kbroker_node import KBroker

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]

TOPIC = "expiring"
TTL_MS = 3000
KILLS = 6
Low = dict[int, int]


class TimedLoad(Load):
    """times: partition -> offset -> append time of what was acknowledged."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.times: dict[int, dict[int, int]] = {partition: {} for partition in range(PARTITIONS)}

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        super()._delivered(error, message)
        partition, offset = message.partition(), message.offset()
        if error is None and partition is not None and offset is not None:
            self.times[partition][offset] = message.timestamp()[1]


@contextmanager
def reader(broker: KBroker) -> Iterator[Consumer]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "r", "enable.auto.commit": False})
    try:
        yield consumer
    finally:
        consumer.close()


def marks(broker: KBroker) -> dict[int, tuple[int, int]]:
    """Log start and high watermark of each partition."""
    with reader(broker) as consumer:
        return {
            partition: watermarks(consumer, TopicPartition(TOPIC, partition))
            for partition in range(PARTITIONS)
        }


def lows(broker: KBroker) -> Low:
    return {partition: low for partition, (low, _) in marks(broker).items()}


def read(broker: KBroker, first: Low) -> dict[int, set[int]]:
    """Offsets from these on, up to the ends."""
    found: dict[int, set[int]] = {partition: set() for partition in first}
    with reader(broker) as consumer:
        for partition, offset in first.items():
            end = marks(broker)[partition][1]
            consumer.assign([TopicPartition(TOPIC, partition, offset)])
            deadline = time.monotonic() + 120
            while offset < end:
                assert time.monotonic() < deadline
                message = consumer.poll(0.2)
                if message is None:
                    offset = max(offset, marks(broker)[partition][0])  # the rest has expired
                    continue
                assert message.error() is None, message.error()
                offset = (message.offset() or 0) + 1
                found[partition].add(offset - 1)
    return found


def judge(load: TimedLoad, broker: KBroker, before: Low) -> Low:
    """Nothing is back, and what is gone was due."""
    first = lows(broker)
    seen_ms = time.time() * 1000
    for partition, low in first.items():
        assert low >= before[partition], "expired records are back"
        gone = [at for offset, at in load.times[partition].copy().items() if offset < low]
        assert max(gone, default=0) < seen_ms - TTL_MS
    return first


def test_records_expire_once_and_not_too_early(broker_factory: Callable[..., KBroker]) -> None:
    broker = broker_factory({"log.segment.bytes": "1048576"})
    create_topic(
        broker.bootstrap,
        TOPIC,
        {"kbroker.record.ttl.ms": str(TTL_MS), "message.timestamp.type": "LogAppendTime"},
    )
    load = TimedLoad(broker.bootstrap, TOPIC)
    load.start()
    first = dict.fromkeys(range(PARTITIONS), 0)
    try:
        load.wait_for_ack(0)
        eventually(lambda: min(lows(broker).values()) > 0)
        for number in range(KILLS):
            time.sleep(random.Random(number).uniform(0.3, 1.5))
            first = judge(load, broker, first)
            if number % 2:
                broker.kill9_running("io 0")
            else:
                broker.kill9()
                broker.start()
            load.wait_for_ack(load.count)
            first = judge(load, broker, first)
    finally:
        load.stop()
    assert load.failed == []
    found = read(broker, lows(broker))
    alive_since = time.time() * 1000 - TTL_MS
    for partition, times in load.times.items():
        missing = {offset for offset, at in times.items() if at >= alive_since} - found[partition]
        assert not missing
    ends = {partition: end for partition, (_, end) in marks(broker).items()}
    assert all(max(times) < ends[partition] for partition, times in load.times.items())
    eventually(lambda: lows(broker) == ends)
    broker.kill9()
    broker.start()
    assert marks(broker) == {partition: (end, end) for partition, end in ends.items()}
    broker.stop()


def test_the_next_leader_starts_where_records_have_expired(
    broker_factory: Callable[..., KBroker], tmp_path: Path
) -> None:
    broker, _ = start_sites(broker_factory, tmp_path, 2)
    create(broker, TOPIC, 1, 2, {"kbroker.record.ttl.ms": "1800000"})
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0})
    now_ms = int(time.time() * 1000)
    for batch, at in ((7, now_ms - 3_600_000), (5, now_ms)):
        for number in range(batch):
            producer.produce(TOPIC, str(number), partition=0, timestamp=at)
        assert producer.flush(120) == 0
    place = TopicPartition(TOPIC, 0)
    for _ in range(2):
        wait_for_in_sync(broker, TOPIC, 2)
        with reader(broker) as consumer:
            eventually(lambda: watermarks(consumer, place) == (7, 12))
        leader, _, _ = described(broker, TOPIC)[0]
        broker.kill9_running(f"io {leader - 1}")
        eventually(lambda gone=leader: described(broker, TOPIC)[0][0] not in (gone, -1))  # type: ignore[misc]
    with reader(broker) as consumer:
        eventually(lambda: watermarks(consumer, place) == (7, 12))
    broker.kill9()  # a clean stop needs all logs of the killed worker open again
