"""A broker whose control dies at chosen points, and what its clients can read."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kbroker.control.failpoint import VARIABLE
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kbroker.protocol.schema import Struct
from tests.compat.raw import SocketPeer
from tests.compat.transaction_talk import TransactionTalk, _codes
from tests.peer.kbroker_node import KBroker

NOT_YET = {14, 15, 16, 51}
"""The coordinator is being loaded, or a transaction is being completed."""
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "4",
}


class Broker:
    """A kbroker whose control dies at a chosen failpoint."""

    def __init__(self, folder: Path) -> None:
        self.failpoint_file = folder / "failpoint"
        self.node = KBroker(folder / "kbroker", SETTINGS)
        self.node.start()
        self.peer = SocketPeer(int(self.node.bootstrap.rpartition(":")[2]))
        self._numbers = iter(range(1000))
        probe = TransactionTalk(self.peer, "probe")
        probe.find_transaction_coordinator()
        probe.init("producer id 0, which errors carry too")
        probe.close()

    def talk(self) -> TransactionTalk:
        """A conversation with a topic of its own, about names of the same length."""
        talk = TransactionTalk(self.peer, f"case{next(self._numbers):03d}")
        name = f"{talk.prefix}-t"
        created = self.peer.ask(
            ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest([CreatableTopic(name, 2, 1)], 30_000)
        )
        talk._topics[created.topics[0].topic_id] = name  # type: ignore[union-attr]
        return talk

    def arm(self, place: str, api: ApiKey) -> None:
        name, _, count = place.partition("-")
        name = f"answering-{int(api)}" if name == "answering" else name
        self.failpoint_file.write_text(f"{name} {count or 1}")


def running(folder: Path) -> Iterator[Broker]:
    """A broker that reads a failpoint from a file in its folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, str(folder / "failpoint"))
        made = Broker(folder)
    yield made
    made.node.stop()


def read(talk: TransactionTalk, api: ApiKey, version: int, request: Struct) -> Any:
    """An answer, once the coordinator has one."""
    deadline = time.monotonic() + 90
    while True:
        answer: Any = talk.peer.ask(api, version, request)
        if answer is not None and not NOT_YET & _codes(answer):
            return answer
        assert time.monotonic() < deadline, answer
        time.sleep(0.02)
