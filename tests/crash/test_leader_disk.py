"""The leader's disk fails at the moment of an acknowledgement: one record is in flight with
acks=all, and its delivery callback fails the disk. The next record finds the other replica as
leader, which has all that was acknowledged, and so have both after a kill -9, when the disk is back
without anything that was not synced to it.
"""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer

from tests.crash.load import read_all
from tests.crash.loop_disk import LoopDisk
from tests.crash.seeds import chances
from tests.crash.sited import create, described, log_bytes, start_sites, wait_for_in_sync
from tests.peer.kbroker_node import KBroker

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]

TOPIC = "replicated"
ROUNDS = 3
BEFORE, BYTES = 20, (1, 1000, 100_000)
SETTINGS = {"log.segment.bytes": "1048576", "offsets.topic.num.partitions": "1"}


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[list[LoopDisk]]:
    """One for each site."""
    made: list[LoopDisk] = []
    try:
        for number in range(2):
            made.append(LoopDisk(tmp_path / f"site{number}"))
        yield made
    finally:
        for disk in made:
            disk.remove()


class OneInFlight:
    """A producer that sends the next record when the last one is acknowledged. acknowledged: number
    by offset."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "linger.ms": 0,
                "reconnect.backoff.max.ms": 100,
            }
        )
        self.acknowledged: dict[int, int] = {}

    def send(self, size: int, then: Callable[[], None] = lambda: None) -> None:
        """Returns when it is acknowledged and ``then`` was called, in the delivery callback."""
        number = len(self.acknowledged)

        def delivered(error: KafkaError | None, message: Message) -> None:
            assert error is None
            offset = message.offset()
            assert offset is not None
            then()
            self.acknowledged[offset] = number

        self._producer.produce(TOPIC, f"{number}:".ljust(size, "x"), partition=0, on_delivery=delivered)
        assert self._producer.flush(120) == 0
        assert len(self.acknowledged) == number + 1


def number_of(value: bytes) -> int:
    return int(value.partition(b":")[0])


def assert_nothing_is_lost(broker: KBroker, producer: OneInFlight) -> None:
    found = read_all(broker.bootstrap, TOPIC, number_of, [0])[0]
    assert {offset: found.get(offset) for offset in producer.acknowledged} == producer.acknowledged


@pytest.mark.parametrize("caching", ["true", "false"])
def test_a_record_outlives_the_disk_of_the_leader_that_acknowledged_it(
    disks: list[LoopDisk], broker_factory: Callable[..., KBroker], tmp_path: Path, caching: str
) -> None:
    chance: random.Random = chances()
    broker, dirs = start_sites(broker_factory, tmp_path, 2, SETTINGS)
    try:
        create(broker, TOPIC, 1, 2, {"write.caching": caching})
        producer = OneInFlight(broker.bootstrap)
        for _ in range(ROUNDS):
            wait_for_in_sync(broker, TOPIC, 2)
            for _ in range(chance.randrange(BEFORE)):
                producer.send(chance.choice(BYTES))
            leader = described(broker, TOPIC)[0][0]
            disk = disks[leader - 1]
            producer.send(chance.choice(BYTES), then=disk.fail)
            producer.send(chance.choice(BYTES))  # an idle broker does not notice
            assert described(broker, TOPIC)[0][0] == 3 - leader
            assert_nothing_is_lost(broker, producer)
            broker.kill9()
            disk.remount()
            broker.start()
            wait_for_in_sync(broker, TOPIC, 2)
            assert_nothing_is_lost(broker, producer)
        broker.stop()
        first, second = (log_bytes(folder, TOPIC, 0) for folder in dirs)
        assert first == second
    finally:
        broker.kill9()
