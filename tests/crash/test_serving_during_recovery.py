"""After kill -9 of everything small logs are served while a large one is still being checked."""

import os
import struct
import time
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kbroker.log.files import CLEAN_SHUTDOWN
from tests.conftest import BrokerFactory
from tests.peer.kbroker_node import KBroker

_SIZE = struct.Struct(">i")

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]

LARGE = 3
AT_ONCE = 1_000_000
BATCHES = (4 * AT_ONCE, 12 * AT_ONCE, 24 * AT_ONCE)
"""Of each large log: as many as this machine does not check while it starts. Each has one record,
because a check takes its time by batch, not by byte."""
ALL_OPEN = "partitions open in"
SETTINGS = {
    "log.segment.bytes": str((1 << 31) - 1),
    "num.recovery.threads.per.data.dir": "1",
}


def _prepare(node: KBroker) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    for created in admin.create_topics([NewTopic("large", LARGE), NewTopic("small", 3)]).values():
        created.result(120)
    producer = Producer({"bootstrap.servers": node.bootstrap})
    for partition in range(LARGE):
        producer.produce("large", b"", partition=partition)
    for number in range(30):
        producer.produce("small", b"%d" % number, partition=number % 3)
    assert producer.flush(120) == 0


def _repeat_batch(log: Path, count: int) -> None:
    """Let the log hold its first batch again and again, each at its own base offset, which no
    checksum covers."""
    with log.open("r+b") as file:
        batch = np.frombuffer(file.read(_SIZE.unpack_from(file.peek(12), 8)[0] + 12), np.uint8)
        rows = np.tile(batch, (AT_ONCE, 1))
        file.seek(0)
        for first in range(0, count, AT_ONCE):
            offsets = np.arange(first, first + AT_ONCE, dtype=">i8")
            rows[:, :8] = offsets.view(np.uint8).reshape(-1, 8)
            file.write(rows.data)
        file.flush()
        os.fsync(file.fileno())


def _read_small(node: KBroker) -> int:
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "none"})
    consumer.assign([TopicPartition("small", partition, 0) for partition in range(3)])
    found = 0
    deadline = time.monotonic() + 90
    while found < 30 and time.monotonic() < deadline:
        found += sum(message.error() is None for message in consumer.consume(100, 0.2))
    consumer.close()
    return found


def _end(node: KBroker, partition: int) -> int:
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "none"})
    deadline = time.monotonic() + 180
    try:
        while True:
            try:
                return int(consumer.get_watermark_offsets(TopicPartition("large", partition), timeout=5)[1])
            except Exception:
                assert time.monotonic() < deadline
                time.sleep(0.1)
    finally:
        consumer.close()


def _start_with(node: KBroker, count: int) -> bool:
    """Kill -9 everything and start again with large logs of so many batches; whether they are still
    being checked."""
    node.kill9()
    for folder in node.data_dir.glob("large-*"):
        _repeat_batch(next(folder.glob("*.log")), count)
    seen = len(node.logs(1_000_000))
    node.start()
    logged = node.logs(1_000_000)[seen:]
    return ALL_OPEN not in logged.partition("kbroker ready")[0]


def test_a_small_log_is_served_before_a_large_one_is_checked(broker_factory: BrokerFactory) -> None:
    node = broker_factory(SETTINGS)
    _prepare(node)
    count = next((each for each in BATCHES if _start_with(node, each)), 0)
    assert count, "all logs were checked before any client was served"
    assert _read_small(node) == 30
    node.stop(120)
    since_ready = node.logs(1_000_000).rpartition("kbroker ready")[2]
    if ALL_OPEN not in since_ready:  # what was not known to be whole is to be checked again
        assert not (node.data_dir / CLEAN_SHUTDOWN).exists()
    node.start()
    assert {_end(node, partition) for partition in range(LARGE)} == {count}
    node.stop(120)
    assert (node.data_dir / CLEAN_SHUTDOWN).exists()
