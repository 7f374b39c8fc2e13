"""Transaction requests to kbroker and to Apache Kafka 4.3.1: the same conversations, the same answers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compat.raw import SocketPeer, differences
from tests.compat.transaction_scripts import SCRIPTS
from tests.compat.transaction_talk import TransactionTalk
from tests.peer.apache_kafka import ApacheKafka
from tests.peer.kbroker_node import KBroker

pytestmark = [pytest.mark.kafka, pytest.mark.compat]


@pytest.fixture(scope="module")
def peers(
    tmp_path_factory: pytest.TempPathFactory, kafka_jars: str
) -> Iterator[tuple[SocketPeer, SocketPeer]]:
    """Apache Kafka and kbroker."""
    folder: Path = tmp_path_factory.mktemp("transactions")
    kafka, broker = ApacheKafka(folder / "kafka"), KBroker(folder / "kbroker")
    try:
        kafka.start()
        broker.start()
        yield SocketPeer(kafka.port, "raw"), SocketPeer(int(broker.bootstrap.rpartition(":")[2]), "raw")
    finally:
        broker.stop()
        kafka.stop()


@pytest.mark.parametrize("name", SCRIPTS)
def test_answers_are_alike(peers: tuple[SocketPeer, SocketPeer], name: str) -> None:
    said = []
    for peer in peers:
        talk = TransactionTalk(peer, name)
        talk.find_transaction_coordinator()
        SCRIPTS[name](talk)
        talk.close()
        said.append(talk.lines)
    wanted, found = said
    assert [label for label, _ in wanted] == [label for label, _ in found]
    unlike = [
        f"{label}: {line}"
        for (label, theirs), (_, ours) in zip(wanted, found, strict=True)
        for line in differences(theirs, ours)
    ]
    assert not unlike, "\n".join(unlike)
