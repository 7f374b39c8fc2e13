"""The parent, when a child cannot be started: it serves with the others."""

import errno
import os
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.ipc.clock import monotonic_ms
from kbroker.supervisor.child import Child
from kbroker.supervisor.roles import ROLES
from kbroker.supervisor.supervisor import Supervisor


class Scene:
    """A parent without sockets, one of whose children has died. starts: what becomes of each
    attempt to start a child, an error or None."""

    def __init__(self) -> None:
        self.supervisor: Any = Supervisor.__new__(Supervisor)
        self.child = Child(ROLES[0], 0, 0)
        self.starts: list[OSError | None] = []
        vars(self.supervisor).update(
            _children=[self.child],
            _sleeping={},
            _stopping=False,
            _poll=SimpleNamespace(poll=lambda _: [], unregister=lambda _: None),
            _acceptor=SimpleNamespace(take_turn=lambda: None),
            _watchdog=SimpleNamespace(check=lambda *_: None),
            _start=self._start,
        )

    def _start(self, child: Child) -> None:
        if (error := self.starts.pop(0)) is not None:
            raise error
        child.pid = 77


@pytest.fixture
def scene() -> Scene:
    return Scene()


def no_memory() -> OSError:
    return OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))


def test_a_child_for_which_there_is_no_memory_is_started_later_and_ends_no_other(scene: Scene) -> None:
    scene.starts = [no_memory(), None]
    scene.supervisor._turn(0)
    assert not scene.child.running
    assert scene.child.restart_at_ms > monotonic_ms()
    scene.supervisor._turn(0)
    assert len(scene.starts) == 1, "it is not due yet"
    scene.child.restart_at_ms = 0
    scene.supervisor._turn(0)
    assert scene.child.running


def test_a_late_child_is_started_later_too(scene: Scene) -> None:
    late = Child(ROLES[-1], 0, 1)
    scene.supervisor._sleeping[5] = late
    scene.starts = [no_memory(), None, None]
    scene.supervisor._start_sleeping(5)
    assert not late.running
    late.restart_at_ms = 0
    scene.supervisor._turn(0)
    assert late.running


def test_a_child_keeps_no_socket_of_a_client_that_waits_for_a_network_process(scene: Scene) -> None:
    """Else its connection would not end when the network process that gets it closes it."""

    def end(number: int) -> Any:
        return SimpleNamespace(fileno=lambda: number)

    vars(scene.supervisor).update(
        _handoffs=[(end(3), None)],
        _wake_read=end(4),
        _wake_write=end(5),
        _poll=end(6),
        _http=SimpleNamespace(sockets=lambda: [end(7)]),
        _control_sockets=SimpleNamespace(connector=end(8), listener=end(9)),
        _acceptor=SimpleNamespace(listening_fds=lambda: [10], client_fds=lambda: [11, 12]),
    )
    assert {3, 4, 5, 6, 10, 11, 12} <= set(scene.supervisor._private_fds(scene.child))
