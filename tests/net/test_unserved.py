"""The head of a request that is not served closes its connection: the rest of the frame need not
arrive."""

import socket
import struct
import time

import pytest

from tests.net.conftest import NodeFactory
from tests.net.doubles import NetNode, ask, read_frame
from tests.net.requests import batch, is_closed, produce, produce_frame, read_produce

LONG = 90 << 20
PRODUCE, METADATA, API_VERSIONS = 0, 3, 18


def head(api_key: int, version: int) -> bytes:
    return struct.pack(">ihh", LONG, api_key, version)


@pytest.fixture
def node(node_factory: NodeFactory) -> NetNode:
    return node_factory({"t": 1}, answer=lambda request: struct.pack(">ii", 4, request.correlation_id))


@pytest.mark.parametrize(
    ("api_key", "version"),
    [(777, 0), (-1, 0), (95, 0), (METADATA, 99), (METADATA, -1), (PRODUCE, 2), (PRODUCE, 99)],
)
def test_eight_bytes_are_enough_to_close(node: NetNode, api_key: int, version: int) -> None:
    other, link = node.connect(), node.connect()
    link.sendall(head(api_key, version))
    assert is_closed(link)
    assert produce(other, batch()).error_code == 0


def test_a_head_in_single_bytes_closes_with_its_last_one(node: NetNode) -> None:
    link = node.connect()
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in head(777, 0):
        link.sendall(bytes([byte]))
        time.sleep(0.002)
    assert is_closed(link)


@pytest.mark.parametrize(("api_key", "version"), [(METADATA, 1), (API_VERSIONS, 99), (API_VERSIONS, -7)])
def test_a_served_request_may_take_its_time(node: NetNode, api_key: int, version: int) -> None:
    link = node.connect()
    tags = b"\0" if version == 99 else b""  # a flexible header
    frame = struct.pack(">ihhih", 10 + len(tags), api_key, version, 42, -1) + tags
    link.sendall(frame[:-1])
    assert produce(node.connect(), batch()).error_code == 0
    assert ask(link, frame[-1:]) == struct.pack(">i", 42)


def test_requests_before_it_are_answered_first(node: NetNode) -> None:
    link = node.connect()
    node.worker.hold_entries()
    link.sendall(produce_frame(batch(), number=7) + head(777, 0))
    time.sleep(0.1)
    node.worker.hold.clear()
    (part,) = read_produce(read_frame(link), 7).responses[0].partition_responses
    assert part.error_code == 0
    assert is_closed(link)
