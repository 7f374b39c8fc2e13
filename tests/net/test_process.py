"""A bug in the service of one client stays with that client."""

import errno
import os
import socket
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kbroker.config.broker import BrokerConfig
from kbroker.ipc.fds import Accepted
from kbroker.ipc.layout import ProcessLine
from kbroker.kernels.libc import Epoll
from kbroker.net.accept.descriptors import OwnDescriptors
from kbroker.net.connections.connection import Connection, State
from kbroker.net.process import PUMPS_PER_TURN, NetworkProcess
from kbroker.net.produce.checks import TAKEN_AT_ONCE
from kbroker.net.pump_kernel import pump, register
from kbroker.net.rows import Context, Event, EventKind, Flag
from tests.net.tables import new_tables


def test_a_failed_event_costs_its_connection_and_not_the_rest_of_the_turn() -> None:
    served, closed = [], []

    def on_request(row: int, *_: int) -> None:
        if row == 5:
            raise RuntimeError("a bug")
        served.append(row)

    process: Any = NetworkProcess.__new__(NetworkProcess)
    process.tables = SimpleNamespace(events=Event.table(4))
    process.tables.events[:3, 0] = EventKind.REQUEST
    process.tables.events[:3, 1] = (4, 5, 6)
    process.connections = {row: f"connection {row}" for row in (4, 5, 6)}
    process._handlers = {EventKind.REQUEST: on_request}
    process.close = lambda connection, reason: closed.append((connection, reason))
    process._serve_events(0, 3)
    assert served == [4, 6]
    assert closed == [("connection 5", "internal error")]


def test_a_failed_event_without_a_connection_closes_none() -> None:
    served: list[int] = []

    def fail(*_: int) -> None:
        served.append(1)
        raise RuntimeError("a bug")

    process: Any = NetworkProcess.__new__(NetworkProcess)
    process.tables = SimpleNamespace(events=Event.table(1))
    process.tables.events[0, 0] = EventKind.ADVANCED
    process.connections = {0: "the first connection"}
    process._handlers = {EventKind.ADVANCED: fail}
    closed: list[object] = []
    process.close = lambda *connection: closed.append(connection)
    process._serve_events(0, 1)
    assert served == [1]
    assert not closed


@pytest.mark.parametrize("count", [TAKEN_AT_ONCE, TAKEN_AT_ONCE + 1])
def test_the_batches_of_a_turn_are_taken_together_only_when_it_has_many_events(count: int) -> None:
    served: list[int] = []
    process: Any = NetworkProcess.__new__(NetworkProcess)
    process.tables = SimpleNamespace(events=Event.table(count))
    process.tables.events[:, Event.A] = range(count)
    process.checks = SimpleNamespace(take_many=lambda events: events[:1])
    process._handlers = {0: lambda _, number, *__: served.append(number)}
    process._serve_events(0, count)
    assert served == list(range(count if count == TAKEN_AT_ONCE else 1))


def test_an_event_of_a_fetch_that_waited_is_served_once_after_a_block_of_answers() -> None:
    """The block begins the table of events again."""
    served: list[int] = []
    process: Any = NetworkProcess.__new__(NetworkProcess)
    words = Context.row()
    process.tables = SimpleNamespace(events=Event.table(8), words=words)
    process.tables.events[:, Event.A] = range(8)
    process._handlers = {0: lambda _, number, *__: served.append(number)}
    process.answers = SimpleNamespace(clear_busy=lambda _: None)
    connection = SimpleNamespace(state=State.READY, row=1)
    process._serve_events(0, 5)  # of a turn
    for count in (2, 0):
        process._serve_events(0, count)  # of a block
        served.clear()
        for number in (count, count + 1):
            words[Context.EVENT_COUNT] = number + 1
            process.kernel_answered(connection)
        assert served == [count, count + 1]


def test_a_connection_without_descriptors_for_its_tls_is_closed_and_reported() -> None:
    def pair() -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    process: Any = NetworkProcess.__new__(NetworkProcess)
    lost: list[Any] = []
    process._listeners = [(None, True, False)]
    process.tls = SimpleNamespace(pair=pair)
    process.handoff = SimpleNamespace(lose=lambda *arguments: lost.append(arguments))
    client, served = socket.socketpair()
    accepted = Accepted(7, 0, "10.0.0.1", 1)
    with client:
        process._open(accepted, served.detach())
        client.settimeout(60)
        assert client.recv(1) == b""
    assert lost == [(accepted, "Too many open files")]


def test_a_connection_that_continues_in_a_turn_requests_no_further_turn(monkeypatch: Any) -> None:
    process: Any = NetworkProcess.__new__(NetworkProcess)
    called: list[Any] = []
    pumps: list[int] = []
    served: list[bool] = []
    words = Context.row()

    def pump(_: int) -> int:
        words[Context.DIRTY] = words[Context.STALLED] = -1
        pumps.append(len(served))
        return 1

    def serve(*_: int) -> None:
        served.append(process._in_turn)
        if len(served) in continuing:
            process.resume(5)

    monkeypatch.setattr("kbroker.net.process.pump", pump)
    monkeypatch.setattr("kbroker.net.process.resume", lambda _, row: words.put(Context.DIRTY, row))
    process.tables = SimpleNamespace(words=words, address=0)
    process.forwarding = SimpleNamespace(link=object())
    process.checks, process.transactions = SimpleNamespace(undecided={}), SimpleNamespace(held={})
    process.handoff = SimpleNamespace(closed_ids=[])
    process._turn_requested = process._in_turn = False
    process._loop = SimpleNamespace(call_soon=called.append)
    process._serve_events = serve
    continuing = {1}
    process.turn()
    assert (pumps, served) == ([0, 1], [True, True])  # the connection was continued
    assert called == []
    continuing = set(range(3, 9))
    process.turn()
    assert len(pumps) == 2 + PUMPS_PER_TURN  # others have their turn between
    assert called == [process.turn]
    called.clear()
    process._turn_requested = False
    process.resume(5)  # between turns
    assert called == [process.turn]


