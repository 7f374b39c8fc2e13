"""Clients that announce large requests and send them slowly take no other client's memory."""

import socket
import struct
import time

import pytest

from kbroker.net.unfinished_requests import EMPTY_GRACE_NS
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
SCENES: tuple[tuple[dict[str, str], int], ...] = ((ARENA, 80), ({}, 427))
"""Settings, and as many attackers as fill the memory for requests then."""
NAME_BYTES = 25_000


def _attack(node: KBroker, count: int) -> list[socket.socket]:
    """Connections that each send a part of a Produce request of 2 MB."""
    links = []
    for number in range(count):
        link = socket.create_connection(("127.0.0.1", _port(node)), timeout=60)
        link.setblocking(False)
        head = struct.pack(">ihhih4s", ANNOUNCED, 0, 9, number, 4, b"slow")
        link.send(head + bytes(300_000 if number % 2 else 3000))
        links.append(link)
    return links


def _port(node: KBroker) -> int:
    return int(node.bootstrap.rsplit(":", 1)[1])


def _ask(node: KBroker, size: int) -> None:
    """A new client has an answer: to ApiVersions, or to Metadata with names of so many bytes."""
    request = bytearray(REQUEST)
    if size:
        name = struct.pack(">h", NAME_BYTES) + b"x" * NAME_BYTES  # no valid one: an error is an answer, too
        count = size // NAME_BYTES
        body = struct.pack(">hhihi", 3, 1, 1, -1, count) + name * count
        request = bytearray(struct.pack(">i", len(body)) + body)
    with socket.create_connection(("127.0.0.1", _port(node)), timeout=60) as link:
        link.sendall(request)
        assert len(link.recv(4)) == 4


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


@pytest.mark.parametrize(("settings", "attackers"), SCENES)
def test_new_clients_are_served_beside_slow_requests(
    broker_factory: BrokerFactory, settings: dict[str, str], attackers: int
) -> None:
    node = broker_factory(settings)
    began_ns = time.monotonic_ns()
    links = _attack(node, attackers)
    time.sleep(0.3)
    for _ in range(20):
        _ask(node, 0)
    left = _drip(links)
    # on a busy machine the first of them may be old enough to give way by now
    may_give_way = time.monotonic_ns() - began_ns > EMPTY_GRACE_NS
    assert left == attackers or may_give_way, "all were answered before anything gave way"
    deadline = time.monotonic() + 60
    while _drip(links) == attackers:
        assert time.monotonic() < deadline, "unfinished requests never give way"
        time.sleep(0.2)
    _ask(node, 1_000_000)
    assert _drip(links) > 0, "it was answered while others still held memory"
    assert "while memory for requests is short" in node.logs()
