"""Produce requests whose batches are gigabytes in plain: others' long batches do not wait for
them."""

import socket
import struct
import time

import pytest

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import decode_exact
from kbroker.protocol.compression import Codec
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.frame import encode_request, parse_response
from kbroker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kbroker.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kbroker.protocol.records import build_batch
from tests.attack.bomb import bomb
from tests.attack.peers import port_of, target
from tests.compat.raw import receive
from tests.peer.kbroker_node import KBroker

pytestmark = pytest.mark.slow

VERSION = 8
BOMBS = 60
"""Each of two gigabytes, which take about a second."""
PATIENCE_S = 30.0
"""For three answers: half the time of all bombs."""


def frame(topic: str, batches: list[bytes]) -> bytes:
    parts = [PartitionProduceData(number, data) for number, data in enumerate(batches)]
    request = ProduceRequest(None, -1, 30_000, [TopicProduceData(topic, partition_data=parts)])
    return encode_request(ApiKey.PRODUCE, VERSION, 1, "c", request)


def answered(link: socket.socket) -> ProduceResponse:
    size = receive(link, 4)
    assert size is not None
    data = receive(link, struct.unpack(">i", size)[0])
    assert data is not None
    return decode_exact(ProduceResponse, VERSION, data, parse_response(data, ApiKey.PRODUCE, VERSION)[1])


def test_others_long_batches_do_not_wait_for_bombs(broker: KBroker) -> None:
    created = target(broker).ask(
        ApiKey.CREATE_TOPICS,
        5,
        CreateTopicsRequest([CreatableTopic("bombs", BOMBS, 1), CreatableTopic("others", 1, 1)]),
    )
    assert {topic.error_code for topic in created.topics} == {0}
    two_gigabytes = bomb(Codec.ZSTD, 2 << 30, disordered=False)
    now_ms = int(time.time() * 1000)
    long = build_batch([(b"%d" % number, bytes(2000), (), now_ms) for number in range(300)], codec=Codec.GZIP)
    with (
        socket.create_connection(("127.0.0.1", port_of(broker)), timeout=60) as attacker,
        socket.create_connection(("127.0.0.1", port_of(broker)), timeout=60) as other,
    ):
        attacker.sendall(frame("bombs", [two_gigabytes] * BOMBS))
        time.sleep(1)
        began_s = time.monotonic()
        for _ in range(3):
            other.sendall(frame("others", [long]))
            (part,) = answered(other).responses[0].partition_responses
            assert part.error_code == ErrorCode.NONE
        assert time.monotonic() - began_s < PATIENCE_S
