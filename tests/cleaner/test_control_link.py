"""A cleaner's calls to control: an answer that never comes delays neither the cleaner without end
nor its stop."""

import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kbroker.cleaner import control_link as module
from kbroker.cleaner.control_link import ControlLink
from kbroker.ipc import connecting
from kbroker.ipc.cleaning_messages import AskWorker, BrokerSettings, CleanableLogs
from kbroker.ipc.connecting import ControlSockets
from kbroker.ipc.link import LinkClosed
from kbroker.ipc.messages import Reply
from kbroker.protocol.errors import ErrorCode, KafkaError


@pytest.fixture
def control_sockets() -> Iterator[ControlSockets]:
    """The way to a control process that accepts no link."""
    made = connecting.make()
    yield made
    made.close()


def test_an_unanswered_call_ends(control_sockets: ControlSockets) -> None:
    control = ControlLink(control_sockets.connector, threading.Event(), answer_s=0.05)
    with pytest.raises(LinkClosed, match="no answer in time"):
        control.call(BrokerSettings())


@pytest.mark.timeout(120)
def test_a_stop_ends_a_call_before_its_time(
    control_sockets: ControlSockets, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STOPPING_S", 0.05)
    monkeypatch.setattr(module, "POLL_S", 0.01)
    stop = threading.Event()
    threading.Timer(0.1, stop.set).start()
    with pytest.raises(LinkClosed, match="no answer in time"):
        ControlLink(control_sockets.connector, stop, answer_s=3600).call(BrokerSettings())


class Link:
    """A link with these messages of control; LinkClosed is an end. sent: the calls."""

    def __init__(self, *messages: Any) -> None:
        self.messages = list(messages)
        self.sent: list[tuple[Any, int]] = []
        self.closed = False
        self.event_fd = os.eventfd(1)

    def fileno(self) -> int:
        return self.event_fd

    def send(self, body: Any, call_id: int) -> None:
        self.sent.append((body, call_id))

    def receive(self) -> list[tuple[int, Any]]:
        message = self.messages.pop(0)
        if isinstance(message, Exception):
            raise message
        return [(0, message)]

    def close(self) -> None:
        self.closed = True
        os.close(self.event_fd)


@pytest.fixture
def control_of(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., ControlLink]]:
    """A ControlLink that opens these links, one after the other."""
    made: list[Link] = []

    def control(*links: Link) -> ControlLink:
        made.extend(links)
        opened = iter(links)
        monkeypatch.setattr(module, "PolledLink", lambda _: next(opened))
        connector: Any = None
        return ControlLink(connector, threading.Event())

    yield control
    for link in made:
        if not link.closed:
            link.close()


def test_each_call_has_its_answer_and_no_older_one(control_of: Callable[..., ControlLink]) -> None:
    link = Link(Reply(1, "one"), Reply(1, "late"), "another message", Reply(2, "two"))
    control = control_of(link)
    assert control.call(BrokerSettings()) == "one"
    assert control.ask(3, CleanableLogs()) == "two"
    assert link.sent == [(BrokerSettings(), 1), (AskWorker(3, CleanableLogs()), 2)]
    assert not link.closed


def test_an_error_of_an_io_worker_is_raised_and_the_link_stays(
    control_of: Callable[..., ControlLink],
) -> None:
    link = Link(Reply(1, None, int(ErrorCode.NOT_LEADER_OR_FOLLOWER), "it is away"), Reply(2, "two"))
    control = control_of(link)
    with pytest.raises(KafkaError, match="it is away") as refused:
        control.ask(0, CleanableLogs())
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert control.ask(0, CleanableLogs()) == "two"


@pytest.mark.parametrize("error", [LinkClosed("control went away"), ConnectionResetError("reset")])
def test_the_next_call_after_the_end_of_a_link_opens_another(
    control_of: Callable[..., ControlLink], error: OSError
) -> None:
    first, second = Link(error), Link(Reply(2, "two"))
    control = control_of(first, second)
    with pytest.raises(LinkClosed, match=str(error)):
        control.call(BrokerSettings())
    assert first.closed
    assert control.call(BrokerSettings()) == "two"
    control.close()
    control.close()
    assert second.closed
