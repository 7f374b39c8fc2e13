"""The first site, where a broker of one site has its store, is no more than any other: topics,
groups and transactions outlive its disk, and the disk that comes back with old files, or with none,
is filled again."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from tests.crash.crash_load import Transactional
from tests.crash.load import PARTITIONS, Load, judge, read_all
from tests.crash.loop_disk import LoopDisk
from tests.crash.sited import create, described, led_again_s, log_bytes, start_sites, wait_for_in_sync
from tests.peer.configs import set_configs
from tests.peer.eventually import eventually
from tests.peer.kbroker_node import KBroker

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]

TOPIC = "replicated"
GAP_S = 20.0  # on a busy machine; less than replica.lag.time.max.ms
INTERNAL = ("__consumer_offsets", "__transaction_state")
SETTINGS = {
    "log.segment.bytes": "1048576",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
}


class Group:
    """A member of a group that commits what it reads. committed: the last position answered, by
    partition."""

    def __init__(self, bootstrap: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "readers",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": 30_000,
            }
        )
        self._consumer.subscribe([TOPIC])
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="group")
        self.committed: dict[int, int] = {}
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            messages = self._consumer.consume(200, 0.2)
            if any(message.error() is None for message in messages):
                with suppress(KafkaException):
                    for place in self._consumer.commit(asynchronous=False) or ():
                        if place.error is None:
                            self.committed[place.partition] = place.offset

    def wait_for_commit(self, timeout_s: float = 120) -> None:
        """Until something later than now is committed."""
        before, deadline = sum(self.committed.values()), time.monotonic() + timeout_s
        while sum(self.committed.values()) <= before:
            assert time.monotonic() < deadline, "the group commits nothing any more"
            time.sleep(0.02)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._consumer.close()

    def judge(self, bootstrap: str) -> None:
        """What was committed is what a new member would begin with, or what came after it."""
        requested = [TopicPartition(TOPIC, partition) for partition in self.committed]
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers"})
        found = {place.partition: place.offset for place in consumer.committed(requested, timeout=30)}
        consumer.close()
        assert self.committed
        assert all(found[partition] >= offset for partition, offset in self.committed.items()), found


class Life:
    """A load, a group and transactions, all on replicated topics."""

    def __init__(self, broker: KBroker, sites: int) -> None:
        self.broker = broker
        create(broker, TOPIC, PARTITIONS, sites)
        self.load = Load(broker.bootstrap, TOPIC)
        self.transactions = Transactional(broker.bootstrap, sites)
        self.load.start()
        self.transactions.start()
        self.group = Group(broker.bootstrap)
        self.wait()

    def wait(self) -> None:
        """Until all three have got on."""
        self.load.wait_for_ack(self.load.count)
        self.group.wait_for_commit()
        self.transactions.wait_for_progress(4)

    def stop(self) -> None:
        self.load.stop()
        self.transactions.stop()
        self.group.stop()

    def judge(self) -> None:
        judge(self.load, read_all(self.broker.bootstrap, TOPIC))
        self.transactions.judge()
        self.group.judge(self.broker.bootstrap)


def set_retention(broker: KBroker, value: str) -> None:
    set_configs(broker.bootstrap, ResourceType.TOPIC, TOPIC, {"retention.ms": value})


def retention(broker: KBroker) -> str:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    resource = ConfigResource(ConfigResource.Type.TOPIC, TOPIC)
    return str(admin.describe_configs([resource])[resource].result(120)["retention.ms"].value)


def leaders(broker: KBroker, topic: str) -> set[int]:
    return {leader for leader, _, _ in described(broker, topic).values()}


def assert_replicas_are_the_same(dirs: list[Path], partitions: int = PARTITIONS) -> None:
    for partition in range(partitions):
        first, *others = (log_bytes(folder, TOPIC, partition) for folder in dirs)
        assert first
        assert all(other == first for other in others), f"partition {partition}: replicas differ"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[LoopDisk]:
    made = LoopDisk(tmp_path / "site0")
    yield made
    made.remove()


def test_the_disk_of_the_first_site_fails_and_its_old_files_come_back(
    disk: LoopDisk, broker_factory: Callable[..., KBroker], tmp_path: Path
) -> None:
    broker, dirs = start_sites(broker_factory, tmp_path, 2, SETTINGS)
    try:
        life = Life(broker, 2)
        try:
            life.load.longest_gap()
            moment_s = time.time()
            disk.fail()
            wait_for_in_sync(broker, TOPIC, 1)
            life.load.wait_for_acks()
            print(f"gap {life.load.longest_gap():.3f} s, led again {led_again_s(broker, moment_s):.3f} s")
            assert led_again_s(broker, moment_s) < GAP_S
            for topic in (TOPIC, *INTERNAL):
                eventually(lambda topic=topic: leaders(broker, topic) == {2})  # type: ignore[misc]
            set_retention(broker, "77000000")
            create(broker, "later", 1, 1)
            life.wait()
        finally:
            life.stop()
        broker.kill9()
        disk.remount()
        broker.start()
        wait_for_in_sync(broker, TOPIC, 2)
        assert retention(broker) == "77000000"
        assert "later" in AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=30).topics
        life.judge()
        broker.stop()
        assert_replicas_are_the_same(dirs)
    finally:
        broker.kill9()


def test_an_empty_folder_in_the_place_of_the_first_site_is_filled_again(
    broker_factory: Callable[..., KBroker], tmp_path: Path
) -> None:
    """Three times: what vanished while the broker ran, what was replaced before a start, and the
    old disk again."""
    broker, dirs = start_sites(broker_factory, tmp_path, 2, SETTINGS)
    life = Life(broker, 2)
    try:
        dirs[0].rename(tmp_path / "away")
        wait_for_in_sync(broker, TOPIC, 1)
        set_retention(broker, "77000000")
        life.wait()
        broker.kill9()
        dirs[0].mkdir()
        broker.start()
        wait_for_in_sync(broker, TOPIC, 2)
        life.wait()
    finally:
        life.stop()
    broker.stop()
    dirs[0].rename(tmp_path / "refilled")
    (tmp_path / "away").rename(dirs[0])
    broker.start()
    wait_for_in_sync(broker, TOPIC, 2)
    assert retention(broker) == "77000000"
    life.judge()
    broker.stop()
    assert_replicas_are_the_same(dirs)
