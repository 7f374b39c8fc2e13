"""Group requests to kbroker: the answers that Apache Kafka 4.3.1 gave to the same conversations."""

from collections.abc import Iterator

import pytest

from tests.compat.conversations import GROUP_SCRIPTS, GROUP_SETTINGS, answers_to
from tests.compat.raw import SocketPeer
from tests.compat.recorded import Recording, encoded
from tests.compat.side_by_side import unlike
from tests.peer.kbroker_node import KBroker

pytestmark = [pytest.mark.compat, pytest.mark.short]

GROUPS = Recording("groups")


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SocketPeer]:
    node = KBroker(tmp_path_factory.mktemp("recorded"), GROUP_SETTINGS)
    node.start()
    yield SocketPeer(int(node.bootstrap.rpartition(":")[2]), "raw")
    node.stop()


@pytest.mark.parametrize("name", GROUP_SCRIPTS)
def test_groups_get_the_recorded_answers(peer: SocketPeer, name: str) -> None:
    recorded = GROUPS.lines(name)
    assert recorded
    assert not unlike(recorded, encoded(answers_to(peer, name)))
