"""Share groups of real clients: librdkafka's and Java's share consumers, and kafka-share-groups."""

import re
import time
from collections.abc import Callable

import pytest
from confluent_kafka import (  # type: ignore[attr-defined] # its stubs know no ShareConsumer
    OFFSET_END,
    Producer,
    ShareConsumer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from tests.compat.group_clients import create_topic, produce
from tests.conftest import BrokerFactory
from tests.peer.kbroker_node import KBroker
from tests.peer.tools import run_tool

pytestmark = [pytest.mark.compat, pytest.mark.kafka]

TOOL = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
CONSOLE = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
GROUP = "team"

Found = list[tuple[int, int]]


@pytest.fixture
def node(broker_factory: BrokerFactory, kafka_jars: str) -> KBroker:
    """A broker with a topic whose share group begins at the start."""
    node = broker_factory({})
    create_topic(node, "shared", 2)
    configure(node, "share.auto.offset.reset=earliest,share.record.lock.duration.ms=15000")
    return node


def configure(node: KBroker, settings: str) -> None:
    run_tool(
        "kafka.admin.ConfigCommand", "--bootstrap-server", node.bootstrap, "--alter",
        "--entity-type", "groups", "--entity-name", GROUP, "--add-config", settings,
    )  # fmt: skip


def console(node: KBroker, *arguments: str) -> list[str]:
    """What Java's console share consumer prints until nothing comes any more, or the wanted number
    has come."""
    # joining takes seconds on a crowded machine
    patience_ms = "60000" if "--max-messages" in arguments else "15000"
    done = run_tool(
        CONSOLE, "--bootstrap-server", node.bootstrap, "--topic", "shared", "--group", GROUP,
        "--timeout-ms", patience_ms, *arguments,
    )  # fmt: skip
    return done.stdout.split("\n")[:-1]


def groups(node: KBroker, *arguments: str) -> str:
    done = run_tool(TOOL, "--bootstrap-server", node.bootstrap, *arguments)
    return done.stdout + done.stderr


def poll(consumers: list[ShareConsumer], found: Found, reached: Callable[[Found], bool]) -> None:
    deadline = time.monotonic() + 90
    while not reached(found):
        assert time.monotonic() < deadline, len(found)
        for consumer in consumers:
            for message in consumer.poll(0.3) or ():
                assert message.error() is None, message.error()
                found.append((message.partition(), message.offset()))


def test_members_of_librdkafka_share_and_a_restart_loses_nothing(node: KBroker) -> None:
    produce(node, "shared", 200)
    consumers = [ShareConsumer({"bootstrap.servers": node.bootstrap, "group.id": GROUP}) for _ in range(2)]
    for consumer in consumers:
        consumer.subscribe(["shared"])
    found: Found = []
    poll(consumers, found, lambda found: len(found) >= 200)
    assert len(set(found)) == len(found) == 200
    for consumer in consumers:
        consumer.commit_sync()
        consumer.close()
    node.stop()
    node.start()
    produce(node, "shared", 50)
    again = ShareConsumer({"bootstrap.servers": node.bootstrap, "group.id": GROUP})
    again.subscribe(["shared"])
    poll([again], found, lambda found: len(found) >= 250)
    again.close()
    assert len(set(found)) == len(found) == 250


def test_more_members_than_partitions_all_work(node: KBroker) -> None:
    consumers = [ShareConsumer({"bootstrap.servers": node.bootstrap, "group.id": GROUP}) for _ in range(4)]
    counts = dict.fromkeys(range(4), 0)
    for consumer in consumers:
        consumer.subscribe(["shared"])
    deadline = time.monotonic() + 120
    total = 0
    while not all(counts.values()):
        assert time.monotonic() < deadline, counts
        produce(node, "shared", 20)
        total += 20
        for number, consumer in enumerate(consumers):
            counts[number] += len(consumer.poll(0.3) or ())
    for consumer in consumers:
        consumer.close()
    assert sum(counts.values()) <= total


@pytest.mark.parametrize(("isolation", "expected"), [("read_committed", 60), ("read_uncommitted", 90)])
def test_records_of_an_aborted_transaction_are_passed_over(
    node: KBroker, isolation: str, expected: int
) -> None:
    configure(node, f"share.isolation.level={isolation}")
    producer = Producer({"bootstrap.servers": node.bootstrap, "transactional.id": "mover"})
    producer.init_transactions()
    for commits in (True, False, True):
        producer.begin_transaction()
        for number in range(30):
            producer.produce("shared", value=f"{commits} {number}", partition=0)
        producer.flush()
        if commits:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    values = console(node)
    assert len(values) == expected
    assert ("False 0" in values) == (isolation == "read_uncommitted")
    produce(node, "shared", 20)
    assert len(console(node)) == 20
    rows = [
        row.split() for row in groups(node, "--describe", "--group", GROUP).splitlines() if "shared" in row
    ]
    assert {row[4] for row in rows} == {"0"}


def test_records_that_retention_deleted_are_passed_over(node: KBroker) -> None:
    """Records that no member acknowledged disappear from the log: the group continues after
    them."""
    produce(node, "shared", 40)
    assert len(console(node, "--max-messages", "1")) == 1
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    gone = [TopicPartition("shared", index, OFFSET_END) for index in range(2)]
    for future in admin.delete_records(gone).values():
        future.result()
    produce(node, "shared", 10)
    assert len(console(node)) == 10


def test_the_java_share_consumer_accepts_releases_and_rejects(node: KBroker) -> None:
    produce(node, "shared", 60)
    assert len(console(node, "--max-messages", "25")) == 25
    left = console(node)
    assert len(left) == len(set(left)) == 35
    produce(node, "shared", 10)
    assert len(console(node, "--release")) == 50  # each is delivered five times
    produce(node, "shared", 10)
    assert len(console(node, "--reject")) == 10
    assert console(node) == []


def offsets(node: KBroker) -> tuple[int, int]:
    """The start offsets and the lags that kafka-share-groups shows, each summed."""
    lines = groups(node, "--describe", "--group", GROUP).splitlines()
    rows = [line.split() for line in lines if "shared" in line]
    assert len(rows) == 2
    return sum(int(row[3]) for row in rows), sum(int(row[4]) for row in rows)


def test_kafka_share_groups_sees_and_changes_groups(node: KBroker) -> None:
    produce(node, "shared", 40)
    assert len(console(node)) == 40
    assert re.search(rf"{GROUP} +Empty", groups(node, "--list", "--state"))
    assert offsets(node) == (0, 0)  # written with the last change: the start before it, as in Kafka
    produce(node, "shared", 10)
    assert len(console(node)) == 10
    assert offsets(node) == (40, 0)
    reset = groups(
        node, "--reset-offsets", "--group", GROUP, "--topic", "shared", "--to-earliest", "--execute"
    )
    assert len([row for row in reset.splitlines() if row.startswith(GROUP)]) == 2
    assert offsets(node)[1] == 50
    assert len(console(node)) == 50
    assert "Successful" in groups(node, "--delete-offsets", "--group", GROUP, "--topic", "shared")
    assert "successful" in groups(node, "--delete", "--group", GROUP)
    assert GROUP not in groups(node, "--list")
