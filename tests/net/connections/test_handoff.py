"""The channel to the acceptor."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from kbroker.ipc import fds
from kbroker.net.connections.handoff import TAKEN_PER_TURN, Handoff


class Scene:
    """A channel with the acceptor's end; its reader is called by hand."""

    def __init__(self) -> None:
        self.acceptor, self.channel = fds.pair()
        self.opened: list[int] = []
        self.turns: list[None] = []
        self.warned: list[str] = []
        warn: Any = lambda text, *values: self.warned.append(text % values)  # noqa: E731
        self.handoff = Handoff(self.channel, self._open, lambda: self.turns.append(None), warn)
        self.reader: Any = None
        self.handoff.start(self)

    def add_reader(self, _: int, reader: Any) -> None:
        self.reader = reader

    def remove_reader(self, _: int) -> None:
        self.reader = None

    def _open(self, accepted: fds.Accepted, fd: int) -> None:
        self.opened.append(accepted.connection_id)
        os.close(fd)

    def connect(self, number: int) -> None:
        assert fds.send_connections(self.acceptor, [(0, fds.Accepted(number, 0, "127.0.0.1", 1))])


@pytest.fixture
def scene() -> Iterator[Scene]:
    made = Scene()
    yield made
    made.acceptor.close()
    made.channel.close()


def test_connections_that_come_one_by_one_are_taken_together_within_a_bound(scene: Scene) -> None:
    for number in range(TAKEN_PER_TURN + 3):
        scene.connect(number)
    scene.reader()
    assert scene.opened == list(range(TAKEN_PER_TURN))
    scene.reader()
    assert scene.opened == list(range(TAKEN_PER_TURN + 3))
    assert not scene.turns


def test_a_connection_without_a_descriptor_is_reported_in_the_next_turn(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [[(fds.Accepted(7, 0, "10.0.0.1", 1), fds.LOST)], []]
    monkeypatch.setattr("kbroker.net.connections.handoff.receive_connections", lambda _: found.pop(0))
    scene.handoff.report()
    assert fds.receive_closed(scene.acceptor) == [fds.RESTARTED]
    scene.reader()
    assert (scene.opened, len(scene.turns), scene.handoff.closed_ids) == ([], 1, [7])
    assert scene.warned == ["the connection from 10.0.0.1 is lost: too many open files"]
    scene.handoff.report()
    assert fds.receive_closed(scene.acceptor) == [7]
    assert scene.handoff.closed_ids == []


def test_closed_connections_that_the_channel_does_not_take_are_reported_later(scene: Scene) -> None:
    scene.handoff.closed_ids[:] = range(fds.IDS_PER_MESSAGE * 2000)
    received: list[int] = []
    while scene.handoff.closed_ids:
        before = len(scene.handoff.closed_ids)
        scene.handoff.report()
        assert len(scene.handoff.closed_ids) < before
        while ids := fds.receive_closed(scene.acceptor):
            assert isinstance(ids, list)
            received += ids
    assert received == list(range(fds.IDS_PER_MESSAGE * 2000))


def test_connections_that_end_after_the_acceptor_are_logged_in_one_line(scene: Scene) -> None:
    scene.acceptor.close()
    scene.handoff.closed_ids[:] = [3, 4]
    scene.handoff.report()
    assert scene.handoff.closed_ids == []
    assert scene.warned == ["2 closed connections are not reported: the acceptor has closed its end"]


def test_no_connection_is_taken_after_the_acceptor_has_ended(scene: Scene) -> None:
    scene.connect(1)
    scene.acceptor.close()
    scene.reader()
    assert (scene.opened, scene.reader) == ([1], None)
