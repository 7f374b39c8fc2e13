"""Admin and metadata requests to kbroker and to Apache Kafka 4.3.1: the answers are the same, field
by field."""

from collections.abc import Iterator
from typing import Any

import pytest

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.api_versions import ApiVersionsRequest
from kbroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kbroker.protocol.records import build_batch
from tests.compat import admin_cases, config_cases
from tests.compat.raw import SocketPeer, compare
from tests.conftest import RUNNING
from tests.peer.apache_kafka import ApacheKafka
from tests.peer.kbroker_node import AS_A_CLUSTER_OF_ONE, KBroker

pytestmark = [pytest.mark.kafka, pytest.mark.compat]

NOT_DONE = {80, 81, 83, 84, 85, 86, 87}
"""Raft voters and the share state persister: between brokers, or not planned."""


@pytest.fixture(scope="module")
def refusing_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KBroker]:
    """A kbroker that refuses more replicas than there are, as Apache Kafka does."""
    node = KBroker(tmp_path_factory.mktemp("refusing"), AS_A_CLUSTER_OF_ONE)
    RUNNING.append(node)
    node.start()
    yield node
    RUNNING.remove(node)
    node.stop()


@pytest.fixture(scope="module")
def peers(fresh_kafka: ApacheKafka, refusing_broker: KBroker) -> tuple[SocketPeer, SocketPeer]:
    """Apache Kafka and kbroker, with the topics and records that the cases expect."""
    broker = refusing_broker
    both = SocketPeer(fresh_kafka.port), SocketPeer(int(broker.bootstrap.rpartition(":")[2]))
    for peer in both:
        admin_cases.prepare(peer)
    for one in admin_cases.CREATE_TOPICS:
        for version in range(one.versions[0], one.versions[1] + 1):
            assert not compare(one, version, *both), one.name
    # its records are of 1970: Apache Kafka's retention would take them 30 s after the start
    kept_for_ever = config_cases.altered(config_cases.TOPIC, "one", ("retention.ms", config_cases.SET, "-1"))
    for peer in both:
        kept: Any = peer.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, kept_for_ever)
        assert kept.responses[0].error_code == 0
    for partition, records in admin_cases.RECORDS:
        data = PartitionProduceData(partition, build_batch(records))
        request = ProduceRequest(None, -1, 10_000, [TopicProduceData("one", partition_data=[data])])
        for peer in both:
            answer: Any = peer.ask(ApiKey.PRODUCE, 9, request)
            assert answer.responses[0].partition_responses[0].error_code == 0
    return both


LATER = [one for one in admin_cases.CASES if one not in admin_cases.CREATE_TOPICS]


@pytest.mark.parametrize(
    ("one", "version"),
    [(one, version) for one in LATER for version in range(one.versions[0], one.versions[1] + 1)],
    ids=lambda value: getattr(value, "name", f"v{value}"),
)
def test_answers_are_the_same(peers: tuple[SocketPeer, SocketPeer], one: Any, version: int) -> None:
    assert not compare(one, version, *peers)


@pytest.mark.parametrize("version", range(5))
def test_advertised_ranges_are_kafkas(peers: tuple[SocketPeer, SocketPeer], version: int) -> None:
    request = ApiVersionsRequest("raw", "1.0")
    expected, found = (peer.ask(ApiKey.API_VERSIONS, version, request) for peer in peers)
    ranges = {api.api_key: (api.min_version, api.max_version) for api in expected.api_keys}  # type: ignore[union-attr]
    ours = {api.api_key: (api.min_version, api.max_version) for api in found.api_keys}  # type: ignore[union-attr]
    assert not NOT_DONE & set(ours)
    assert ours == {key: ranges[key] for key in ours}


@pytest.mark.parametrize("version", [3, 4])
def test_features_are_kafkas(peers: tuple[SocketPeer, SocketPeer], version: int) -> None:
    request = ApiVersionsRequest("raw", "1.0")
    expected, found = (peer.ask(ApiKey.API_VERSIONS, version, request) for peer in peers)
    for name in ("supported_features", "finalized_features"):
        theirs = {feature.name: feature for feature in getattr(expected, name)}
        ours = {feature.name: feature for feature in getattr(found, name)}
        assert ours == theirs


@pytest.mark.parametrize("software", [("", "1"), ("a", ""), ("-a", "1"), ("a b", "1")])
def test_malformed_software_names_are_refused_the_same_way(
    peers: tuple[SocketPeer, SocketPeer], software: tuple[str, str]
) -> None:
    expected, found = (peer.ask(ApiKey.API_VERSIONS, 3, ApiVersionsRequest(*software)) for peer in peers)
    assert expected == found


def test_an_unknown_version_of_api_versions_is_answered_in_v0s_form(
    peers: tuple[SocketPeer, SocketPeer],
) -> None:
    frame = bytes.fromhex("00000011 0012 0009 00000007 0001 61 00 0261 0262 00".replace(" ", ""))
    assert len(frame) == 4 + 17
    expected, found = (peer.send(frame) for peer in peers)
    assert expected == found


@pytest.mark.parametrize(("key", "version"), [(3, 99), (19, 1), (4, 0), (999, 0), (-1, 0), (2, 0)])
def test_other_unknown_requests_are_closed_upon(
    peers: tuple[SocketPeer, SocketPeer], key: int, version: int
) -> None:
    body = (
        key.to_bytes(2, "big", signed=True) + version.to_bytes(2) + (7).to_bytes(4) + b"\xff\xff" + bytes(8)
    )
    frame = len(body).to_bytes(4) + body
    assert [peer.send(frame) for peer in peers] == [None, None]
