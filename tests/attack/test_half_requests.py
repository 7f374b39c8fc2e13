"""Clients that announce large requests and send them slowly take nobody else's memory."""

import socket
import struct
import time

import pytest

from tests.attack.storm import REQUEST
from tests.conftest import BrokerFactory
from tests.peer.kbroker_node import KBroker

pytestmark = pytest.mark.slow

ARENA = {
    "kbroker.arena.bytes": str(64 << 20),
    "socket.request.max.bytes": str(32 << 20),
    "num.network.threads": "1",
}
ANNOUNCED = 2_000_000
ATTACKERS = 80


def _attack(node: KBroker) -> list[socket.socket]:
    """Connections that each send a part of a Produce request of 2 MB."""
    links = []
    for number in range(ATTACKERS):
        link = socket.create_connection(("127.0.0.1", _port(node)), timeout=5)
        link.setblocking(False)
        head = struct.pack(">ihhih4s", ANNOUNCED, 0, 9, number, 4, b"slow")
        link.send(head + bytes(300_000 if number % 2 else 3000))
        links.append(link)
    return links


def _port(node: KBroker) -> int:
    return int(node.bootstrap.rsplit(":", 1)[1])


def _ask(node: KBroker, size: int) -> float:
    """Seconds until a new client has the answer to ApiVersions, with so much more text in its head."""
    request = bytearray(REQUEST)
    if size:
        # v3 has a software name, of which Kafka checks the form: an error is an answer, too
        body = struct.pack(">hhih", 18, 3, 1, -1) + b"\0" + _compact(b"x" * size) + _compact(b"1") + b"\0"
        request = bytearray(struct.pack(">i", len(body)) + body)
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", _port(node)), timeout=20) as link:
        link.sendall(request)
        assert len(link.recv(4)) == 4
    return time.monotonic() - began


def _compact(text: bytes) -> bytes:
    length, head = len(text) + 1, bytearray()
    while length > 127:
        head.append(length & 127 | 128)
        length >>= 7
    return bytes([*head, length]) + text


def _drip(links: list[socket.socket]) -> int:
    """One more byte on each; how many are still open."""
    open_ones = 0
    for link in links:
        try:
            link.send(b"x")
            open_ones += 1
        except BlockingIOError:
            open_ones += 1
        except OSError:
            continue
    return open_ones


def test_new_clients_are_served_beside_slow_requests(broker_factory: BrokerFactory) -> None:
    node = broker_factory(ARENA)
    links = _attack(node)
    time.sleep(0.3)
    assert max(_ask(node, 0) for _ in range(20)) < 1.0
    assert _drip(links) == ATTACKERS, "nothing has to give way at once"
    deadline = time.monotonic() + 20
    while _drip(links) == ATTACKERS:
        assert time.monotonic() < deadline, "unfinished requests never give way"
        time.sleep(0.2)
    assert _ask(node, 1_000_000) < 10.0
    assert "while memory for requests is short" in node.logs()
