"""After kill -9 of everything a start checks what was not synced, not what was appended since the
last minute."""

import os
import re

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kbroker.log.checkpoint import read_offsets
from tests.conftest import BrokerFactory
from tests.crash.load import watermarks
from tests.peer.eventually import eventually
from tests.peer.kbroker_node import KBroker

pytestmark = pytest.mark.crash

SEGMENT_BYTES = 1 << 20
RECORD_BYTES = 10_000
RECORDS = 1000  # ten segments


def _create(node: KBroker) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    admin.create_topics([NewTopic("t", 1, config={"segment.bytes": str(SEGMENT_BYTES)})])["t"].result(120)


def _produce(node: KBroker, first: int = 0) -> int:
    """Append RECORDS records, numbered from `first` on; returns how many were acknowledged."""
    producer = Producer({"bootstrap.servers": node.bootstrap, "acks": "all", "batch.size": 100_000})
    acked = 0

    def delivered(error: object, _: object) -> None:
        nonlocal acked
        acked += error is None

    for number in range(first, first + RECORDS):
        value = b"%08d" % number + os.urandom(RECORD_BYTES - 8)
        producer.produce("t", value, on_delivery=delivered)
    producer.flush(120)
    return acked


def _noted(node: KBroker) -> int:
    return read_offsets(str(node.data_dir / "recovery-point-offset-checkpoint")).get(("t", 0), 0)


def _await_synced_rolls(node: KBroker) -> None:
    """Wait until all segments but the active one are below the recovery point on disk."""
    newest = max(int(path.stem) for path in (node.data_dir / "t-0").glob("*.log"))
    eventually(lambda: _noted(node) >= newest)


CHECKED = re.compile(r"logs loaded, (\d+) MB checked")


def _start_after_kill(node: KBroker) -> int:
    """kill -9 of everything and a start; returns the MB that it checked."""
    node.kill9()
    before = len(node.log_file.read_text())
    node.start()
    eventually(lambda: bool(CHECKED.search(node.log_file.read_text(), before)))  # later than its answers
    return sum(map(int, CHECKED.findall(node.log_file.read_text(), before)))


def _assert_all_readable(node: KBroker, count: int) -> None:
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "g", "enable.auto.commit": False})
    consumer.assign([TopicPartition("t", 0, 0)])
    found: list[bytes] = []
    while len(found) < count:
        message = consumer.poll(30)
        assert message is not None, f"{len(found)} of {count}"
        assert message.error() is None
        found.append((message.value() or b"")[:8])
    consumer.close()
    assert found == [b"%08d" % number for number in range(count)]


CHECKED_MB = 2
"""The active segment has at most 1 MiB, all ten have 10 MB."""


def test_a_recovery_point_follows_rolls_and_nothing_acknowledged_is_lost(
    broker_factory: BrokerFactory,
) -> None:
    node = broker_factory({"log.flush.offset.checkpoint.interval.ms": "3600000"})  # rolls alone
    _create(node)
    assert _produce(node) == RECORDS
    _await_synced_rolls(node)
    assert _start_after_kill(node) <= CHECKED_MB
    _assert_all_readable(node, RECORDS)


DEATHS = 5


def test_each_of_five_starts_after_kills_checks_no_more_than_the_first(broker_factory: BrokerFactory) -> None:
    """The log grows by ten segments before each kill, and a kill right after a start leaves a start
    nothing more to check."""
    node = broker_factory({"log.flush.offset.checkpoint.interval.ms": "3600000"})
    _create(node)
    checked = []
    for death in range(DEATHS):
        assert _produce(node, death * RECORDS) == RECORDS
        _await_synced_rolls(node)
        checked.append(_start_after_kill(node))
    checked.append(_start_after_kill(node))
    assert max(checked) <= CHECKED_MB, checked
    _assert_all_readable(node, DEATHS * RECORDS)


LARGE_RECORDS = 2500  # 25 MB, of which the last 16 MiB are always checked


@pytest.mark.parametrize("kernel", ["still runs", "was restarted"])
def test_bytes_that_the_kernel_has_kept_since_a_kill_are_not_checked_again(
    broker_factory: BrokerFactory, kernel: str
) -> None:
    """A damaged byte shows what was checked: the log is cut there."""
    node = broker_factory()
    producer = Producer({"bootstrap.servers": node.bootstrap, "acks": "all", "batch.size": 100_000})
    for _ in range(LARGE_RECORDS):
        producer.produce("large", os.urandom(RECORD_BYTES), partition=0)
    assert producer.flush(120) == 0
    mark = node.data_dir / ".kbroker-boot"
    eventually(mark.exists)
    node.kill9()
    with (node.data_dir / "large-0" / f"{0:020d}.log").open("r+b") as log:
        log.seek(1_000_000)
        byte = log.read(1)
        log.seek(1_000_000)
        log.write(bytes([byte[0] ^ 1]))
    if kernel == "was restarted":
        mark.write_bytes(b"of another run\n")
    node.start()
    eventually(lambda: mark.exists() and mark.read_bytes() != b"of another run\n")
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "g"})
    _, end = watermarks(consumer, TopicPartition("large", 0))
    consumer.close()
    if kernel == "still runs":
        assert end == LARGE_RECORDS
    else:
        assert 0 < end <= 110
