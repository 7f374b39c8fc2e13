"""A disk that fails or vanishes takes its log dir offline; the others go on; without any, the
broker ends."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from kbroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kbroker.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kbroker.protocol.schema import Struct
from tests.compat.raw import SocketPeer
from tests.crash.load import read_all
from tests.crash.loop_disk import LoopDisk
from tests.peer.kbroker_node import KBroker
from tests.peer.scrape import scrape

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]

TOPIC = "spread"
PARTITIONS = 4
SHORT_MS = 4000
GONE = {KafkaError.KAFKA_STORAGE_ERROR, KafkaError.LEADER_NOT_AVAILABLE, KafkaError._MSG_TIMED_OUT}


@dataclass
class Scene:
    """A broker with one log dir on its own disk and one beside it. ours: partitions on that
    disk."""

    broker: KBroker
    disk: LoopDisk
    acknowledged: dict[int, list[int]] = field(default_factory=dict)
    next: int = 0
    all_ours: set[int] = field(default_factory=set)

    @property
    def ours(self) -> set[int]:
        return {int(path.name[-1]) for path in (self.disk.folder / "logs").glob(f"{TOPIC}-?")}

    def produce(self, partitions: set[int], ours_timeout_ms: int = 5 * SHORT_MS) -> dict[int, int | None]:
        """Error code of one record for each partition, None when it was acknowledged. A record for
        a partition on the failed disk may wait for a leader until its timeout."""
        outcome: dict[int, int | None] = {}
        producers = {
            timeout_ms: Producer(
                {
                    "bootstrap.servers": self.broker.bootstrap,
                    "acks": "all",
                    "retries": 0,
                    "message.timeout.ms": timeout_ms,
                    "linger.ms": 0,
                }
            )
            for timeout_ms in {5 * SHORT_MS, ours_timeout_ms}
        }

        def delivered(error: KafkaError | None, message: Message) -> None:
            partition, value = message.partition(), message.value()
            assert partition is not None
            assert value is not None
            outcome[partition] = None if error is None else error.code()
            if error is None:
                self.acknowledged.setdefault(partition, []).append(int(value))

        for partition in partitions:
            producer = producers[ours_timeout_ms if partition in self.all_ours else 5 * SHORT_MS]
            producer.produce(TOPIC, str(self.next), partition=partition, on_delivery=delivered)
            self.next += 1
        for producer in producers.values():
            assert producer.flush(90) == 0
        return outcome

    def read(self, partitions: set[int]) -> dict[int, list[int]]:
        found = read_all(self.broker.bootstrap, TOPIC, partitions=sorted(partitions))
        return {partition: [rows[offset] for offset in sorted(rows)] for partition, rows in found.items()}

    def ask(self, api: ApiKey, version: int, request: Struct) -> Struct | None:
        return SocketPeer(int(self.broker.bootstrap.rpartition(":")[2])).ask(api, version, request)

    def offline_dirs(self) -> set[str]:
        answer = self.ask(ApiKey.DESCRIBE_LOG_DIRS, 4, DescribeLogDirsRequest(None))
        assert isinstance(answer, DescribeLogDirsResponse)
        return {one.log_dir for one in answer.results if one.error_code == ErrorCode.KAFKA_STORAGE_ERROR}

    def fetch(self, partition: int) -> int:
        """Error code of a fetch from the first offset, as one that reads and never writes meets
        it."""
        expected = FetchPartition(partition, fetch_offset=0, partition_max_bytes=1 << 20)
        topics = [FetchTopic(topic=TOPIC, partitions=[expected])]
        request = FetchRequest(max_wait_ms=1000, min_bytes=1, topics=topics)
        for _ in range(3):  # an answer that cannot be sent to its end closes the connection
            answer = self.ask(ApiKey.FETCH, 11, request)
            if isinstance(answer, FetchResponse):
                return answer.responses[0].partitions[0].error_code
        raise AssertionError("every fetch ends with a closed connection")

    def leaderless(self) -> set[int]:
        answer = self.ask(ApiKey.METADATA, 9, MetadataRequest(None))
        assert isinstance(answer, MetadataResponse)
        (topic,) = (topic for topic in answer.topics if topic.name == TOPIC)
        return {
            one.partition_index for one in topic.partitions if one.leader_id == -1 and one.offline_replicas
        }

    def wait_until_offline(self) -> None:
        deadline = time.monotonic() + 90
        while self.leaderless() != self.all_ours:
            assert time.monotonic() < deadline, "the log dir does not go offline"
            time.sleep(0.05)


@pytest.fixture
def scene(tmp_path: Path, broker_factory: Callable[..., KBroker]) -> Iterator[Scene]:
    disk = LoopDisk(tmp_path / "disk")
    dirs = f"{tmp_path / 'steady'},{disk.folder / 'logs'}"
    try:
        broker = broker_factory({"log.dirs": dirs, "num.io.threads": "2", "log.segment.bytes": "1048576"})
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(120)
        made = Scene(broker, disk)
        made.all_ours = made.ours
        assert 0 < len(made.ours) < PARTITIONS
        yield made
        broker.kill9()
    finally:
        disk.remove()


EVERY = set(range(PARTITIONS))


def test_a_failing_disk_takes_its_log_dir_offline_and_no_other(scene: Scene) -> None:
    assert set(scene.produce(EVERY).values()) == {None}
    ours, others = scene.ours, EVERY - scene.ours
    scene.disk.fail()
    outcome = scene.produce(EVERY, SHORT_MS)
    assert {partition: outcome[partition] for partition in others} == dict.fromkeys(others)
    assert {outcome[partition] for partition in ours} <= GONE
    scene.wait_until_offline()
    assert scene.offline_dirs() == {str(scene.disk.folder / "logs")}
    assert scene.read(others) == {partition: scene.acknowledged[partition] for partition in others}
    assert scrape(scene.broker).value("kafka_log_logmanager_offlinelogdirectorycount") == 1
    admin = AdminClient({"bootstrap.servers": scene.broker.bootstrap})
    admin.create_topics([NewTopic("later", 3, 1)])["later"].result(120)
    assert not list((scene.disk.folder / "logs").glob("later-*"))


def test_an_aborted_transaction_that_cannot_be_noted_takes_the_log_dir_offline(scene: Scene) -> None:
    """The file of its log is open and can be written; the transaction index is a new file, in a
    folder that has gone."""
    producer = Producer({"bootstrap.servers": scene.broker.bootstrap, "transactional.id": "one"})
    producer.init_transactions(120)
    producer.begin_transaction()
    partition = min(scene.ours)
    producer.produce(TOPIC, b"0", partition=partition)
    assert producer.flush(120) == 0
    folder = scene.disk.folder / "logs" / f"{TOPIC}-{partition}"
    folder.rename(scene.disk.folder / "away")
    with suppress(KafkaException):  # whether a marker's error reaches the client is of no concern here
        producer.abort_transaction(10)
    scene.wait_until_offline()
    reported = scene.broker.logs(1 << 20)
    assert "goes offline" in reported
    assert "Traceback" not in reported, reported


def test_a_reader_gets_an_error_at_once_and_the_log_dir_goes_offline(scene: Scene) -> None:
    assert set(scene.produce(EVERY).values()) == {None}
    assert {scene.fetch(partition) for partition in EVERY} == {0}
    scene.disk.fail()
    codes = {scene.fetch(partition) for partition in scene.all_ours}
    assert codes
    assert codes - {ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER} == set()
    scene.wait_until_offline()
    assert {scene.fetch(partition) for partition in EVERY - scene.all_ours} == {0}


def test_a_disk_that_is_back_is_served_after_a_restart(scene: Scene) -> None:
    assert set(scene.produce(EVERY).values()) == {None}
    kept = {partition: list(values) for partition, values in scene.acknowledged.items()}
    os.sync()
    scene.disk.fail()
    scene.produce(scene.ours, SHORT_MS)
    scene.wait_until_offline()
    scene.broker.kill9()
    scene.disk.remount()
    scene.broker.start()
    assert scene.offline_dirs() == set()
    found = scene.read(EVERY)
    assert {p: found[p][: len(kept[p])] for p in EVERY} == kept
    assert set(scene.produce(EVERY).values()) == {None}


def test_a_vanished_mount_is_noticed_and_not_taken_for_an_empty_log_dir(scene: Scene) -> None:
    assert set(scene.produce(EVERY).values()) == {None}
    ours, others = scene.ours, EVERY - scene.ours
    scene.disk.vanish()
    scene.wait_until_offline()
    outcome = scene.produce(EVERY, SHORT_MS)
    assert {outcome[partition] for partition in ours} <= GONE
    assert {outcome[partition] for partition in others} == {None}
    assert not (scene.disk.folder / "logs").exists()
    scene.broker.kill9()
    scene.broker.start()  # the mount point is an empty folder now
    assert scene.offline_dirs() == {str(scene.disk.folder / "logs")}
    assert not list((scene.disk.folder / "logs").glob(f"{TOPIC}-*"))
    assert scene.read(others) == {partition: scene.acknowledged[partition] for partition in others}
    scene.broker.stop()
    scene.disk.mount()
    scene.broker.start()
    assert scene.offline_dirs() == set()
    assert scene.read(EVERY) == scene.acknowledged


def test_held_appends_fail_at_once_when_the_sync_fails(scene: Scene) -> None:
    admin = AdminClient({"bootstrap.servers": scene.broker.bootstrap})
    admin.delete_topics([TOPIC])[TOPIC].result(120)
    configs = {"write.caching": "false"}
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1, config=configs)])[TOPIC].result(120)
    assert set(scene.produce(EVERY).values()) == {None}
    scene.disk.fail()
    outcome = scene.produce(scene.ours)
    # a held append would wait for its timeout, and have another error
    assert outcome == dict.fromkeys(scene.ours, KafkaError.KAFKA_STORAGE_ERROR)


def test_without_any_log_dir_the_broker_ends(tmp_path: Path, broker_factory: Callable[..., KBroker]) -> None:
    disk = LoopDisk(tmp_path / "disk")
    try:
        broker = broker_factory({"log.dirs": f"{disk.folder / 'a'},{disk.folder / 'b'}"})
        disk.vanish()
        assert broker.process is not None
        assert broker.process.wait(90) == 1
        assert "all log dirs have failed" in broker.logs()
        broker.kill9()
    finally:
        disk.remove()
