"""Connections for which no network process has descriptors stay in the backlog."""

import os

import pytest

from kbroker.ipc import fds
from kbroker.net.accept.acceptor import FULL_LOG_SECONDS
from kbroker.net.accept.descriptors import TLS_CONNECTION, for_connections, open_now
from tests.net.accept.acceptor_scene import Scene


def test_connections_without_descriptors_in_a_network_process_wait_in_the_backlog(
    scenes: list[Scene], caplog: pytest.LogCaptureFixture
) -> None:
    scene = Scene({}, descriptors=2)
    scenes.append(scene)
    for _ in range(5):
        scene.connect()
    for _ in range(4):
        scene.turn()
    got = scene.received()
    assert sorted(number for number, _, _ in got) == [0, 0, 1, 1]
    assert scene.acceptor.client_fds() == [], "the acceptor holds a connection that no process can have"
    assert len(caplog.messages) == 1
    assert "4 are open, and a network process has room for 2 (0 with TLS)" in caplog.text
    assert "raise LimitNOFILE, or set max.connections" in caplog.text
    scene.now = FULL_LOG_SECONDS
    scene.turn()
    assert len(caplog.messages) == 2
    number, accepted, _ = got[2]
    fds.send_closed(scene.processes[number], [accepted.connection_id])
    scene.turn()
    scene.turn()
    more = scene.received()
    assert [(process, each.port) for process, each, _ in more] == [
        (number, scene.clients[-1].getsockname()[1])
    ]
    for _, _, fd in got + more:
        os.close(fd)


def test_a_tls_connection_takes_the_room_of_several(scenes: list[Scene]) -> None:
    listeners = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        "ssl.keystore.location": "/none",
    }
    scene = Scene(listeners, descriptors=TLS_CONNECTION + 1)
    scenes.append(scene)
    taken: list[tuple[int, fds.Accepted, int]] = []
    for listener in ("SSL", "SSL", "SSL", "PLAINTEXT", "PLAINTEXT", "PLAINTEXT"):
        scene.connect(listener)
        scene.turn()
        taken += scene.received()
    assert [accepted.listener for _, accepted, _ in taken] == [1, 1, 0, 0]
    assert sorted(number for number, _, _ in taken) == [0, 0, 1, 1]
    number, accepted, _ = taken[0]
    fds.send_closed(scene.processes[number], [accepted.connection_id])
    for _ in range(3):
        scene.turn()
    more = scene.received()
    # either all that wait on one listener or on the other come first
    assert [each.listener for _, each, _ in more] in ([0], [1])
    for _, _, fd in taken + more:
        os.close(fd)


def test_the_room_of_a_network_process_follows_the_limit_of_descriptors(
    scenes: list[Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kbroker.net.accept.acceptor.hard_limit", lambda: 10_000)
    scene = Scene({})
    scenes.append(scene)
    assert for_connections(10_000, open_now() + 10) <= scene.acceptor._room.descriptors
    assert scene.acceptor._room.descriptors <= for_connections(10_000, 3)


def test_clients_of_a_process_that_has_died_leave_descriptors_to_start_the_next(scenes: list[Scene]) -> None:
    """They took all of the acceptor's, which then could start no process, and waited for one."""
    scene = Scene({}, descriptors=3)
    scenes.append(scene)
    for process in scene.processes:
        process.close()
    for _ in range(5):
        scene.connect()
    for _ in range(3):
        scene.turn()
    assert len(scene.acceptor.client_fds()) == 3


def test_clients_above_their_rate_leave_descriptors_too(scenes: list[Scene]) -> None:
    scene = Scene({}, descriptors=3)
    scenes.append(scene)
    fds.send_rates(scene.processes[0], {"": 0.001}, first=True)
    scene.turn()
    for _ in range(8):
        scene.connect()
    for _ in range(3):
        scene.turn()
    assert len(scene.acceptor.client_fds()) == 3
    for _, _, fd in scene.received():
        os.close(fd)
