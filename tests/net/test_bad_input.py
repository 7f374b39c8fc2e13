"""Invalid requests get Kafka's answer or a closed connection, and do not affect other clients."""

import os
import struct
import time

import pytest

from kbroker.ipc.messages import ClientRequest
from kbroker.metrics import layout as ml
from tests.net.conftest import NodeFactory
from tests.net.doubles import NetNode, ask, read_frame
from tests.net.requests import batch, is_closed, produce, produce_frame
from tests.peer.eventually import eventually

API_VERSIONS = 18

BAD = {
    "negative size": struct.pack(">i", -1),
    "size beyond the limit": struct.pack(">i", (100 << 20) + 1) + b"x" * 100,
    "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "TLS hello": bytes.fromhex("16030100c8010000c40303") + os.urandom(64),
    "empty frame": struct.pack(">i", 0),
    "short header": struct.pack(">ihh", 4, 3, 1),
    "unknown API": struct.pack(">ihhih", 10, 777, 0, 1, -1),
    "unknown version": struct.pack(">ihhih", 10, 3, 99, 1, -1),
    "produce v2": struct.pack(">ihhih", 10, 0, 2, 1, -1),
    "produce v99": struct.pack(">ihhih", 10, 0, 99, 1, -1),
    "client id too long": struct.pack(">ihhih", 10, 3, 1, 1, 500),
    "produce without body": struct.pack(">ihhih", 10, 0, 7, 1, -1),
    "produce with a topic count of 2^31-1": struct.pack(">ihhihhhii", 22, 0, 7, 1, -1, -1, 1, 1000, 0x7FFFFFFF),
    "produce v9 with an endless varint": struct.pack(">ihhih", 20, 0, 9, 1, -1) + b"\0" + b"\xff" * 9,
    "fetch without body": struct.pack(">ihhih", 10, 1, 11, 1, -1),
}  # fmt: skip


@pytest.fixture
def node(node_factory: NodeFactory) -> NetNode:
    return node_factory({"t": 1}, answer=lambda request: struct.pack(">ii", 4, request.correlation_id))


@pytest.mark.parametrize("name", BAD)
def test_the_connection_is_closed_and_others_live_on(node: NetNode, name: str) -> None:
    other = node.connect()
    link = node.connect()
    link.sendall(BAD[name])
    assert is_closed(link)
    assert produce(other, batch()).error_code == 0


def test_random_bytes_never_harm(node: NetNode) -> None:
    for seed in range(50):
        link = node.connect()
        size = struct.pack(">i", 60) if seed % 2 else b""
        link.sendall(size + os.urandom(60))
        link.close()
    assert produce(node.connect(), batch()).error_code == 0


def test_every_cut_and_bit_flip_of_a_produce_request(node: NetNode) -> None:
    good = produce_frame(batch(b"v" * 20), 9)
    for at in range(4, len(good)):
        link = node.connect()
        flipped = bytearray(good)
        flipped[at] ^= 1 << (at % 8)
        link.sendall(flipped + good[:at])
        link.close()
    assert produce(node.connect(), batch()).error_code == 0


def test_a_frame_that_comes_in_single_bytes_is_answered(node: NetNode) -> None:
    link = node.connect()
    for byte in produce_frame(batch()):
        link.sendall(bytes([byte]))
    assert len(read_frame(link)) > 0


def test_unknown_apis_go_nowhere_and_known_ones_to_control(node: NetNode) -> None:
    link = node.connect()
    assert ask(link, struct.pack(">ihhih", 10, 3, 1, 42, -1)) == struct.pack(">i", 42)
    (request,) = node.control.requests
    assert isinstance(request, ClientRequest)
    assert (request.api_key, request.api_version, request.correlation_id, request.body) == (3, 1, 42, b"")
    assert (request.client_id, request.listener, request.client_host) == (None, "PLAINTEXT", "127.0.0.1")


@pytest.mark.parametrize("version", [-1, -20, -32768])
def test_a_negative_version_is_counted_in_no_other_row(node: NetNode, version: int) -> None:
    rows = node.shared.metrics
    before = rows[0, : API_VERSIONS * ml.VERSION_COUNT].copy()
    assert ask(node.connect(), struct.pack(">ihhih", 10, API_VERSIONS, version, 42, -1)) == struct.pack(
        ">i", 42
    )
    eventually(lambda: rows[0, API_VERSIONS * ml.VERSION_COUNT] == 1)  # counted when it is sent
    assert (rows[0, : API_VERSIONS * ml.VERSION_COUNT] == before).all()
    assert ask(node.connect(), struct.pack(">ihhih", 10, 3, 1, 7, -1)) == struct.pack(">i", 7)


@pytest.mark.parametrize("version", [7, 9])
def test_a_topic_name_that_is_no_text_is_answered_even_when_the_answer_is_long(
    node: NetNode, version: int, capfd: pytest.CaptureFixture[str]
) -> None:
    damaged = bytearray(batch())
    damaged[8:12] = struct.pack(">i", 3)  # a length that Kafka names in the answer
    frame = produce_frame(bytes(damaged), version, topic="zz").replace(b"zz", b"\xff\xfe")
    other, link = node.connect(), node.connect()
    assert b"\xef\xbf\xbd" in ask(link, frame), "as Kafka reads it"
    assert produce(other, batch()).error_code == 0
    assert "Traceback" not in capfd.readouterr().err


def test_half_a_frame_then_silence_is_closed_when_idle(node_factory: NodeFactory) -> None:
    node = node_factory({"t": 1}, settings={"connections.max.idle.ms": "300"})
    link, quiet = node.connect(), node.connect()
    link.sendall(produce_frame(batch())[:50])
    assert is_closed(link)
    assert is_closed(quiet)


def test_requests_after_a_restart_of_control_wait_for_it(node: NetNode) -> None:
    link = node.connect()
    node.control.drop()
    time.sleep(0.05)
    assert ask(link, struct.pack(">ihhih", 10, 3, 1, 7, -1)) == struct.pack(">i", 7)


def test_an_api_that_control_does_not_answer_closes(node_factory: NodeFactory) -> None:
    link = node_factory({"t": 1}).connect()
    link.sendall(struct.pack(">ihhih", 10, 3, 1, 42, -1))
    assert is_closed(link)
