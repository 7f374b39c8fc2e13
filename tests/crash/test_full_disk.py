"""A full disk turns produce away with a clear error, reads go on, and service returns when there is
room."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from tests.crash.load import create_topic, read_all
from tests.peer.eventually import eventually
from tests.peer.kbroker_node import KBroker
from tests.peer.scrape import base, get, scrape
from tests.peer.side_work import SideWork
from tests.peer.small_disk import fill
from tests.peer.small_disk import small_disk as mounted

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]

DISK_BYTES = 96 << 20
VALUE = b"x" * 100_000
NOT_YET = (KafkaError.KAFKA_STORAGE_ERROR, KafkaError.REQUEST_TIMED_OUT, KafkaError._TIMED_OUT)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of DISK_BYTES."""
    with mounted(tmp_path / "disk", DISK_BYTES) as folder:
        yield folder


class Sender:
    """Produces one record at a time; remembers what was acknowledged."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        """A record without an answer has failed after a minute."""
        self._topic = topic
        self._next = 0
        self.acknowledged: dict[int, int] = {}
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "retries": 0,
                "message.timeout.ms": 60_000,
                "linger.ms": 0,
            }
        )

    def send(self) -> int | None:
        """Error code of one record of 100 kB, None when it was acknowledged."""
        outcome: list[int | None] = []
        number = self._next
        self._next += 1

        def delivered(error: KafkaError | None, message: Message) -> None:
            offset = message.offset()
            if error is None and offset is not None:
                self.acknowledged[offset] = number
            outcome.append(None if error is None else error.code())

        value = str(number).encode() + b" " + VALUE
        self._producer.produce(self._topic, value, partition=0, on_delivery=delivered)
        assert self._producer.flush(90) == 0
        return outcome[0]


def test_produce_is_refused_reads_continue_and_the_disk_heals(
    small_disk: Path, broker_factory: Callable[..., KBroker]
) -> None:
    broker = broker_factory({"log.dirs": str(small_disk / "data"), "log.segment.bytes": "4194304"})
    create_topic(broker.bootstrap, "filled")
    sender = Sender(broker.bootstrap, "filled")
    assert sender.send() is None
    ballast = small_disk / "ballast"
    fill(ballast)
    errors = []
    for _ in range(20):
        error = sender.send()
        if error is not None:
            errors.append(error)
    assert errors, "the disk is full, yet everything was acknowledged"
    assert set(errors) == {KafkaError.KAFKA_STORAGE_ERROR}
    refused = 503, "a disk is full: produce is refused by 1 partition\n"
    eventually(lambda: get(base(broker) + "/readyz")[::2] == refused)
    found = scrape(broker)
    assert found.value("kbroker_produce_refused_partitions") == 1
    assert found.value("kbroker_log_dir_full_seconds", dir=str(small_disk / "data")) == 0
    _same(broker, sender)
    ballast.unlink()
    deadline = time.monotonic() + 120
    while sender.send() is not None:
        assert time.monotonic() < deadline, "there is room again, yet produce is still refused"
    for _ in range(20):
        assert sender.send() is None
    eventually(lambda: get(base(broker) + "/readyz")[0] == 200)
    assert scrape(broker).value("kbroker_produce_refused_partitions") == 0
    _same(broker, sender)
    broker.kill9()
    broker.start()
    _same(broker, sender)


def test_a_broker_that_starts_on_a_full_disk_serves_all_logs_when_there_is_room(
    small_disk: Path, tmp_path: Path, broker_factory: Callable[..., KBroker]
) -> None:
    """After a kill each log has a new leader epoch to write. Their IO worker died of it, and of the
    logs of a later start those that had found no room stayed offline."""
    broker = broker_factory({"log.dirs": f"{small_disk / 'data'},{tmp_path / 'roomy'}"})
    create_topic(broker.bootstrap, "filled")
    sender = Sender(broker.bootstrap, "filled")
    for _ in range(5):
        assert sender.send() is None
    fill(small_disk / "ballast")
    broker.kill9()
    ended = threading.Event()

    def keep_full() -> None:
        while not ended.wait(0.01):
            fill(small_disk / "freed", "ab")

    filling = SideWork(keep_full)
    try:
        broker.start()
    finally:
        ended.set()
        filling.end()
    assert "filled-0 cannot be opened" in broker.logs()
    (small_disk / "ballast").unlink()
    deadline = time.monotonic() + 120
    while sender.send() is not None:
        assert time.monotonic() < deadline, "there is room again, yet the log is offline"
    _same(broker, sender)


def test_topics_can_be_deleted_on_a_full_disk_and_that_makes_room(
    small_disk: Path, broker_factory: Callable[..., KBroker]
) -> None:
    broker = broker_factory(
        {
            "log.dirs": str(small_disk / "data"),
            "log.segment.bytes": "4194304",
            "log.segment.delete.delay.ms": "1000",
            "auto.create.topics.enable": "false",  # the producer of the deleted topic still asks for it
        }
    )
    for topic in ("filled", "large"):
        create_topic(broker.bootstrap, topic)
    large = Sender(broker.bootstrap, "large")
    for _ in range(500):
        assert large.send() is None
    sender = Sender(broker.bootstrap, "filled")
    assert sender.send() is None
    fill(small_disk / "ballast")
    while sender.send() is None:
        pass
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    retention = ConfigResource(ConfigResource.Type.TOPIC, "filled")
    retention.add_incremental_config(
        ConfigEntry("retention.ms", "1000000", incremental_operation=AlterConfigOpType.SET)
    )
    for future in admin.incremental_alter_configs([retention]).values():
        future.result(120)
    admin.delete_topics(["large"])["large"].result(120)
    deadline = time.monotonic() + 120
    while sender.send() is not None:
        assert time.monotonic() < deadline, "the deleted topic has made room, yet produce is still refused"
    _same(broker, sender)
    broker.kill9()
    broker.start()
    assert "large" not in admin.list_topics(timeout=30).topics
    _same(broker, sender)


def test_records_deleted_on_a_full_disk_stay_deleted_and_that_makes_room(
    small_disk: Path, broker_factory: Callable[..., KBroker]
) -> None:
    """The call fails while there is no room for the new log start. It makes room, so a later one
    succeeds."""
    broker = broker_factory(
        {
            "log.dirs": str(small_disk / "data"),
            "log.segment.bytes": "4194304",
            "log.segment.delete.delay.ms": "1000",
        }
    )
    create_topic(broker.bootstrap, "filled")
    sender = Sender(broker.bootstrap, "filled")
    for _ in range(450):
        assert sender.send() is None
    fill(small_disk / "ballast")
    while sender.send() is None:
        pass
    start = 400
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    eventually(lambda: _delete_records(admin, start))
    broker.kill9()
    broker.start()
    sender.acknowledged = {at: value for at, value in sender.acknowledged.items() if at >= start}
    assert min(_values(broker.bootstrap)) == start
    deadline = time.monotonic() + 120
    while sender.send() is not None:
        assert time.monotonic() < deadline, "the deleted records have made room, yet produce is refused"
    _same(broker, sender)


def _delete_records(admin: AdminClient, offset: int) -> bool:
    """Whether the records before an offset are deleted; another answer is a full disk's or a busy
    machine's."""
    (future,) = admin.delete_records([TopicPartition("filled", 0, offset)], request_timeout=60).values()
    try:
        return bool(future.result(120).low_watermark == offset)
    except KafkaException as error:
        reason = error.args[0]
        if isinstance(reason, KafkaError) and reason.code() in NOT_YET:
            return False
        raise


def _same(broker: KBroker, sender: Sender) -> None:
    """Every acknowledged record is there, at its offset."""
    assert sender.acknowledged
    found = {}
    for offset, value in _values(broker.bootstrap).items():
        found[offset] = value
    assert {offset: found.get(offset) for offset in sender.acknowledged} == sender.acknowledged


def _values(bootstrap: str) -> dict[int, int]:
    return read_all(bootstrap, "filled", lambda value: int(value.split(b" ")[0]))[0]
