"""WriteTxnMarkers by clients without and with the right to write markers: very many, and odd
ones."""

from collections import Counter
from pathlib import Path

import pytest

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kbroker.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.attack.others import Others
from tests.attack.peers import Target, port_of, target
from tests.callbacks import slowness
from tests.conftest import BrokerFactory
from tests.peer.kbroker_node import KBroker

pytestmark = pytest.mark.slow

MANY = 300_000
WRITTEN = 20_000
MAX_WAIT_S = 3.0
ROUNDS = 4
"""At most: a busy host may hold a client up for seconds in one of them, but not in all."""
UNAUTHORIZED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:nobody",
}
ODD: dict[str, tuple[int, int, int, int, ErrorCode]] = {
    # producer id, its epoch, the coordinator's, transaction version
    "no producer": (-1, -1, 0, 0, ErrorCode.UNKNOWN_SERVER_ERROR),
    "no epoch": (5, -1, 0, 0, ErrorCode.UNKNOWN_SERVER_ERROR),
    "a negative producer": (-(2**63), 0, 0, 0, ErrorCode.NONE),
    "the largest producer": (2**63 - 1, 2**15 - 1, 2**31 - 1, 2, ErrorCode.NONE),
    "a negative epoch": (6, -(2**15), 0, 0, ErrorCode.INVALID_PRODUCER_EPOCH),
    "a negative coordinator": (7, 0, -(2**31), 0, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
    "an unknown version": (8, 0, 0, 127, ErrorCode.NONE),
}


def marker(topic: str, partitions: list[int], producer_id: int = 5, epoch: int = 0) -> WritableTxnMarker:
    return WritableTxnMarker(producer_id, epoch, False, [WritableTxnMarkerTopic(topic, partitions)], 0)


def written(peer: Target, version: int, *markers: WritableTxnMarker) -> Counter[int]:
    """How many partitions have which code."""
    answer = peer.ask(ApiKey.WRITE_TXN_MARKERS, version, WriteTxnMarkersRequest(list(markers)))
    return Counter(
        part.error_code for one in answer.markers for topic in one.topics for part in topic.partitions
    )


def topic(peer: Target, name: str) -> str:
    peer.ask(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest([CreatableTopic(name, 1, -1)], 30_000, False))
    return name


def test_without_the_right_very_many_markers_are_refused(broker_factory: BrokerFactory) -> None:
    broker = broker_factory(UNAUTHORIZED)
    waits: list[list[float]] = []
    for _ in range(ROUNDS):
        with Others(port_of(broker)) as others:
            found = written(target(broker), 1, *(marker("t", [0], number) for number in range(MANY)))
        assert found == {ErrorCode.CLUSTER_AUTHORIZATION_FAILED: MANY}
        waits.append(others.waits[-9:])
        if others.waits[-1] < MAX_WAIT_S * slowness():
            break
    else:
        pytest.fail(f"others wait for seconds: {waits}")


@pytest.mark.parametrize("producers", [1, WRITTEN])
def test_others_are_served_while_very_many_markers_are_written(broker: KBroker, producers: int) -> None:
    peer = target(broker)
    name = topic(peer, f"marked-{producers}")
    before = {title: child.pid for title, child in broker.children().items()}
    waits: list[list[float]] = []
    for _ in range(ROUNDS):
        with Others(port_of(broker)) as others:
            found = written(peer, 1, *(marker(name, [0], number % producers) for number in range(WRITTEN)))
        assert found == {0: producers}  # each producer has one answer
        waits.append(others.waits[-9:])
        if others.waits[len(others.waits) * 99 // 100] < MAX_WAIT_S * slowness():
            break
    else:
        pytest.fail(f"others wait for seconds: {waits}")
    assert {title: child.pid for title, child in broker.children().items()} == before


@pytest.mark.parametrize("name", ODD)
def test_odd_markers_are_written_or_refused_and_nothing_breaks(
    broker: KBroker, name: str, tmp_path: Path
) -> None:
    producer_id, epoch, coordinator_epoch, version, code = ODD[name]
    peer = target(broker)
    where = topic(peer, f"odd-{name.replace(' ', '-')}")
    topics = [WritableTxnMarkerTopic(where, [0]), WritableTxnMarkerTopic("none", [0, -1, 2**31 - 1])]
    odd = WritableTxnMarker(producer_id, epoch, True, topics, coordinator_epoch, version)
    entirely = code is ErrorCode.UNKNOWN_SERVER_ERROR
    expected = {code: 4} if entirely else {code: 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 3}
    assert written(peer, 2, odd) == expected
    assert written(peer, 1, marker(where, [0], 99)) == {0: 1}
    assert "Traceback" not in broker.logs(1 << 20)


def test_logs_with_odd_markers_are_loaded_again(broker_factory: BrokerFactory) -> None:
    broker = broker_factory()
    peer = target(broker)
    where = topic(peer, "odd")
    for producer_id, epoch, coordinator_epoch, version, code in ODD.values():
        topics = [WritableTxnMarkerTopic(where, [0])]
        odd = WritableTxnMarker(producer_id, epoch, False, topics, coordinator_epoch, version)
        assert written(peer, 2, odd) == {code: 1}
    broker.kill9()
    broker.restart()
    assert written(target(broker), 1, marker(where, [0], 99)) == {0: 1}
    assert "Traceback" not in broker.logs(1 << 20)