def test_a_turn_that_fails_leaves_no_connection(monkeypatch: Any) -> None:
    process: Any = NetworkProcess.__new__(NetworkProcess)

    def fail(_: int) -> int:
        raise RuntimeError("a bug")

    monkeypatch.setattr("kbroker.net.process.pump", fail)
    monkeypatch.setattr("kbroker.net.process.resume", lambda *_: None)
    called: list[Any] = []
    process.tables = SimpleNamespace(words=Context.row(), address=0)
    process.forwarding = SimpleNamespace(link=object())
    process._turn_requested = True
    process._loop = SimpleNamespace(call_soon=called.append)
    with pytest.raises(RuntimeError):
        process.turn()
    process.resume(5)
    assert called == [process.turn]


def test_a_process_that_polls_has_one_call_after_each_turn_of_the_loop(monkeypatch: Any) -> None:
    process: Any = NetworkProcess.__new__(NetworkProcess)
    called: list[Any] = []
    words = Context.row()
    words[Context.DIRTY] = words[Context.STALLED] = -1
    words[Context.POLLING] = words[Context.LEFT] = 1
    monkeypatch.setattr("kbroker.net.process.pump", lambda _: 0)
    process.tables = SimpleNamespace(words=words, address=0)
    process.forwarding = SimpleNamespace(link=object())
    process.checks, process.transactions = SimpleNamespace(undecided={}), SimpleNamespace(held={})
    process.handoff = SimpleNamespace(closed_ids=[])
    process._turn_requested = process._in_turn = process._poll_requested = False
    process._loop = SimpleNamespace(call_soon=called.append)
    process._serve_events = lambda *_: None
    process.turn()
    process.turn()  # of a socket, before the loop has come to the call
    assert called == [process._poll_on]
    called.pop()()
    assert called == [process._poll_on]
    words[Context.POLLING] = words[Context.LEFT] = 0
    called.pop()()
    assert called == []


class Scene:
    """A network process with real tables and nothing else; connections are opened by hand."""

    def __init__(self) -> None:
        process: Any = NetworkProcess.__new__(NetworkProcess)
        self.process: Any = process
        self.tables = process.tables = new_tables()
        process.connections = {}
        process.descriptors = OwnDescriptors(1000, 0)
        process.counts = SimpleNamespace(answer_sent=lambda _: None, closed=lambda *_: None)
        process.access = SimpleNamespace(forget=lambda _: None)
        self.reports: list[list[int]] = []
        closed: list[int] = []
        report = lambda: self.reports.append(closed.copy())  # noqa: E731
        process.handoff = SimpleNamespace(closed_ids=closed, report=report)
        process._process_line = np.zeros(64, np.int64)
        self.endpoint = BrokerConfig({"listeners": "PLAINTEXT://:1"}).listeners[0]

    def open(self, fd: int, flags: int = 0) -> Connection:
        row = self.tables.take_row(fd, Flag.AUTHENTICATED | flags, 0)
        accepted = Accepted(len(self.process.connections) + 7, 0, "127.0.0.1", 1)
        connection = self.process.connections[row] = Connection(accepted, fd, row, self.endpoint)
        self.process.descriptors.connected(1)
        assert register(self.tables.address, fd, Epoll.READING, row) == 0
        return connection

    def events(self) -> list[list[int]]:
        found: list[list[int]] = self.tables.events[: pump(self.tables.address), :2].tolist()
        return found


def test_a_socket_that_another_process_has_still_open_closes_no_later_connection() -> None:
    """The acceptor passes a descriptor on before it closes its own. A client that had gone at once
    closed the connection that had its row by then, if that waited for an answer."""
    scene = Scene()
    old_client, old = socket.socketpair()
    client, served = socket.socketpair()
    with old_client, client:
        acceptors = os.dup(old.fileno())
        scene.process.close(scene.open(old.detach()))
        fresh = scene.open(served.detach(), Flag.BUSY)
        assert list(scene.process.connections) == [fresh.row] == [0]
        old_client.close()
        assert scene.events() == []
        os.close(acceptors)
        client.close()
        assert scene.events() == [[EventKind.CLOSED, fresh.row]]
        scene.process.close(fresh)


def test_a_connection_is_reported_once_its_descriptors_are_free() -> None:
    scene = Scene()
    for relayed in (False, True):
        client, served = socket.socketpair()
        with client:
            connection = scene.open(served.detach())
            connection.relayed = relayed
            scene.process.close(connection)
            number = connection.accepted.connection_id
            assert scene.process.handoff.closed_ids == ([] if relayed else [number])
            if relayed:
                scene.process._relay_ended(connection)
                assert scene.reports == [[number]]
        scene.process.handoff.closed_ids.clear()
    assert scene.process._process_line[ProcessLine.CONNECTIONS] == 0
    assert scene.process.descriptors._taken == 0


def test_a_relay_that_ends_before_its_connection_reports_nothing() -> None:
    scene = Scene()
    client, served = socket.socketpair()
    with client:
        connection = scene.open(served.detach())
        connection.relayed = True
        scene.process._relay_ended(connection)
        assert (scene.process.handoff.closed_ids, scene.reports) == ([], [])
        scene.process.close(connection)
        assert scene.process.handoff.closed_ids == [connection.accepted.connection_id]
