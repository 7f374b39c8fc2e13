"""After kill -9 of everything small logs are served while a large one is still being checked."""

import os
import struct
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kbroker.log.files import CLEAN_SHUTDOWN
from tests.conftest import BrokerFactory
from tests.peer.kbroker_node import KBroker

pytestmark = [pytest.mark.crash, pytest.mark.timeout(180)]

LARGE, LARGE_BYTES = 3, 1 << 30
"""Logs, and bytes of each."""
RECORDS = 90  # of one batch, which a large log holds again and again
ALL_OPEN = "partitions open in"
SETTINGS = {
    "log.segment.bytes": str((1 << 31) - 1),
    "message.max.bytes": "2000000",
    "num.recovery.threads.per.data.dir": "1",
}


def _prepare(node: KBroker) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    for created in admin.create_topics([NewTopic("large", LARGE), NewTopic("small", 3)]).values():
        created.result(30)
    client = {"bootstrap.servers": node.bootstrap, "linger.ms": 200, "batch.size": 1_500_000}
    producer = Producer({**client, "message.max.bytes": 1_900_000})
    for _ in range(RECORDS):
        for partition in range(LARGE):
            producer.produce("large", bytes(10_000), partition=partition)
    for number in range(30):
        producer.produce("small", b"%d" % number, partition=number % 3)
    assert producer.flush(30) == 0


def _repeat_batch(log: Path) -> int:
    """Write the log's only batch again and again, each at its own base offset, which no checksum
    covers; the end offset."""
    batch = log.read_bytes()
    count = LARGE_BYTES // len(batch)
    with log.open("ab") as file:
        for number in range(1, count):
            file.write(struct.pack(">q", number * RECORDS) + batch[8:])
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(
            file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED
        )  # the check has to read it from the disk
    return count * RECORDS


def _read_small(node: KBroker) -> int:
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "none"})
    consumer.assign([TopicPartition("small", partition, 0) for partition in range(3)])
    found = 0
    deadline = time.monotonic() + 20
    while found < 30 and time.monotonic() < deadline:
        found += sum(message.error() is None for message in consumer.consume(100, 0.2))
    consumer.close()
    return found


def _end(node: KBroker, partition: int) -> int:
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "none"})
    deadline = time.monotonic() + 60
    try:
        while True:
            try:
                return int(consumer.get_watermark_offsets(TopicPartition("large", partition), timeout=5)[1])
            except Exception:
                assert time.monotonic() < deadline
                time.sleep(0.1)
    finally:
        consumer.close()


def test_a_small_log_is_served_before_a_large_one_is_checked(broker_factory: BrokerFactory) -> None:
    node = broker_factory(SETTINGS)
    _prepare(node)
    node.kill9()
    ends = {_repeat_batch(next(folder.glob("*.log"))) for folder in node.data_dir.glob("large-*")}
    seen = len(node.logs(1_000_000))
    node.start()
    assert ALL_OPEN not in node.logs(1_000_000)[seen:], "all logs were checked before anybody was served"
    assert _read_small(node) == 30
    node.stop(60)
    if ALL_OPEN not in node.logs(1_000_000)[seen:]:  # what was not known to be whole is to be checked again
        assert not (node.data_dir / CLEAN_SHUTDOWN).exists()
    node.start()
    assert {_end(node, partition) for partition in range(LARGE)} == ends
    node.stop(60)
    assert (node.data_dir / CLEAN_SHUTDOWN).exists()
