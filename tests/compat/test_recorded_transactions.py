"""Transaction requests to kbroker: the answers that Apache Kafka 4.3.1 gave to the same
conversations."""

from collections.abc import Iterator

import pytest

from tests.compat.raw import SocketPeer
from tests.compat.recorded import Recording, encoded
from tests.compat.side_by_side import unlike
from tests.compat.transaction_scripts import SCRIPTS, SETTINGS, answers_to
from tests.peer.kbroker_node import KBroker

pytestmark = [pytest.mark.compat, pytest.mark.short]

TRANSACTIONS = Recording("transactions")


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SocketPeer]:
    node = KBroker(tmp_path_factory.mktemp("recorded"), SETTINGS)
    node.start()
    yield SocketPeer(int(node.bootstrap.rpartition(":")[2]), "raw")
    node.stop()


@pytest.mark.parametrize("name", SCRIPTS)
def test_transactions_get_the_recorded_answers(peer: SocketPeer, name: str) -> None:
    recorded = TRANSACTIONS.lines(name)
    assert recorded
    assert not unlike(recorded, encoded(answers_to(peer, name)))
