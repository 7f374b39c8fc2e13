"""The channel to the acceptor."""

import os
from collections.abc import Callable, Iterator
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.ipc import fds
from kbroker.net.connections.handoff import OPENING_SECONDS, WAITING_MAX, Handoff
from tests.descriptors import open_files


class Scene:
    """A channel with the acceptor's end; its reader, and callbacks of the loop, are called by hand.

    opening_s: each connection takes so long to open, by the clock of the handoff.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = self.opening_s = 0.0
        clock = SimpleNamespace(monotonic=lambda: self.now)
        monkeypatch.setattr("kbroker.net.connections.handoff.time", clock)
        self.soon: list[Callable[[], None]] = []
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

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def _open(self, accepted: fds.Accepted, fd: int) -> None:
        self.now += self.opening_s
        self.opened.append(accepted.connection_id)
        os.close(fd)

    def connect(self, *numbers: int) -> None:
        """One message for all of them."""
        came = [(0, fds.Accepted(number, 0, "127.0.0.1", 1)) for number in numbers]
        assert fds.send_connections(self.acceptor, came)

    def turn(self) -> None:
        """Of the loop, while the acceptor sends."""
        soon, self.soon = self.soon, []
        for callback in (*soon, self.reader):
            before = self.now
            callback()
            assert self.now - before < OPENING_SECONDS + self.opening_s


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    made = Scene(monkeypatch)
    yield made
    made.acceptor.close()
    made.channel.close()


@pytest.mark.parametrize("together", [1, fds.CONNECTIONS_PER_MESSAGE])
@pytest.mark.parametrize(("opening_s", "at_once"), [(0.0002, 3), (0.005, 1)])
def test_connections_are_opened_in_order_within_a_bound_of_time(
    scene: Scene, together: int, opening_s: float, at_once: int
) -> None:
    """They are opened by one callback of a turn: a TLS storm of 16 and more in one took some
    milliseconds."""
    scene.opening_s = opening_s
    for first in range(0, 64, together):
        scene.connect(*range(first, first + together))
    counts = [0]
    while counts[-1] < 64:
        scene.turn()
        counts.append(len(scene.opened))
    assert {after - before for before, after in pairwise(counts[:-1])} == {at_once}
    assert scene.opened == list(range(64))
    assert (scene.soon, scene.turns) == ([], [])


def test_connections_that_open_fast_are_taken_together(scene: Scene) -> None:
    for number in range(WAITING_MAX + 3):
        scene.connect(number)
    scene.turn()
    assert scene.opened == list(range(WAITING_MAX))
    scene.turn()
    assert scene.opened == list(range(WAITING_MAX + 3))


def test_messages_stay_in_the_channel_while_connections_wait(scene: Scene) -> None:
    """A process that is behind holds few descriptors of its own: the acceptor has the rest."""
    scene.opening_s = 1.0
    for number in range(4 * WAITING_MAX):
        scene.connect(number)
    scene.turn()
    scene.turn()
    assert (len(scene.opened), len(scene.handoff._waiting)) == (2, WAITING_MAX)


def test_connections_after_one_that_fails_are_opened(scene: Scene) -> None:
    scene.connect(1, 2, 3)

    def fail(accepted: fds.Accepted, fd: int) -> None:
        os.close(fd)
        scene.handoff._opened = scene._open
        raise RuntimeError("a bug")

    scene.handoff._opened = fail
    with pytest.raises(RuntimeError):
        scene.reader()
    scene.turn()
    assert scene.opened == [2, 3]


def test_the_broker_stops_while_connections_wait(scene: Scene) -> None:
    before = open_files()
    scene.handoff.report()
    scene.opening_s = 1.0
    scene.connect(1, 2, 3)
    scene.reader()
    scene.handoff._waiting.append((fds.Accepted(4, 0, "127.0.0.1", 1), fds.LOST))
    scene.handoff.stop()
    for callback in scene.soon:
        callback()
    assert (scene.opened, scene.handoff.closed_ids, scene.reader) == ([1], [2, 3, 4], None)
    assert open_files() == before


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
