"""Answers leave in order, and a connection resumes when its answer is sent."""

import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kbroker.kernels.libc import Epoll
from kbroker.net.connections.answers import Answers
from kbroker.net.connections.connection import Connection, State
from kbroker.net.rows import Connection as ConnectionRow
from kbroker.net.rows import Flag
from tests.net.tables import new_tables

LONG = bytes(range(256)) * 4000


class Scene:
    """A connection with the client's end of its socket."""

    def __init__(self) -> None:
        self.client, self.ours = socket.socketpair()
        self.ours.setblocking(False)
        self.tables = new_tables(arena_bytes=1 << 20)
        row = self.tables.take_row(self.ours.fileno(), Flag.OPEN | Flag.BUSY, 1)
        self.connection = Connection(cast(Any, None), self.ours.fileno(), row, cast(Any, None))
        self.calls: list[Any] = []
        self.process: Any = SimpleNamespace(
            tables=self.tables,
            connections={row: self.connection},
            counts=SimpleNamespace(
                answered=lambda *_: None, sent=lambda _: None, answer_sent=lambda _: self.calls.append("sent")
            ),
            quotas=SimpleNamespace(active=False),
            close=lambda _, why: self.calls.append(why),
            resume=lambda row: self.calls.append(("resume", row)),
        )
        self.answers = Answers(self.process)

    @property
    def words(self) -> Any:
        return self.tables.connections[self.connection.row]

    def receive(self, size: int) -> bytes:
        """All bytes of a long answer, with as many turns as it takes."""
        taken = bytearray()
        while len(taken) < size:
            taken += self.client.recv(1 << 20)
            self.answers.on_writable(self.connection.row)
        return bytes(taken)


@pytest.fixture
def scene() -> Iterator[Scene]:
    made = Scene()
    yield made
    made.client.close()
    made.ours.close()


def test_a_short_answer_is_sent_at_once_and_its_connection_resumes(scene: Scene) -> None:
    scene.answers.send(scene.connection, [b"answer"])
    assert scene.client.recv(100) == b"answer"
    assert scene.calls == ["sent", ("resume", scene.connection.row)]
    assert not scene.words[ConnectionRow.FLAGS] & (Flag.BUSY | Flag.OUT_BLOCKED)
    assert scene.words[ConnectionRow.BYTES_OUT] == len(b"answer")


def test_a_connection_resumes_when_the_last_byte_of_a_long_answer_is_sent(scene: Scene) -> None:
    scene.answers.send(scene.connection, [LONG])
    assert scene.words[ConnectionRow.FLAGS] & Flag.OUT_BLOCKED
    assert scene.calls == []
    assert scene.receive(len(LONG)) == LONG
    assert scene.calls == ["sent", ("resume", scene.connection.row)]
    assert not scene.words[ConnectionRow.FLAGS] & (Flag.BUSY | Flag.OUT_BLOCKED)
    assert scene.words[ConnectionRow.BYTES_OUT] == len(LONG)


def test_an_answer_to_a_produce_keeps_the_kernel_from_sending_until_it_is_sent(scene: Scene) -> None:
    scene.answers.send_produced(scene.connection, [LONG])
    assert scene.words[ConnectionRow.FLAGS] & Flag.OUT_BLOCKED
    assert scene.receive(len(LONG)) == LONG
    assert scene.calls == [("resume", scene.connection.row)]
    assert scene.words[ConnectionRow.FLAGS] & Flag.BUSY, "another request may be in Python"
    assert not scene.words[ConnectionRow.FLAGS] & Flag.OUT_BLOCKED


def test_a_throttled_client_is_not_reported_writable_after_its_answer(scene: Scene) -> None:
    scene.words[ConnectionRow.FLAGS] |= Flag.MUTED
    scene.answers.send(scene.connection, [LONG])
    assert scene.words[ConnectionRow.ARMED] == Epoll.OUT
    assert scene.receive(len(LONG)) == LONG
    scene.answers.on_writable(scene.connection.row)
    assert scene.words[ConnectionRow.ARMED] == 0


@pytest.mark.parametrize(("flag", "armed"), [(Flag.SENDING, Epoll.OUT), (Flag.OPEN, Epoll.READING)])
def test_a_connection_that_the_kernel_uses_stays_armed(scene: Scene, flag: int, armed: int) -> None:
    """It may have begun with a further answer, or read again, since the socket was reported."""
    scene.words[ConnectionRow.FLAGS] |= flag
    scene.words[ConnectionRow.ARMED] = armed
    scene.answers.on_writable(scene.connection.row)
    assert scene.words[ConnectionRow.ARMED] == armed


def test_a_client_that_has_disconnected_is_closed(scene: Scene) -> None:
    scene.client.close()
    scene.answers.send(scene.connection, [b"answer"])
    assert scene.calls == ["send: [Errno 32] Broken pipe"]


def test_a_closed_connection_gets_no_answer(scene: Scene) -> None:
    scene.connection.state = State.CLOSED
    scene.answers.send(scene.connection, [b"answer"])
    scene.client.setblocking(False)
    with pytest.raises(BlockingIOError):
        scene.client.recv(1)
    assert scene.calls == []


@pytest.mark.parametrize("ends_login", [False, True])
def test_the_last_answer_of_a_login_has_no_quota(scene: Scene, ends_login: bool) -> None:
    scene.connection.state = State.READY
    quotas = SimpleNamespace(active=True, answered=lambda *_: [b"throttled"])
    scene.process.quotas = quotas
    Answers(scene.process).send(scene.connection, [b"answer"], ends_login=ends_login)
    assert scene.client.recv(100) == (b"answer" if ends_login else b"throttled")


def test_every_sent_byte_is_counted_and_its_time_is_noted(scene: Scene) -> None:
    """The time decides when an idle connection is closed."""
    sent: list[int] = []
    scene.process.counts.sent = sent.append
    scene.words[ConnectionRow.LAST_NS] = 0
    scene.answers.send(scene.connection, [b"answer"])
    assert sent == [6]
    assert scene.words[ConnectionRow.LAST_NS] > 0


def test_the_kernel_sends_nothing_while_a_thread_sends_a_file(scene: Scene) -> None:
    scene.words[ConnectionRow.FLAGS] |= Flag.OUT_BLOCKED | Flag.SENDING
    scene.answers.clear_busy(scene.connection.row)
    assert scene.words[ConnectionRow.FLAGS] & Flag.OUT_BLOCKED
    assert not scene.words[ConnectionRow.FLAGS] & Flag.BUSY


def test_nothing_is_sent_to_a_connection_that_was_closed_meanwhile(scene: Scene) -> None:
    """Its descriptor may be another client's."""
    scene.connection.state = State.CLOSED
    scene.answers.send(scene.connection, [b"answer"])
    scene.client.setblocking(False)
    with pytest.raises(BlockingIOError):
        scene.client.recv(100)
    assert scene.calls == []
