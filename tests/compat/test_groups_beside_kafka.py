"""Group requests to kbroker and to Apache Kafka 4.3.1: the same conversations, the same answers."""

from collections.abc import Iterator

import pytest

from tests.compat.conversations import GROUP_SCRIPTS, GROUP_SETTINGS, answers_to
from tests.compat.raw import SocketPeer
from tests.compat.recorded import Recording, compare
from tests.compat.side_by_side import raw_peers, side_by_side

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
    kafkas, kbrokers = (answers_to(peer, name) for peer in peers)
    compare(Recording("groups"), name, kafkas, kbrokers)
