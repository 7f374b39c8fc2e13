"""Group requests to kbroker and to Apache Kafka 4.3.1: the same conversations, the same answers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compat import group_scripts, share_scripts, streams_scripts
from tests.compat.group_talk import Talk
from tests.compat.raw import SocketPeer, differences
from tests.peer.apache_kafka import ApacheKafka
from tests.peer.kbroker_node import KBroker

pytestmark = [pytest.mark.kafka, pytest.mark.compat]

SCRIPTS = {**group_scripts.SCRIPTS, **share_scripts.SCRIPTS, **streams_scripts.SCRIPTS}
SETTINGS = {"group.initial.rebalance.delay.ms": "500", **streams_scripts.SETTINGS}


@pytest.fixture(scope="module")
def peers(
    tmp_path_factory: pytest.TempPathFactory, kafka_jars: str
) -> Iterator[tuple[SocketPeer, SocketPeer]]:
    """Apache Kafka and kbroker with the same settings."""
    folder: Path = tmp_path_factory.mktemp("groups")
    kafka, broker = ApacheKafka(folder / "kafka"), KBroker(folder / "kbroker", SETTINGS)
    try:
        kafka.start(SETTINGS)
        broker.start()
        yield SocketPeer(kafka.port, "raw"), SocketPeer(int(broker.bootstrap.rpartition(":")[2]), "raw")
    finally:
        broker.stop()
        kafka.stop()


@pytest.mark.parametrize("name", SCRIPTS)
def test_answers_are_alike(peers: tuple[SocketPeer, SocketPeer], name: str) -> None:
    said = []
    for peer in peers:
        talk = Talk(peer, name)
        talk.find_coordinator()
        SCRIPTS[name](talk)
        talk.close()
        said.append(talk.lines)
    wanted, found = said
    assert [label for label, _ in wanted] == [label for label, _ in found]
    unlike = {
        f"{index} {label}": lines
        for index, ((label, theirs), (_, ours)) in enumerate(zip(wanted, found, strict=True))
        if (lines := differences(theirs, ours))
    }
    assert not unlike
