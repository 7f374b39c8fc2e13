"""The IO worker's link to control: calls get their replies in order, and a lost link is opened
again."""

import select
import socket
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from kbroker.io.control_link import ControlLink
from kbroker.ipc import connecting
from kbroker.ipc.link import TOGETHER, FrameReader
from kbroker.ipc.messages import DeleteRecords, Hello, Reply
from kbroker.ipc.wire import pack, reply_decoder
from tests.ipc.links import next_link

HELLO = Hello("io", 0, 1)
CALL = DeleteRecords(0, 5)


class Scene:
    """The link, and control's end of the sockets."""

    def __init__(self) -> None:
        self.sockets = connecting.make()
        self.poll = select.epoll()
        self.lost: list[bool] = []
        self.link = ControlLink(self.sockets.connector, HELLO, self.poll, self._on_lost)
        self.groups: list[list[int]] = []

    def _on_lost(self) -> None:
        self.lost.append(self.link.connected)

    def serve(self, messages: Sequence[tuple[int, Any]]) -> list[Reply]:
        self.groups.append([call_id for call_id, _ in messages])
        return [Reply(call_id, body.offset) for call_id, body in messages]

    def accept(self) -> socket.socket:
        """Control's end of the link that was just opened; Hello has come."""
        control = next_link(self.sockets.listener)
        assert self.received(control) == [HELLO]
        return control

    def received(self, control: socket.socket) -> list[object]:
        reader = FrameReader(lambda _: reply_decoder(CALL))
        return [body for _, body in reader.feed(control.recv(1 << 16, socket.MSG_DONTWAIT))]


@pytest.fixture
def scene() -> Iterator[Scene]:
    made = Scene()
    yield made
    made.sockets.close()
    made.poll.close()


def test_calls_are_served_in_groups_and_each_is_answered(scene: Scene) -> None:
    assert scene.link.connect()
    control = scene.accept()
    calls = list(range(1, TOGETHER + 3))
    control.sendall(b"".join(pack(call_id, DeleteRecords(0, 10 * call_id)) for call_id in calls))
    assert scene.poll.poll(5)
    scene.link.take(scene.serve)
    assert scene.groups == [calls[:TOGETHER], calls[TOGETHER:]]
    assert scene.received(control) == [Reply(call_id, 10 * call_id) for call_id in calls]


def test_later_replies_and_messages_are_sent(scene: Scene) -> None:
    scene.link.connect()
    control = scene.accept()
    scene.link.reply([Reply(7, 1), Reply(8, 2)])
    scene.link.send(CALL)
    assert scene.received(control) == [Reply(7, 1), Reply(8, 2), CALL]


def test_a_link_is_opened_once_and_again_after_it_was_lost(scene: Scene) -> None:
    assert scene.link.connect()
    control = scene.accept()
    assert scene.link.connect()
    assert connecting.accept(scene.sockets.listener) is None
    control.close()
    assert scene.poll.poll(5)
    assert scene.lost == []
    scene.link.take(scene.serve)
    assert not scene.link.connected
    assert scene.lost == [False], "what was to be replied is forgotten before the next link"
    assert scene.poll.poll(0) == []
    assert scene.link.connect()
    scene.accept()
    assert scene.link.connected


def test_without_a_link_nothing_is_sent_and_nothing_fails(scene: Scene) -> None:
    scene.link.take(scene.serve)
    scene.link.send(CALL)
    scene.link.reply([Reply(7, 1)])
    scene.link.connect()
    scene.accept().close()
    scene.link.send(CALL)
    scene.link.reply([Reply(7, 1)])
    assert scene.groups == []


def test_while_no_control_can_be_reached_there_is_no_link(scene: Scene) -> None:
    scene.sockets.listener.close()
    assert not scene.link.connect()
    assert not scene.link.connected
