"""Transaction requests to kbroker and to Apache Kafka 4.3.1: the same conversations, the same
answers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kbroker.protocol.coordinator_records.index import TRANSACTION_STATE
from kbroker.protocol.coordinator_records.transaction_log import TransactionLogKey, TransactionLogValue
from kbroker.protocol.record_types import decode_record
from kbroker.protocol.records import read_all
from tests.compat.raw import SocketPeer, differences
from tests.compat.recorded import Recording, compare
from tests.compat.side_by_side import raw_peers, side_by_side
from tests.compat.transaction_scripts import SCRIPTS, SETTINGS, answers_to, end_v2, mixed_versions
from tests.compat.transaction_talk import TransactionTalk

pytestmark = [pytest.mark.kafka, pytest.mark.compat]


LOGS: list[Path] = []
"""Log dirs of the two."""


@pytest.fixture(scope="module")
def peers(
    tmp_path_factory: pytest.TempPathFactory, kafka_jars: str
) -> Iterator[tuple[SocketPeer, SocketPeer]]:
    """Apache Kafka and kbroker."""
    with side_by_side(tmp_path_factory.mktemp("transactions"), SETTINGS) as (kafka, broker):
        LOGS[:] = [kafka.log_dir, broker.data_dir]
        yield raw_peers(kafka, broker)


@pytest.mark.parametrize("name", SCRIPTS)
def test_answers_are_the_same(peers: tuple[SocketPeer, SocketPeer], name: str) -> None:
    kafkas, kbrokers = (answers_to(peer, name) for peer in peers)
    compare(Recording("transactions"), name, kafkas, kbrokers)


def test_transaction_logs_hold_the_same_records(peers: tuple[SocketPeer, SocketPeer]) -> None:
    histories = []
    for peer, log_dir in zip(peers, LOGS, strict=True):
        talk = TransactionTalk(peer, "log")
        talk.find_transaction_coordinator()
        for script in (mixed_versions, end_v2):
            script(talk)
        history = []
        for value in stored(log_dir, talk.group("t")):
            levelled = talk.level(value)
            history.append({name: item for name, item in levelled.items() if "timestamp" not in name})
        talk.close()
        histories.append(history)
    expected, found = histories
    assert len(expected) > 20
    assert differences(expected, found) == []


def stored(log_dir: Path, transactional_id: str) -> list[TransactionLogValue]:
    """Every state of an id in a log dir's __transaction_state."""
    states = []
    for segment in sorted(log_dir.glob("__transaction_state-*/*.log")):
        for record in read_all(segment.read_bytes()):
            assert record.key is not None
            key, value = decode_record(TRANSACTION_STATE, record.key, record.value)
            if key == TransactionLogKey(transactional_id):
                assert isinstance(value, TransactionLogValue)
                states.append(value)
    return states
