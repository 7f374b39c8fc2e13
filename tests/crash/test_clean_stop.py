"""An orderly stop saves the state of each log for the next start; what happened to the files
meanwhile is seen all the same."""

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.peer.eventually import eventually
from tests.peer.kbroker_node import KBroker

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]

TOPIC, PARTITIONS = "kept", 8
SETTINGS = {
    "log.segment.bytes": "1048576",
    "num.io.threads": "2",
    "log.segment.delete.delay.ms": "1000",
    "log.initial.task.delay.ms": "500",
    "log.retention.check.interval.ms": "500",
}


def fill(bootstrap: str, first: int, count: int = 1200) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})
    for number in range(first, first + count):
        for partition in range(PARTITIONS):
            producer.produce(TOPIC, b"%1000d" % number, partition=partition)
    assert producer.flush(90) == 0


def read(bootstrap: str) -> dict[int, list[int]]:
    """Numbers of each partition in the order of their offsets."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "enable.partition.eof": True})
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
    found: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
    ends = 0
    while ends < PARTITIONS:
        for message in consumer.consume(1000, 1):
            if (error := message.error()) is not None:
                assert error.code() == KafkaError._PARTITION_EOF or error.retriable(), error
                ends += error.code() == KafkaError._PARTITION_EOF
            else:
                found[message.partition() or 0].append(int(message.value() or b""))
    consumer.close()
    return found


def epochs(data_dir: Path) -> set[int]:
    return {
        int(line.split()[0])
        for folder in data_dir.glob(f"{TOPIC}-*")
        for line in (folder / "leader-epoch-checkpoint").read_text().splitlines()[2:]
    }


def test_logs_continue_where_they_were_closed(broker_factory: Callable[..., KBroker]) -> None:
    broker = broker_factory(SETTINGS)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    (created,) = admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)]).values()
    created.result(120)
    fill(broker.bootstrap, 0)
    broker.stop()
    left = sorted(path.name for path in broker.data_dir.glob(".kbroker-closed-logs-*"))
    assert left == [".kbroker-closed-logs-0", ".kbroker-closed-logs-1"]
    folder = broker.data_dir / f"{TOPIC}-0"
    unlike, cut = broker.data_dir / f"{TOPIC}-1", broker.data_dir / f"{TOPIC}-2"
    with max(unlike.glob("*.log")).open("ab") as file:
        file.write(b"\7" * 100)  # no batch
    max(cut.glob("*.timeindex")).unlink()
    deleted = (
        broker.data_dir / "gone-0.0123456789abcdef-delete"
    )  # its worker was stopped before its time had come
    deleted.mkdir()
    seen = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}

    broker.start()
    assert read(broker.bootstrap) == {partition: list(range(1200)) for partition in range(PARTITIONS)}
    assert not list(broker.data_dir.glob(".kbroker-closed-logs-*"))
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == seen
    assert epochs(broker.data_dir) == {0}
    fill(broker.bootstrap, 1200)

    broker.kill9()
    broker.start()
    fill(broker.bootstrap, 2400)
    assert epochs(broker.data_dir) == {0, 1}
    eventually(lambda: not deleted.exists())
    broker.stop()
    broker.start()
    assert read(broker.bootstrap) == {partition: list(range(3600)) for partition in range(PARTITIONS)}
