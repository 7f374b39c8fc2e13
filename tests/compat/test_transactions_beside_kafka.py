"""Transaction requests to kbroker and to Apache Kafka 4.3.1: the same conversations, the same answers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kbroker.protocol.coordinator_records.index import TRANSACTION_STATE
from kbroker.protocol.coordinator_records.transaction_log import TransactionLogKey, TransactionLogValue
from kbroker.protocol.record_types import decode_record
from kbroker.protocol.records import read_all
from tests.compat.raw import SocketPeer, differences
from tests.compat.transaction_scripts import SCRIPTS, end_v2, mixed_versions
from tests.compat.transaction_talk import TransactionTalk
from tests.peer.apache_kafka import ApacheKafka
from tests.peer.kbroker_node import KBroker

pytestmark = [pytest.mark.kafka, pytest.mark.compat]


LOGS: list[Path] = []
"""Log dirs of the two."""


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
        LOGS[:] = [kafka.log_dir, broker.data_dir]
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
    wanted, found = histories
    assert len(wanted) > 20
    assert differences(wanted, found) == []


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
