"""The link of the http process to control: topics arrive, groups are asked for once a second,
control may restart."""

import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from kbroker.http.control_view import ControlView
from kbroker.ipc import connecting
from kbroker.ipc.http_messages import GroupsPage, GroupsQuery, GroupSummary
from kbroker.ipc.link import FrameReader
from kbroker.ipc.messages import Hello, Image, PartitionImage, Reply, TopicImage
from kbroker.ipc.wire import pack
from tests.ipc.links import next_link

HELLO = Hello("http", 0, 1)


class Control:
    """The other end, driven by the test."""

    def __init__(self) -> None:
        self.control_sockets = connecting.make()

    def accept(self) -> "Peer":
        return Peer(next_link(self.control_sockets.listener))


class Peer:
    def __init__(self, end: socket.socket) -> None:
        self.end = end
        self.end.settimeout(60)
        self.reader = FrameReader(lambda _: None)
        self.waiting: list[tuple[int, Any]] = []

    def receive(self) -> tuple[int, Any]:
        while not self.waiting:
            self.waiting += self.reader.feed(self.end.recv(4096))
        return self.waiting.pop(0)

    def send(self, body: Any, call_id: int = 0) -> None:
        self.end.sendall(pack(call_id, body))


@pytest.fixture
def control() -> Iterator[Control]:
    made = Control()
    yield made
    made.control_sockets.close()


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def topic(name: str, *slots: int) -> TopicImage:
    partitions = tuple(PartitionImage(i, slot, 1, f"/d/{name}-{i}") for i, slot in enumerate(slots))
    return TopicImage(name, bytes(16), False, partitions)


def names(view: ControlView) -> list[str]:
    return [each.name for each in view.directory.topics]


def until(condition: Any) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_images_change_the_directory(control: Control) -> None:
    view = ControlView(control.control_sockets.connector, HELLO)
    view.start()
    peer = control.accept()
    assert peer.receive() == (0, HELLO)
    assert not view.informed.is_set()
    peer.send(Image(1, True, (topic("b", 4, 5), topic("a", 0))))
    assert view.informed.wait(60)
    assert names(view) == ["a", "b"]
    assert view.directory.slots.tolist() == [0, 4, 5]
    assert view.directory.topic_numbers.tolist() == [0, 1, 1]
    peer.send(Image(2, False, (topic("c", 9),), deleted=("b",)))
    until(lambda: names(view) == ["a", "c"])
    view.close()


def test_a_restart_of_control_is_survived_and_its_topics_replace_the_old(control: Control) -> None:
    view = ControlView(control.control_sockets.connector, HELLO)
    view.start()
    peer = control.accept()
    peer.send(Image(1, True, (topic("a", 0),)))
    assert view.informed.wait(60)
    peer.end.close()
    again = control.accept()
    assert again.receive() == (0, HELLO)
    again.send(Image(1, True, (topic("z", 1),)))
    until(lambda: names(view) == ["z"] and view.informed.is_set())
    view.close()


def test_groups_are_read_at_most_once_a_second(control: Control) -> None:
    clock = Clock()
    view = ControlView(control.control_sockets.connector, HELLO, clock)
    view.start()
    peer = control.accept()
    peer.receive()
    answers = [(GroupSummary("g", "classic", "Stable", n, {}),) for n in (1, 2)]
    requested = []

    def answer() -> None:
        for value in answers:
            call_id, body = peer.receive()
            requested.append(body)
            peer.send(Reply(call_id, value))

    threading.Thread(target=answer, daemon=True).start()
    until(lambda: view._link is not None)
    assert [group.members for group in view.groups()] == [1]
    clock.now = 0.9
    assert [group.members for group in view.groups()] == [1]
    clock.now = 1.1
    assert [group.members for group in view.groups()] == [2]
    assert requested == [GroupsQuery(), GroupsQuery()]
    view.close()


def test_groups_that_come_in_pages_are_put_together(control: Control) -> None:
    view = ControlView(control.control_sockets.connector, HELLO)
    view.start()
    peer = control.accept()
    peer.receive()

    def answer() -> None:
        call_id, _ = peer.receive()
        peer.send(GroupsPage(call_id + 1, (summary("of another call"),)))
        for name in ("a", "b"):
            peer.send(GroupsPage(call_id, (summary(name),)))
        peer.send(Reply(call_id, (summary("c"),)))

    threading.Thread(target=answer, daemon=True).start()
    until(lambda: view._link is not None)
    assert [group.group_id for group in view.groups()] == ["a", "b", "c"]
    view.close()


def summary(name: str) -> GroupSummary:
    return GroupSummary(name, "classic", "Stable", 1, {})


def test_groups_are_what_was_last_known_while_control_is_away() -> None:
    control_sockets = connecting.make()
    assert ControlView(control_sockets.connector, HELLO).groups() == ()
    control_sockets.close()
