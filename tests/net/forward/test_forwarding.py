"""Requests for control pass Python by: in order, whole, and never for the wrong client."""

import ctypes
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.config.client_quotas import CLIENT_ID, REQUEST_PERCENTAGE, QuotaTable
from kbroker.config.listeners import Endpoint, SecurityProtocol
from kbroker.ipc.fds import Accepted
from kbroker.ipc.messages import ClientRequest, Image
from kbroker.metrics import layout as ml
from kbroker.net.connections.connection import Connection
from kbroker.net.forward.forwarding import PLACE_BYTES, PLACES, Forwarding, PackedPeers
from kbroker.net.rows import Context
from tests.net.conftest import NodeFactory
from tests.net.forward.forwarded import METADATA, asking, framed, read
from tests.net.requests import is_closed


def first_answer_waits(
    received: threading.Event, released: threading.Event
) -> Callable[[ClientRequest], bytes]:
    """Control answers every request, but the first (correlation id 1) only when it may go on."""

    def answer(request: ClientRequest) -> bytes:
        if request.correlation_id == 1:
            received.set()
            assert released.wait(60)
        return framed(request.correlation_id)

    return answer


def test_pipelined_requests_are_answered_in_order(node_factory: NodeFactory) -> None:
    node = node_factory({"t": 1}, answer=lambda request: framed(request.correlation_id))
    links = [node.connect() for _ in range(5)]
    for link in links:
        link.sendall(b"".join(asking(number) for number in range(50)))
    for link in links:
        assert read(link, 50 * 8) == b"".join(framed(number) for number in range(50))
    requests = int(node.shared.metrics[0, ml.REQUESTS + METADATA * ml.VERSION_COUNT + 1])
    assert requests == 250


def test_an_answer_that_the_socket_does_not_take_at_once_arrives_complete(node_factory: NodeFactory) -> None:
    size = 30 << 20
    node = node_factory({"t": 1}, answer=lambda request: framed(request.correlation_id, size))
    link = node.connect()
    link.sendall(asking(1) + asking(2))
    time.sleep(0.2)
    assert read(link, 8 + size) == framed(1, size)
    assert read(link, 8 + size) == framed(2, size)


def test_a_large_request_takes_the_way_over_python(node_factory: NodeFactory) -> None:
    node = node_factory({"t": 1}, answer=lambda request: framed(request.correlation_id))
    link = node.connect()
    body = bytes(range(256)) * 4096
    link.sendall(asking(1, body=body) + asking(2, body=b"small"))
    assert read(link, 16) == framed(1) + framed(2)
    assert [request.body for request in node.control.requests] == [body, b"small"]


def test_an_answer_to_a_client_that_left_reaches_no_other_client(node_factory: NodeFactory) -> None:
    requested, released = threading.Event(), threading.Event()
    node = node_factory({"t": 1}, answer=first_answer_waits(requested, released))
    first = node.connect()
    first.sendall(asking(1))
    assert requested.wait(60)
    first.close()
    node.closed_ids(1)
    second = node.connect()  # takes the row of the first
    second.sendall(asking(2))
    released.set()
    assert read(second, 8) == framed(2)


def test_a_client_that_waits_when_control_goes_is_closed(node_factory: NodeFactory) -> None:
    requested, released = threading.Event(), threading.Event()
    node = node_factory({"t": 1}, answer=first_answer_waits(requested, released))
    link, other = node.connect(), node.connect()
    link.sendall(asking(1))
    assert requested.wait(60)
    node.control.drop()
    assert is_closed(link)
    released.set()
    other.sendall(asking(2))
    assert read(other, 8) == framed(2)


def test_while_there_are_quotas_every_request_is_pythons(node_factory: NodeFactory) -> None:
    node = node_factory({"t": 1}, answer=lambda request: framed(request.correlation_id))
    table = QuotaTable({((CLIENT_ID, "other"),): {REQUEST_PERCENTAGE: 50.0}})
    node.control.send(Image(2, False, (), quotas=table))
    link = node.connect()
    link.sendall(asking(1))
    assert read(link, 8) == framed(1)


def connection(row: int) -> Connection:
    listener = Endpoint("PLAINTEXT", SecurityProtocol.PLAINTEXT, "127.0.0.1", 0)
    return Connection(Accepted(row + 1, 0, "127.0.0.1", 5000), 9, row, listener)


class Turn:
    """The connections that one turn's events close."""

    def __init__(self, *rows: int) -> None:
        self.closed: list[tuple[int, str]] = []
        self.connections = {row: connection(row) for row in rows}
        self.forwarding = Forwarding.__new__(Forwarding)
        self.forwarding._connections = self.connections
        self.forwarding._close = self.close

    def close(self, connection: Connection, reason: str = "") -> None:
        self.closed.append((connection.row, reason))
        del self.connections[connection.row]


def test_events_of_a_connection_that_the_same_turn_has_closed_are_dropped() -> None:
    turn = Turn(1, 2)
    turn.forwarding.unanswered(1, 1, 3, 0)
    turn.forwarding.unanswered(1, 1, 3, 0)
    turn.forwarding.on_unsent(1, 0, 10, 0)
    assert [row for row, _ in turn.closed] == [1]
    assert list(turn.connections) == [2]


@pytest.mark.parametrize("size", [1, PLACE_BYTES - 1, PLACE_BYTES, PLACE_BYTES + 1, 40_000])
def test_each_row_keeps_its_own(size: int) -> None:
    peers = PackedPeers()
    rows = [connection(row) for row in (0, 1, PLACES - 1, PLACES, 7 * PLACES + 3)]
    packed = [bytes([number + 1]) * size for number in range(len(rows))]
    places = [peers.put(*each) for each in zip(rows, packed, strict=True)]
    assert [ctypes.string_at(place, size) for place in places] == packed


def test_the_peer_of_a_row_may_become_longer_and_shorter() -> None:
    peers, first, second = PackedPeers(), connection(4), connection(5)
    beside = peers.put(second, b"b" * PLACE_BYTES)
    for size in (3, PLACE_BYTES, 5000, 2):
        assert ctypes.string_at(peers.put(first, b"a" * size), size) == b"a" * size
    assert ctypes.string_at(beside, PLACE_BYTES) == b"b" * PLACE_BYTES


@pytest.mark.parametrize(("stalled", "turns"), [(-1, 0), (0, 1), (7, 1)])
def test_answers_give_connections_that_wait_for_room_a_turn(stalled: int, turns: int) -> None:
    nothing: Any = None
    requested: list[bool] = []
    forwarding = Forwarding.__new__(Forwarding)
    forwarding._slow = SimpleNamespace(on=False)  # type: ignore[assignment]
    forwarding._tables = SimpleNamespace(address=0)  # type: ignore[assignment]
    forwarding._words = Context.row()
    forwarding._words[Context.STALLED] = stalled
    forwarding.request_turn = lambda: requested.append(True)
    forwarding.take_answers(nothing, bytearray())
    assert len(requested) == turns
