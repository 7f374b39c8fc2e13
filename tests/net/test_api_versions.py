"""The first request of a connection: clients of the same software send the same bytes."""

import socket
import struct

import pytest
from msgspec.structs import replace

from kbroker.api.error_counts import ErrorCounts
from kbroker.api.version_answers import LocalAnswers
from kbroker.ipc.messages import ClientRequest
from kbroker.metrics.slots import private
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import decode_exact
from kbroker.protocol.frame import encode_request
from kbroker.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kbroker.protocol.messages.metadata import MetadataRequest
from tests.net.conftest import NodeFactory
from tests.net.doubles import SERVED, NetNode, ask
from tests.net.requests import batch, produce

VERSION = 3
METADATA_VERSION = 9


def greet(link: socket.socket, number: int, software: str = "java", client_id: str = "test") -> bytes:
    """The answer to ApiVersions, without its size."""
    request = ApiVersionsRequest(software, "1.0")
    return ask(link, encode_request(ApiKey.API_VERSIONS, VERSION, number, client_id, request))


def software_of_next_request(node: NetNode, link: socket.socket) -> str:
    """What control gets with a request of a connection."""
    ask(link, encode_request(ApiKey.METADATA, METADATA_VERSION, 9, "test", MetadataRequest()))
    return node.control.requests[-1].software_name


def answer(request: ClientRequest) -> bytes:
    return struct.pack(">ii", 4, request.correlation_id)


@pytest.fixture
def node(node_factory: NodeFactory) -> NetNode:
    return node_factory({"t": 1}, answer=answer, version_answers=LocalAnswers(ErrorCounts(private()), SERVED))


def test_each_connection_gets_its_own_correlation_id(node: NetNode) -> None:
    answers = [greet(node.connect(), number) for number in (5, -6, 7)]
    assert [int.from_bytes(frame[:4], signed=True) for frame in answers] == [5, -6, 7]
    assert len({frame[4:] for frame in answers}) == 1
    decoded = decode_exact(ApiVersionsResponse, VERSION, answers[2], 4)
    assert {api.api_key: (api.min_version, api.max_version) for api in decoded.api_keys} == SERVED
    assert not node.control.requests


def test_a_known_answer_follows_the_features(node: NetNode) -> None:
    before = [greet(node.connect(), 1) for _ in range(2)]
    node.control.send(replace(node.image, version=2, features={"transaction.version": 1}, features_epoch=4))
    after = [greet(node.connect(), 1) for _ in range(2)]
    assert before[0] == before[1] != after[0] == after[1]
    assert decode_exact(ApiVersionsResponse, VERSION, after[1], 4).finalized_features_epoch == 4


def test_control_gets_the_software_of_a_known_request(node: NetNode) -> None:
    for software in ("java", "librdkafka"):
        for _ in range(2):  # decoded, then known
            link = node.connect()
            greet(link, 1, software)
            assert software_of_next_request(node, link) == software


def test_a_connection_without_a_greeting_is_served(node: NetNode) -> None:
    link = node.connect()
    assert produce(link, batch()).error_code == 0
    for _ in range(3):
        assert software_of_next_request(node, link) == ""


def test_software_may_change_and_come_back(node: NetNode) -> None:
    link = node.connect()
    for software in ("java", "librdkafka", "java"):
        greet(link, 1, software)
        assert software_of_next_request(node, link) == software
