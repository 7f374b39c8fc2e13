"""A file source of Kafka Connect continues after a kill -9 of its worker, there or on another; with
exactly once support a reader of committed records gets every line once, in order."""

import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.conftest import BrokerFactory
from tests.peer.artifacts import PeerUnavailable, class_path
from tests.peer.connect_worker import JARS, ConnectWorker
from tests.peer.eventually import eventually
from tests.peer.kbroker_node import KBroker
from tests.peer.side_work import Beside

pytestmark = [pytest.mark.kafka, pytest.mark.compat, pytest.mark.long, pytest.mark.timeout(600)]

KILLS = 2
TOPIC = "lines"
DELAY = {"scheduled.rebalance.max.delay.ms": "1000"}
EXACTLY_ONCE = {"exactly.once.source.support": "enabled"}


class Lines(Beside):
    """Appends a line to a file each 5 ms, in a thread."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.written: list[str] = []
        self._file = file

    def _work(self) -> None:
        with open(self._file, "a") as out:
            for number in itertools.count():
                out.write(f"line {number}\n")
                out.flush()
                self.written.append(f"line {number}")
                if self._stop.wait(0.005):
                    return


class Reader:
    """Committed records of the topic, which has one partition."""

    def __init__(self, bootstrap: str) -> None:
        self.seen: list[str] = []
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader"})
        self._consumer.assign([TopicPartition(TOPIC, 0, 0)])

    def read(self) -> list[str]:
        """Everything so far."""
        while messages := self._consumer.consume(500, 0.5):
            for message in messages:
                value = message.value()
                assert message.error() is None, message.error()
                assert value is not None
                self.seen.append(value.decode())
        return self.seen

    def close(self) -> None:
        self._consumer.close()


@pytest.fixture
def node(broker_factory: BrokerFactory) -> KBroker:
    broker = broker_factory()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(120)
    return broker


@pytest.fixture
def workers(node: KBroker, tmp_path: Path) -> Iterator[Callable[[dict[str, str]], ConnectWorker]]:
    """Starts workers of one group, with these settings; stops them all."""
    try:
        class_path(JARS)
    except PeerUnavailable as reason:
        pytest.skip(f"no Kafka Connect: {reason}")
    started: list[ConnectWorker] = []

    def start(settings: dict[str, str]) -> ConnectWorker:
        started.append(ConnectWorker(tmp_path / f"connect-{len(started)}", node.bootstrap, settings))
        started[-1].start()
        return started[-1]

    yield start
    for one in started:
        one.stop()


def begin(worker: ConnectWorker, source: Path, **more: str) -> None:
    """A connector that reads the file."""
    source.touch()
    config = {"connector.class": "FileStreamSource", "tasks.max": "1", "file": str(source), "topic": TOPIC}
    worker.ask("PUT", "/connectors/source/config", config | more)


def test_an_exactly_once_source_continues_after_kills_without_a_gap_or_a_repetition(
    node: KBroker, workers: Callable[[dict[str, str]], ConnectWorker], tmp_path: Path
) -> None:
    source = tmp_path / "in.txt"
    worker = workers(EXACTLY_ONCE)
    begin(worker, source, **{"exactly.once.support": "required"})
    reader = Reader(node.bootstrap)
    with Lines(source) as lines:
        for _ in range(KILLS):
            before = len(reader.seen)
            eventually(lambda before=before: len(reader.read()) > before + 200)  # type: ignore[misc]
            worker.kill9()
            worker.start()
        before = len(reader.seen)
        started = time.monotonic()
        eventually(lambda: len(reader.read()) > before + 200)
        print(f"continued {time.monotonic() - started:.0f} s after the worker's start")
    eventually(lambda: len(reader.read()) >= len(lines.written))
    assert reader.read() == lines.written
    reader.close()


def test_the_task_of_a_killed_worker_moves_to_another_after_the_delay(
    node: KBroker, workers: Callable[[dict[str, str]], ConnectWorker], tmp_path: Path
) -> None:
    """Connect waits five minutes by default, in case the worker returns."""
    source = tmp_path / "in.txt"
    group = [workers(DELAY), workers(DELAY)]
    begin(group[0], source)

    def tasks() -> list[str]:
        try:
            status = group[0].ask("GET", "/connectors/source/status")
        except OSError:  # no worker has reported it yet
            return []
        return [str(one["worker_id"]) for one in status["tasks"]]

    eventually(lambda: len(tasks()) == 1)
    reader = Reader(node.bootstrap)
    with Lines(source):
        eventually(lambda: len(reader.read()) > 200)
        (busy,) = [one for one in group if one.url.endswith(tasks()[0].rpartition(":")[2])]
        busy.kill9()
        before = len(reader.read())
        killed = time.monotonic()
        eventually(lambda: len(reader.read()) > before + 200)
        print(f"continued {time.monotonic() - killed:.0f} s after the kill")
    reader.close()
