"""Group requests to kbroker and to Apache Kafka 4.3.1: the same conversations, the same answers."""

from collections.abc import Iterator

import pytest

from tests.compat.conversations import GROUP_SCRIPTS, GROUP_SETTINGS
from tests.compat.group_talk import Talk
from tests.compat.raw import SocketPeer
from tests.compat.recorded import RECORDING, Recording, encoded
from tests.compat.side_by_side import raw_peers, side_by_side, unlike

pytestmark = [pytest.mark.kafka, pytest.mark.compat]


@pytest.fixture(scope="module")
def peers(
    tmp_path_factory: pytest.TempPathFactory, kafka_jars: str
) -> Iterator[tuple[SocketPeer, SocketPeer]]:
    """Apache Kafka and kbroker with the same settings."""
    with side_by_side(tmp_path_factory.mktemp("groups"), GROUP_SETTINGS) as both:
        yield raw_peers(*both)


@pytest.mark.parametrize("name", GROUP_SCRIPTS)
def test_answers_are_the_same(peers: tuple[SocketPeer, SocketPeer], name: str) -> None:
    said = []
    for peer in peers:
        talk = Talk(peer, name)
        talk.find_coordinator()
        GROUP_SCRIPTS[name](talk)
        talk.close()
        said.append(talk.lines)
    recording = Recording("groups")
    if RECORDING:
        recording.keep(name, said[0])
    assert not unlike(*said)
    assert not unlike(recording.lines(name), encoded(said[0])), "KBROKER_RECORD=1 records it anew"
