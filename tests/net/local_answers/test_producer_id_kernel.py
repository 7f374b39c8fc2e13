"""Network processes assign first ids to idempotent producers from shared memory; control answers
all other InitProducerId requests."""

import socket
import struct

import pytest

from kbroker.ipc.layout import ProducerIds
from kbroker.ipc.messages import ClientRequest
from kbroker.metrics import layout as ml
from kbroker.protocol.codec import decode_exact
from kbroker.protocol.frame import encode_request, parse_response
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.net.conftest import NodeFactory
from tests.net.doubles import NetNode, ask

INIT_PRODUCER_ID = 22
VERSIONS = range(6)
FIRST = 1 << 40


@pytest.fixture
def node(node_factory: NodeFactory) -> NetNode:
    """Ids FIRST to FIRST + 9 are there."""

    def refuse(request: ClientRequest) -> bytes:
        return struct.pack(">ii", 4, request.correlation_id)

    made: NetNode = node_factory({"t": 1}, answer=refuse)
    made.shared.producer_ids[ProducerIds.NEXT] = FIRST
    made.shared.producer_ids[ProducerIds.END] = FIRST + 10
    return made


def answered(
    link: socket.socket, version: int, request: InitProducerIdRequest
) -> InitProducerIdResponse | None:
    """None when control was asked."""
    answer = ask(link, encode_request(INIT_PRODUCER_ID, version, 42, "test", request))
    if len(answer) == 4:
        return None
    correlation_id, start = parse_response(answer, INIT_PRODUCER_ID, version)
    assert correlation_id == 42
    return decode_exact(InitProducerIdResponse, version, answer, start)


@pytest.mark.parametrize("version", VERSIONS)
def test_each_producer_gets_the_next_id(node: NetNode, version: int) -> None:
    link = node.connect()
    for number in range(10):
        found = answered(link, version, InitProducerIdRequest(None, 60_000))
        assert found is not None
        assert (found.throttle_time_ms, found.error_code) == (0, 0)
        assert (found.producer_id, found.producer_epoch) == (FIRST + number, 0)
    assert not node.control.requests
    assert answered(link, version, InitProducerIdRequest(None, 60_000)) is None
    node.shared.producer_ids[ProducerIds.END] = FIRST + 11
    found = answered(link, version, InitProducerIdRequest(None, 60_000))
    assert found is not None
    assert found.producer_id == FIRST + 10


@pytest.mark.parametrize(
    ("version", "request_"),
    [
        (0, InitProducerIdRequest("t", 60_000)),
        (4, InitProducerIdRequest("t", 60_000)),
        (1, InitProducerIdRequest("", 60_000)),
        (5, InitProducerIdRequest("", 60_000)),
        (3, InitProducerIdRequest(None, 60_000, 5, 0)),
        (4, InitProducerIdRequest(None, 60_000, 5)),
        (5, InitProducerIdRequest(None, 60_000, -1, 5)),
    ],
)
def test_continuing_and_transactional_producers_are_left_to_control(
    node: NetNode, version: int, request_: InitProducerIdRequest
) -> None:
    assert answered(node.connect(), version, request_) is None
    assert node.shared.producer_ids[ProducerIds.NEXT] == FIRST


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_that_ends_too_early_takes_no_id(node: NetNode, version: int) -> None:
    whole = encode_request(INIT_PRODUCER_ID, version, 42, "test", InitProducerIdRequest(None, 1))[4:]
    for end in range(len(whole) - 1, 14, -1):
        answer = ask(node.connect(), struct.pack(">i", end) + whole[:end])
        assert len(answer) == 4, f"answered {end} of {len(whole)} bytes"
    assert node.shared.producer_ids[ProducerIds.NEXT] == FIRST


def test_answers_are_counted(node: NetNode) -> None:
    link = node.connect()
    for _ in range(3):
        answered(link, 4, InitProducerIdRequest(None, 1))
    counted = node.shared.metrics[0]
    assert counted[ml.REQUESTS + INIT_PRODUCER_ID * ml.VERSION_COUNT + 4] == 3
    assert counted[ml.ERRORS + INIT_PRODUCER_ID * ml.ERROR_COUNT + 1] == 3
