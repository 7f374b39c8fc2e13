"""A running broker compacts its logs: clients find the latest values, whichever process is killed
meanwhile."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from kbroker.log import files
from tests.peer.compaction import leave_dirt
from tests.peer.kbroker_node import KBroker
from tests.peer.scrape import base, get, scrape

pytestmark = [pytest.mark.compat, pytest.mark.timeout(180)]

SETTINGS = {
    "log.cleaner.backoff.ms": "100",
    "num.io.threads": "2",
    "log.initial.task.delay.ms": "100",
    "log.segment.delete.delay.ms": "100",
    "kbroker.http.listen": "",
}
COMPACT = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "segment.bytes": "1048576",
    "segment.ms": "200",
}
SCRAPED = {**SETTINGS, "kbroker.http.listen": "127.0.0.1:0"}
KEYS = 50
CLEANER = "kbroker: cleaner"


@pytest.fixture
def node(broker_factory: Callable[..., KBroker]) -> KBroker:
    return broker_factory(SETTINGS)


def create(node: KBroker, topic: str, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    made = admin.create_topics([NewTopic(topic, 1, 1, config={**COMPACT, **config})])
    made[topic].result(120)


def change(node: KBroker, topic: str, **config: str) -> None:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    for name, value in config.items():
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource.add_incremental_config(entry)
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(120)


def produce(node: KBroker, topic: str, count: int, first: int = 0, value: bytes = b"") -> dict[bytes, bytes]:
    """Records whose values hold their number; gives key to latest value."""
    producer = Producer({"bootstrap.servers": node.bootstrap, "enable.idempotence": True, "linger.ms": 5})
    latest = {}
    for n in range(first, first + count):
        key = b"key%d" % (n % KEYS)
        latest[key] = b"%d " % n + value
        producer.produce(topic, latest[key], key)
        if n % 500 == 499:
            producer.flush(60)
            time.sleep(0.25)  # segment.ms goes by the records' timestamps
    assert producer.flush(120) == 0
    return latest


def read(node: KBroker, topic: str) -> dict[int, tuple[bytes, bytes]]:
    """Offset to key and value, from the first to the last record."""
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "r", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: dict[Any, Any] = {}
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is None:
            continue
        if (error := message.error()) is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                break
            assert error.retriable(), error
            continue
        found[message.offset()] = (message.key(), message.value())
    consumer.close()
    return found


def wait_until(holds: Callable[[], bool], what: str, seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def log_start(node: KBroker, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "r"})
    low, _ = consumer.get_watermark_offsets(TopicPartition(topic, 0), 60)
    consumer.close()
    return int(low)


def folder_of(node: KBroker, topic: str) -> Path:
    return node.data_dir / f"{topic}-0"


def test_a_topic_is_compacted_and_says_the_same(node: KBroker) -> None:
    create(node, "compacted")
    latest = produce(node, "compacted", 3000)
    latest |= produce(node, "compacted", 100, first=3000)  # rolls what was before
    wait_until(lambda: len(read(node, "compacted")) < 700, "never compacted")
    found = read(node, "compacted")
    assert dict(found.values()) == latest
    assert all(value.startswith(b"%d " % offset) for offset, (_, value) in found.items())
    path = node.data_dir / files.CLEANER_OFFSETS
    wait_until(lambda: path.exists() and "compacted 0 " in path.read_text(), "no checkpoint")
    lines = path.read_text().splitlines()
    assert lines[0] == "0"
    assert int(lines[1]) == len(lines) - 2
    node.restart()
    assert dict(read(node, "compacted").values()) == latest


def has_cleaner(node: KBroker) -> bool:
    return CLEANER in node.children()


def starts(node: KBroker) -> float:
    return scrape(node).value("kbroker_process_starts_total", role="cleaner")


def test_the_cleaner_starts_when_a_compacted_log_closes_a_segment_and_not_before(node: KBroker) -> None:
    create(node, "compacted", **{"segment.ms": "600000"})
    create(node, "deleted", **{"cleanup.policy": "delete"})
    produce(node, "compacted", 10)
    produce(node, "deleted", 1500)
    assert not has_cleaner(node)
    leave_dirt(node.bootstrap)
    wait_until(lambda: has_cleaner(node), "no cleaner")


def test_dirt_of_the_last_run_starts_the_cleaner_and_a_clean_log_does_not(
    broker_factory: Callable[..., KBroker],
) -> None:
    node = broker_factory(SCRAPED)
    leave_dirt(node.bootstrap, **{"min.cleanable.dirty.ratio": "0"})
    checkpoint = node.data_dir / files.CLEANER_OFFSETS
    wait_until(lambda: checkpoint.exists() and "dirty 0 1" in checkpoint.read_text(), "never cleaned")
    node.restart()
    produce(node, "dirty", 1)  # the log is open
    assert starts(node) == 0
    leave_dirt(node.bootstrap, "young", **{"min.compaction.lag.ms": "86400000"})
    wait_until(lambda: has_cleaner(node), "no cleaner")
    node.restart()
    wait_until(lambda: has_cleaner(node), "no cleaner")


def test_a_log_that_is_due_by_its_age_alone_is_cleaned(node: KBroker) -> None:
    """Long after the event that started the cleaner."""
    create(node, "aged", **{"min.cleanable.dirty.ratio": "1", "max.compaction.lag.ms": "4000"})
    latest = produce(node, "aged", 1500)
    wait_until(lambda: len(read(node, "aged")) < 1100, "never compacted")
    assert dict(read(node, "aged").values()) == latest


def test_a_cleaner_that_dies_is_restarted_and_one_that_never_ran_is_not_missed(
    broker_factory: Callable[..., KBroker],
) -> None:
    node = broker_factory(SCRAPED)
    assert starts(node) == 0
    assert get(base(node) + "/readyz")[0] == 200
    leave_dirt(node.bootstrap)
    wait_until(lambda: has_cleaner(node), "no cleaner")
    killed = node.kill9_child("cleaner")

    def is_restarted() -> bool:
        cleaner = node.children().get(CLEANER)
        return cleaner is not None and cleaner.pid != killed

    wait_until(is_restarted, "not restarted")
    assert starts(node) == 2
    node.stop()
    assert "kbroker stopped\n" in node.logs()


def test_the_cleaner_is_modest(node: KBroker) -> None:
    leave_dirt(node.bootstrap)
    wait_until(lambda: has_cleaner(node), "no cleaner")
    cleaner = node.children()[CLEANER]
    lowest = psutil.IOPRIO_CLASS_BE, 7  # in the class idle, syncs of other threads would wait with it
    wait_until(lambda: tuple(cleaner.ionice()) == lowest, "not the lowest best effort")
    wait_until(lambda: cleaner.nice() == 10, "not nice")


def test_no_cleaner_runs_when_it_is_disabled(broker_factory: Callable[..., KBroker]) -> None:
    node = broker_factory({**SCRAPED, "log.cleaner.enable": "false"})
    leave_dirt(node.bootstrap)
    synced = "kbroker_topic_flushes_total"  # the event that starts a cleaner
    wait_until(lambda: scrape(node).value(synced, topic="dirty") > 0, "never synced")
    produce(node, "dirty", 1)  # by a new connection: the parent has seen the event
    assert not has_cleaner(node)
    assert starts(node) == 0


def test_committed_offsets_survive_the_compaction_of_their_topic(
    broker_factory: Callable[..., KBroker],
) -> None:
    small = {"offsets.topic.num.partitions": "1", "offsets.topic.segment.bytes": "1048576"}
    node = broker_factory({**SETTINGS, **small, "log.cleaner.min.cleanable.ratio": "0.01"})
    create(node, "read")
    produce(node, "read", 10)
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "g", "enable.auto.commit": False})
    offsets = folder_of(node, "__consumer_offsets")

    def commit(number: int) -> None:
        consumer.commit(offsets=[TopicPartition("read", 0, number, metadata="m" * 3000)], asynchronous=False)

    commit(0)
    for number in range(1, 900):
        commit(number % 10)
    commit(7)
    wait_until(
        lambda: sum(path.stat().st_size for path in offsets.glob("*.log")) < 1_500_000, "never compacted"
    )
    consumer.close()
    node.restart()
    again = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "g"})
    assert again.committed([TopicPartition("read", 0)], 10)[0].offset == 7
    again.close()


def test_an_empty_cleanup_policy_keeps_everything(node: KBroker) -> None:
    create(node, "kept", **{"cleanup.policy": "", "retention.ms": "1", "retention.bytes": "1"})
    create(node, "cleaned")
    produce(node, "kept", 1500)
    produce(node, "cleaned", 1500)
    wait_until(lambda: len(read(node, "cleaned")) < 700, "never compacted")
    assert len(read(node, "kept")) == 1500


def test_compact_and_delete_together_bound_age_and_keys(broker_factory: Callable[..., KBroker]) -> None:
    node = broker_factory({**SETTINGS, "log.retention.check.interval.ms": "200"})
    create(node, "both", **{"cleanup.policy": "compact,delete", "retention.ms": "3600000"})
    produce(node, "both", 1500)
    wait_until(lambda: 0 < len(read(node, "both")) < 700, "never compacted")
    change(node, "both", **{"retention.ms": "3000"})  # not before: a slow cleaner would find nothing left
    produce(node, "both", 10, first=1500)
    time.sleep(3)
    produce(node, "both", 1, first=1510)
    wait_until(lambda: log_start(node, "both") >= 1500, "never deleted")


@pytest.mark.crash
def test_kills_of_cleaner_and_io_workers_change_nothing(node: KBroker) -> None:
    create(node, "killed")
    latest: dict[bytes, bytes] = {}
    for turn in range(12):
        latest |= produce(node, "killed", 1000, first=turn * 1000, value=b"v" * 500)
        if turn % 3 == 2:
            node.kill9_running("io")
        else:
            node.kill9_running("cleaner")
    node.kill9()
    node.start()
    latest |= produce(node, "killed", 600, first=12000)
    wait_until(lambda: len(read(node, "killed")) < 1500, "never compacted")
    found = read(node, "killed")
    assert dict(found.values()) == latest
    assert all(value.startswith(b"%d " % offset) for offset, (_, value) in found.items())


def test_a_log_that_becomes_compacted_is_cleaned_at_once(broker_factory: Callable[..., KBroker]) -> None:
    """Not when log.cleaner.backoff.ms is over."""
    node = broker_factory({**SETTINGS, "log.cleaner.backoff.ms": "600000"})
    create(node, "first")
    produce(node, "first", 1500)
    # A cleaner runs: it may have begun before all records were there, and backs off after that.
    wait_until(lambda: len(read(node, "first")) < 1500, "never compacted")
    create(node, "later", **{"cleanup.policy": "delete"})
    latest = produce(node, "later", 1500)
    time.sleep(1)  # it backs off now
    change(node, "later", **{"cleanup.policy": "compact"})
    wait_until(lambda: len(read(node, "later")) < 700, "not before the back-off is over")
    assert dict(read(node, "later").values()) == latest
