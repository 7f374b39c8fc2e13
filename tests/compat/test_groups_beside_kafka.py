"""Group requests to kbroker and to Apache Kafka 4.3.1: the same conversations, the same answers."""

from collections.abc import Iterator

import pytest

from tests.compat import (
    group_scripts,
    share_portion_scripts,
    share_scripts,
    standing_scripts,
    streams_scripts,
)
from tests.compat.group_talk import Talk
from tests.compat.raw import SocketPeer
from tests.compat.side_by_side import raw_peers, side_by_side, unlike

pytestmark = [pytest.mark.kafka, pytest.mark.compat]

SCRIPTS = {
    **group_scripts.SCRIPTS,
    **share_scripts.SCRIPTS,
    **share_portion_scripts.SCRIPTS,
    **streams_scripts.SCRIPTS,
    **standing_scripts.SCRIPTS,
}
SETTINGS = {"group.initial.rebalance.delay.ms": "500", **streams_scripts.SETTINGS}


@pytest.fixture(scope="module")
def peers(
    tmp_path_factory: pytest.TempPathFactory, kafka_jars: str
) -> Iterator[tuple[SocketPeer, SocketPeer]]:
    """Apache Kafka and kbroker with the same settings."""
    with side_by_side(tmp_path_factory.mktemp("groups"), SETTINGS) as both:
        yield raw_peers(*both)


@pytest.mark.parametrize("name", SCRIPTS)
def test_answers_are_alike(peers: tuple[SocketPeer, SocketPeer], name: str) -> None:
    said = []
    for peer in peers:
        talk = Talk(peer, name)
        talk.find_coordinator()
        SCRIPTS[name](talk)
        talk.close()
        said.append(talk.lines)
    assert not unlike(*said)
