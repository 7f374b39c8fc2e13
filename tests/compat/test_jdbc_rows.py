"""A source connector of this project's tests (`tests/peer/programs/JdbcRows.java`) brings the rows
of an SQL table to a topic through Kafka Connect, each once, over kills of the worker."""

import itertools
import json
import shutil
import sqlite3
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.compat.neighbours.building import run
from tests.conftest import BrokerFactory
from tests.peer.artifacts import PeerUnavailable, class_path
from tests.peer.connect_worker import JARS, ConnectWorker
from tests.peer.eventually import eventually
from tests.peer.java import find_java, has_compiler
from tests.peer.postgres import USER, Postgres, PostgresMissing
from tests.peer.side_work import Beside

pytestmark = [pytest.mark.kafka, pytest.mark.compat, pytest.mark.long, pytest.mark.timeout(600)]

PROGRAM = Path(__file__).parents[1] / "peer" / "programs" / "JdbcRows.java"
COMPILER = "jdk.compiler/com.sun.tools.javac.Main"
DRIVERS = "jdbc"
TOPIC = "orders"
KILLS = 2
ROWS = 5
"""Rows of each insert."""
Execute = Callable[[str], object]
"""Runs a statement and commits it."""
Database = tuple[str, str, Execute]
"""Its JDBC address, the type of an id that it counts up, its statements."""


@contextmanager
def sqlite(folder: Path) -> Iterator[Database]:
    file = folder / "shop.db"

    def execute(statement: str) -> None:
        with closing(sqlite3.connect(file, timeout=60)) as database, database:
            database.execute(statement)

    execute("PRAGMA journal_mode = WAL")
    yield f"jdbc:sqlite:{file}", "INTEGER PRIMARY KEY AUTOINCREMENT", execute


@contextmanager
def postgres(_: Path) -> Iterator[Database]:
    try:
        server = Postgres()
    except PostgresMissing as reason:
        pytest.skip(str(reason))
    try:
        server.start()
        url = f"jdbc:postgresql://127.0.0.1:{server.port}/{USER}?user={USER}"
        yield url, "bigint GENERATED ALWAYS AS IDENTITY", server.sql
    finally:
        server.stop()


class Inserts(Beside):
    """Inserts rows, in a thread."""

    def __init__(self, execute: Execute) -> None:
        super().__init__()
        self.items: list[str] = []
        self._execute = execute

    def _work(self) -> None:
        for number in itertools.count():
            items = [f"item {number * ROWS + one}" for one in range(ROWS)]
            values = ", ".join(f"('{item}')" for item in items)
            self._execute(f"INSERT INTO orders (item) VALUES {values}")
            self.items += items
            if self._stop.wait(0.02):
                return


class Reader:
    """Committed records of the topic, which has one partition."""

    def __init__(self, bootstrap: str) -> None:
        self.seen: list[Any] = []
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader"})
        self._consumer.assign([TopicPartition(TOPIC, 0, 0)])

    def read(self) -> list[Any]:
        """The rows so far. They may arrive all the time, so it does not look for an end."""
        for message in self._consumer.consume(500, 0.5):
            assert message.error() is None, message.error()
            self.seen.append(json.loads(message.value() or b""))
        return self.seen

    def close(self) -> None:
        self._consumer.close()


def plugin_path(folder: Path) -> Path:
    """The connector and the drivers in a folder of plugins. Skips the test without them."""
    try:
        drivers, connect = (Path(class_path(jars)).parent for jars in (DRIVERS, JARS))
    except PeerUnavailable as reason:
        pytest.skip(f"no Kafka Connect with JDBC: {reason}")
    if not has_compiler():
        pytest.skip("this Java has no compiler")
    plugin, classes = folder / "plugins" / "jdbc-rows", folder / "classes"
    plugin.mkdir(parents=True)
    jars = ":".join(map(str, connect.glob("*.jar")))  # started so, it knows no wildcard
    run([str(find_java()), "-m", COMPILER, "-cp", jars, "-d", str(classes), str(PROGRAM)])
    with zipfile.ZipFile(plugin / "jdbc-rows.jar", "w") as jar:
        for compiled in classes.glob("*.class"):
            jar.write(compiled, compiled.name)
        jar.writestr("META-INF/services/org.apache.kafka.connect.source.SourceConnector", PROGRAM.stem)
    for driver in drivers.glob("*.jar"):
        shutil.copy(driver, plugin)
    return plugin.parent


@contextmanager
def worker_with(bootstrap: str, folder: Path) -> Iterator[ConnectWorker]:
    settings = {
        "exactly.once.source.support": "enabled",
        "plugin.path": str(plugin_path(folder)),
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
    }
    worker = ConnectWorker(folder / "connect", bootstrap, settings)
    try:
        worker.start()
        yield worker
    finally:
        worker.stop()


@pytest.mark.parametrize("database", [sqlite, postgres])
def test_each_row_of_a_table_arrives_once_over_kills_of_the_worker(
    database: Callable[[Path], AbstractContextManager[Database]],
    broker_factory: BrokerFactory,
    tmp_path: Path,
) -> None:
    node = broker_factory()
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(120)

    reader = Reader(node.bootstrap)

    def continues() -> None:
        """Rows that are inserted from now on arrive."""
        reached = len(inserts.items) + 200
        eventually(lambda: len(reader.read()) >= reached)

    with database(tmp_path) as (url, number, execute), worker_with(node.bootstrap, tmp_path) as worker:
        execute(f"CREATE TABLE orders (id {number}, item text)")
        config = {
            "connector.class": PROGRAM.stem,
            "connection.url": url,
            "table": "orders",
            "column": "id",
            "topic": TOPIC,
            "exactly.once.support": "required",
        }
        worker.ask("PUT", "/connectors/rows/config", config)
        with Inserts(execute) as inserts:
            for _ in range(KILLS):
                continues()
                worker.kill9()
                worker.start()
            continues()
        eventually(lambda: len(reader.read()) >= len(inserts.items))
        assert reader.read() == [{"id": one, "item": item} for one, item in enumerate(inserts.items, 1)]
        stored = {"partition": {"table": "orders"}, "offset": {"id": len(inserts.items)}}
        eventually(lambda: worker.ask("GET", "/connectors/rows/offsets")["offsets"] == [stored])
    reader.close()
