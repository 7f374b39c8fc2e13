"""Debezium, in a worker of Kafka Connect, brings the changes of a PostgreSQL table to a topic, each
once, over a kill of the worker."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.conftest import BrokerFactory
from tests.peer.artifacts import PeerUnavailable, class_path
from tests.peer.connect_worker import ConnectWorker
from tests.peer.eventually import eventually
from tests.peer.kbroker_node import KBroker
from tests.peer.postgres import USER, Postgres, PostgresMissing

pytestmark = [pytest.mark.kafka, pytest.mark.compat, pytest.mark.long, pytest.mark.timeout(600)]

JARS = "debezium"
TOPIC = "shop.public.orders"
EXACTLY_ONCE = {"exactly.once.source.support": "enabled"}
"""Else offsets are stored once a minute: after a kill in the first one the snapshot is made again,
and a row that was deleted meanwhile is in neither."""
JSON = {
    f"{part}.{name}": value
    for part in ("key", "value")
    for name, value in (
        ("converter", "org.apache.kafka.connect.json.JsonConverter"),
        ("converter.schemas.enable", "false"),
    )
}
CHANGES = ((11, "ink"), (12, "pad"))


class Changes:
    """The events of the topic: (operation, id, item after it)."""

    def __init__(self, node: KBroker) -> None:
        self.seen: list[tuple[str, int, str | None]] = []
        self._consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "reader"})
        self._assigned = False

    def read(self) -> list[tuple[str, int, str | None]]:
        """Everything so far; a tombstone is the operation ""."""
        if not self._assigned and TOPIC in self._consumer.list_topics(timeout=30).topics:
            self._consumer.assign([TopicPartition(TOPIC, 0, 0)])
            self._assigned = True
        for message in self._consumer.consume(100, 0.5) if self._assigned else ():
            assert message.error() is None, message.error()
            key = message.key()
            assert key is not None
            value = message.value()
            event: dict[str, Any] = {"op": "", "after": None} if value is None else json.loads(value)
            after = event["after"]
            self.seen.append((event["op"], json.loads(key)["id"], after and after["item"]))
        return self.seen

    def close(self) -> None:
        self._consumer.close()


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    try:
        one = Postgres()
    except PostgresMissing as reason:
        pytest.skip(str(reason))
    try:
        one.start()
        yield one
    finally:
        one.stop()


@pytest.fixture
def node(broker_factory: BrokerFactory) -> KBroker:
    return broker_factory()


@pytest.fixture
def worker(node: KBroker, tmp_path: Path) -> Iterator[ConnectWorker]:
    try:
        class_path(JARS)
    except PeerUnavailable as reason:
        pytest.skip(f"no Debezium: {reason}")
    one = ConnectWorker(tmp_path / "connect", node.bootstrap, JSON | EXACTLY_ONCE, JARS)
    one.start()
    yield one
    one.stop()


def test_changes_of_a_table_arrive_over_a_kill_of_the_worker(
    node: KBroker, worker: ConnectWorker, postgres: Postgres
) -> None:
    postgres.sql("CREATE TABLE orders (id int PRIMARY KEY, item text)")
    postgres.sql("INSERT INTO orders SELECT n, 'pen ' || n FROM generate_series(1, 10) AS n")
    config = {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.hostname": "127.0.0.1",
        "database.port": str(postgres.port),
        "database.user": USER,
        "database.password": "unused",
        "database.dbname": USER,
        "plugin.name": "pgoutput",
        "table.include.list": "public.orders",
        "topic.prefix": "shop",
        "exactly.once.support": "required",
    }
    worker.ask("PUT", "/connectors/orders/config", config)
    changes = Changes(node)
    eventually(lambda: len(changes.read()) == 10)
    assert {operation for operation, _, _ in changes.seen} == {"r"}  # of the snapshot
    for number, item in CHANGES:
        postgres.sql(f"INSERT INTO orders VALUES ({number}, '{item}')")
    eventually(lambda: changes.read()[10:] == [("c", number, item) for number, item in CHANGES])

    worker.kill9()
    postgres.sql("UPDATE orders SET item = 'quill' WHERE id = 1")
    postgres.sql("DELETE FROM orders WHERE id = 2")
    worker.start()
    missed = [("u", 1, "quill"), ("d", 2, None), ("", 2, None)]
    eventually(lambda: len(changes.read()) >= 15)
    postgres.sql("UPDATE orders SET item = 'brush' WHERE id = 11")
    eventually(lambda: ("u", 11, "brush") in changes.read())
    assert changes.seen[12:] == [*missed, ("u", 11, "brush")]
    changes.close()
