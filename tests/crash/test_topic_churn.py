"""kill -9 of any child while topics come and go: what was answered is true, now and after
restarts."""

import random
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest

from kbroker.control import failpoint
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.delete_topics import DeleteTopicsRequest
from kbroker.protocol.messages.metadata import MetadataRequest
from kbroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kbroker.protocol.records import build_batch
from tests.compat import admin_cases as admin
from tests.compat.raw import SocketPeer
from tests.conftest import BrokerFactory
from tests.crash.seeds import chances
from tests.peer.kbroker_node import KBroker

pytestmark = pytest.mark.crash

KILLS = 20
PARTITIONS = 2
ROLES = ("control", "control", "io 0", "io 1", "network")


class Churn(threading.Thread):
    """Creates and deletes topics of its own; `exists` says which must and must not be there, None
    when unanswered."""

    def __init__(self, number: int, peer: SocketPeer) -> None:
        super().__init__(daemon=True)
        self.exists: dict[str, bool | None] = {}
        self.stopping = threading.Event()
        self._number = number
        self._peer = peer
        self._choose = random.Random(number)

    def run(self) -> None:
        turn = 0
        while not self.stopping.is_set():
            name = f"churn-{self._number}-{turn % 3}"
            turn += 1
            self._make(name)
            if self._choose.random() < 0.6:
                self._remove(name)

    def make_last(self) -> bool:
        """Create a topic that stays; whether that was answered. After the end of `run`."""
        self._make(f"churn-{self._number}-last")
        return self.exists[f"churn-{self._number}-last"] is True

    def _ask(self, api: ApiKey, version: int, request: Any) -> Any:
        try:
            return self._peer.ask(api, version, request)
        except OSError:
            return None

    def _make(self, name: str) -> None:
        self.exists[name] = None
        answer = self._ask(ApiKey.CREATE_TOPICS, 4, admin.create(admin.topic(name, PARTITIONS)))
        if answer is None or "marked for deletion" in (answer.topics[0].error_message or ""):
            return
        if answer.topics[0].error_code in (0, ErrorCode.TOPIC_ALREADY_EXISTS):
            self.exists[name] = True

    def _remove(self, name: str) -> None:
        self.exists[name] = None
        answer = self._ask(ApiKey.DELETE_TOPICS, 5, DeleteTopicsRequest([name], [], 10_000))
        if answer is not None and answer.responses[0].error_code in (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            self.exists[name] = False


def check(node: KBroker, exists: dict[str, bool | None]) -> None:
    """What was answered holds, folders match the topics, and every partition takes records."""
    peer = SocketPeer(int(node.bootstrap.rpartition(":")[2]))
    answer: Any = until(lambda: peer.ask(ApiKey.METADATA, 12, MetadataRequest(None)))
    found = {topic.name: len(topic.partitions) for topic in answer.topics}
    known = {name: there for name, there in exists.items() if there is not None}
    assert {name: name in found for name in known} == known
    assert True in known.values(), "no topic is known to be there"
    assert set(found.values()) == {PARTITIONS}
    expected = {f"{name}-{index}" for name, count in found.items() for index in range(count)}
    until(
        lambda: folders(node.data_dir) == expected,
        lambda: f"folders {sorted(folders(node.data_dir))}, not those of all topics {sorted(expected)}",
    )
    for name, count in found.items():
        for index in range(count):
            until(lambda name=name, index=index: produced(peer, name, index))


def folders(data_dir: Path) -> set[str]:
    return {path.name for path in data_dir.iterdir() if path.is_dir() and not path.name.endswith("-delete")}


def produced(peer: SocketPeer, name: str, index: int) -> bool:
    batch = build_batch([(b"k", b"v", (), 1)])
    data = TopicProduceData(name, partition_data=[PartitionProduceData(index, batch)])
    answer: Any = peer.ask(ApiKey.PRODUCE, 9, ProduceRequest(None, -1, 5000, [data]))
    return answer is not None and answer.responses[0].partition_responses[0].error_code == 0


def until(condition: Any, why: Callable[[], str] = lambda: "it did not happen") -> Any:
    deadline = time.monotonic() + 120
    while True:
        try:
            if found := condition():
                return found
        except OSError:
            pass  # a killed child is not back yet
        assert time.monotonic() < deadline, why()
        time.sleep(0.05)


def test_answers_about_topics_hold_whatever_is_killed(broker_factory: BrokerFactory) -> None:
    node = broker_factory({"num.io.threads": "2", "auto.create.topics.enable": "false"})
    port = int(node.bootstrap.rpartition(":")[2])
    churns = [Churn(number, SocketPeer(port)) for number in range(3)]
    for churn in churns:
        churn.start()
    choose = chances()
    for _ in range(KILLS):
        time.sleep(choose.uniform(0.1, 0.6))
        try:
            node.kill9_child(choose.choice(ROLES))
        except (LookupError, psutil.NoSuchProcess):
            continue  # it is just being restarted
    for churn in churns:
        churn.stopping.set()
    for churn in churns:
        churn.join(120)
        assert not churn.is_alive()
        until(churn.make_last)
    exists = {name: there for churn in churns for name, there in churn.exists.items()}
    check(node, exists)
    node.restart()
    check(node, exists)
    node.kill9()
    node.start()
    check(node, exists)


def test_a_topic_whose_creation_was_interrupted_can_be_deleted_at_once(
    broker_factory: BrokerFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Control serves the deletion while the IO workers are to open its logs. It restarts so late
    that both wait for it. The workers are stopped, so that they get both calls together."""
    armed = tmp_path / "failpoint"
    monkeypatch.setenv(failpoint.VARIABLE, str(armed))
    node = broker_factory({"num.io.threads": "2", "auto.create.topics.enable": "false"})
    churn = Churn(0, SocketPeer(int(node.bootstrap.rpartition(":")[2])))
    for _ in range(6):
        node.kill9_running("control")
        until(lambda: churn.make_last())
    workers = [child for title, child in node.children().items() if "kbroker: io" in title]
    for name in map("interrupted-{}".format, range(3)):
        armed.write_text("stored 1")
        churn._make(name)
        assert churn.exists[name] is None
        time.sleep(0.1)  # the workers wait for control
        deletion = threading.Thread(target=churn._remove, args=(name,))
        with ExitStack() as stopped:
            for worker in workers:
                worker.suspend()
                stopped.callback(worker.resume)
            deletion.start()
            deletion.join(3)
        deletion.join()
        while churn.exists[name] is not False:
            churn._remove(name)
        churn._make(f"after-{name}")  # in the slots of the deleted one
        check(node, churn.exists)
