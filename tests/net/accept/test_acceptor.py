"""The acceptor: where connections go, limits, what it forgets."""

import errno
import os
import socket
import time

import pytest

from kbroker.config.broker import BrokerConfig
from kbroker.ipc import fds
from kbroker.net.accept.acceptor import Acceptor, _backlog
from kbroker.net.accept.connection_limits import ConnectionLimits, parse_overrides
from tests.net.accept.acceptor_scene import Scene


def test_connections_go_to_the_least_loaded_process(scenes: list[Scene]) -> None:
    scene = Scene({})
    scenes.append(scene)
    for _ in range(6):
        scene.connect()
    scene.turn()
    got = scene.received()
    assert sorted(number for number, _, _ in got) == [0, 0, 0, 1, 1, 1]
    assert len({accepted.connection_id for _, accepted, _ in got}) == 6
    ports = {accepted.port for _, accepted, _ in got}
    assert ports == {client.getsockname()[1] for client in scene.clients}
    assert {accepted.host for _, accepted, _ in got} == {"127.0.0.1"}
    ends = [socket.socket(fileno=fd) for _, _, fd in got]
    for end in ends:
        assert end.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
    fds.send_closed(scene.processes[0], [a.connection_id for n, a, _ in got if n == 0])
    scene.turn()
    for _ in range(3):
        scene.connect()
        scene.turn()
    more = scene.received()
    assert [number for number, _, _ in more] == [0, 0, 0]
    for end in ends:
        end.close()
    for _, _, fd in more:
        socket.socket(fileno=fd).close()


def test_many_connections_come_in_few_messages_in_their_order(scenes: list[Scene]) -> None:
    scene = Scene({})
    scenes.append(scene)
    for _ in range(40):
        scene.connect()
    scene.turn()
    messages = []
    for process in scene.processes:
        while got := fds.receive_connections(process):
            messages.append(got)
    taken = [each for message in messages for each in message]
    for _, fd in taken:
        socket.socket(fileno=fd).close()
    assert sum(len(message) for message in messages) == 40
    assert len(messages) == 6  # three for each process, of 8, 8 and 4
    ids = [accepted.connection_id for accepted, _ in taken]
    assert ids[:20] == sorted(ids[:20])
    assert sorted(ids) == list(range(1, 41))


def test_a_process_that_has_gone_leaves_its_connections_to_the_others(scenes: list[Scene]) -> None:
    scene = Scene({})
    scenes.append(scene)
    scene.processes[0].close()
    for _ in range(20):
        scene.connect()
    scene.turn()
    got = []
    while more := fds.receive_connections(scene.processes[1]):
        got += more
    assert sorted(accepted.connection_id for accepted, _ in got) == list(range(1, 21))
    for _, fd in got:
        socket.socket(fileno=fd).close()


def test_listeners_are_distinguished(scenes: list[Scene]) -> None:
    scene = Scene({
        "listeners": "A://127.0.0.1:0,B://127.0.0.1:0",
        "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT",
        "inter.broker.listener.name": "A",
    })  # fmt: skip
    scenes.append(scene)
    scene.connect("B")
    scene.turn()
    ((_, accepted, fd),) = scene.received()
    socket.socket(fileno=fd).close()
    assert accepted.listener == 1
    assert scene.acceptor.addresses() == [f"127.0.0.1:{scene.ports['A']}", f"127.0.0.1:{scene.ports['B']}"]


def test_above_max_connections_new_ones_wait(scenes: list[Scene]) -> None:
    scene = Scene({"max.connections": "2"})
    scenes.append(scene)
    for _ in range(3):
        scene.connect()
        scene.turn()
    got = scene.received()
    assert len(got) == 2
    scene.turn()
    assert scene.received() == []
    number, accepted, _ = got[0]
    fds.send_closed(scene.processes[number], [accepted.connection_id])
    scene.turn()
    scene.turn()
    more = scene.received()
    assert len(more) == 1
    for _, _, fd in got + more:
        socket.socket(fileno=fd).close()


def test_above_max_connections_per_ip_new_ones_are_closed(scenes: list[Scene]) -> None:
    scene = Scene({"max.connections.per.ip": "1"})
    scenes.append(scene)
    scene.connect()
    second = scene.connect()
    scene.turn()
    got = scene.received()
    assert len(got) == 1
    assert second.recv(1) == b""
    for _, _, fd in got:
        socket.socket(fileno=fd).close()


def test_connection_limits_change_while_running(scenes: list[Scene]) -> None:
    scene = Scene({"max.connections.per.ip": "1"})
    scenes.append(scene)
    scene.connect()
    scene.turn()
    fds.send_settings(scene.processes[0], {"max.connections.per.ip": "2"})
    scene.turn()
    scene.connect()
    third = scene.connect()
    scene.turn()
    got = scene.received()
    assert len(got) == 2
    assert third.recv(1) == b""
    fds.send_settings(scene.processes[0], {})  # what the file says holds again
    scene.turn()
    fourth = scene.connect()
    scene.turn()
    assert fourth.recv(1) == b""
    for _, _, fd in got:
        socket.socket(fileno=fd).close()


def test_a_new_process_makes_its_predecessors_connections_forgotten(scenes: list[Scene]) -> None:
    scene = Scene({"max.connections": "2"})
    scenes.append(scene)
    for _ in range(2):
        scene.connect()
    scene.turn()
    got = scene.received()
    for process in scene.processes:
        fds.send_closed(process, [fds.RESTARTED])
    scene.turn()
    scene.connect()
    scene.turn()
    more = scene.received()
    assert len(more) == 1
    for _, _, fd in got + more:
        socket.socket(fileno=fd).close()


@pytest.mark.parametrize("number", [errno.EPROTO, errno.EHOSTUNREACH, errno.EPERM, errno.ENOBUFS])
def test_an_error_of_a_clients_network_does_not_end_the_broker(
    scenes: list[Scene], monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Linux returns such errors from accept; before, most of them ended the supervisor."""
    scene = Scene({})
    scenes.append(scene)
    errors = [number]
    accept = vars(socket.socket.__base__)["_accept"]

    def failing(listening: socket.socket) -> object:
        if errors:
            raise OSError(errors.pop(), "of the network")
        return accept(listening)

    monkeypatch.setattr(socket.socket, "_accept", failing, raising=False)
    scene.connect()
    scene.turn()
    assert (errors, scene.received()) == ([], [])
    scene.turn()
    ((_, _, fd),) = scene.received()
    os.close(fd)


def test_overrides_and_the_rate_of_new_connections() -> None:
    now = [0.0]
    config = BrokerConfig({
        "max.connections.per.ip": "5",
        "max.connections.per.ip.overrides": "10.0.0.1:1,10.0.0.2:0",
        "max.connection.creation.rate": "2",
    })  # fmt: skip
    limits = ConnectionLimits(config, lambda: now[0])
    assert parse_overrides("10.0.0.1:1,[::1]:3") == {"10.0.0.1": 1, "::1": 3}
    assert limits.refusal("10.0.0.2")
    assert not limits.refusal("10.0.0.1")
    limits.opened("PLAINTEXT", "10.0.0.1")
    assert limits.refusal("10.0.0.1")
    assert limits.may_accept("PLAINTEXT")
    limits.opened("PLAINTEXT", "10.0.0.3")
    assert not limits.may_accept("PLAINTEXT")
    now[0] = 0.6
    assert limits.may_accept("PLAINTEXT")
    limits.closed("PLAINTEXT", "10.0.0.1")
    assert not limits.refusal("10.0.0.1")


def test_a_listener_may_have_a_limit_of_its_own_which_may_change() -> None:
    config = BrokerConfig({
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        "max.connections": "3",
        "listener.name.ssl.max.connections": "1",
    })  # fmt: skip
    limits = ConnectionLimits(config, lambda: 0.0)
    limits.opened("SSL", "10.0.0.1")
    assert limits.may_accept("PLAINTEXT")
    assert not limits.may_accept("SSL")
    limits.configure(config.with_dynamic(cluster={}, own={"listener.name.ssl.max.connections": "2"}))
    assert limits.may_accept("SSL")
    limits.opened("SSL", "10.0.0.1")
    assert not limits.may_accept("SSL")
    limits.opened("PLAINTEXT", "10.0.0.1")
    assert not limits.may_accept("PLAINTEXT")


def test_a_listener_may_have_a_rate_of_new_connections_which_may_change() -> None:
    now = [0.0]
    rate = "listener.name.ssl.max.connection.creation.rate"
    config = BrokerConfig({"listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0", rate: "1"})
    limits = ConnectionLimits(config, lambda: now[0])
    limits.opened("SSL", "10.0.0.1")
    assert not limits.may_accept("SSL")
    assert limits.may_accept("PLAINTEXT")
    now[0] = 1.0
    assert limits.may_accept("SSL")
    limits.configure(config.with_dynamic(cluster={}, own={rate: "3"}))
    now[0] = 2.0
    for _ in range(3):
        assert limits.may_accept("SSL")
        limits.opened("SSL", "10.0.0.1")
    assert not limits.may_accept("SSL")


def test_the_address_is_named_when_it_is_taken() -> None:
    taken = socket.create_server(("127.0.0.1", 0))
    port = taken.getsockname()[1]
    acceptor = Acceptor(BrokerConfig({"listeners": f"PLAINTEXT://127.0.0.1:{port}"}), [], time.monotonic)
    with pytest.raises(OSError, match=f"PLAINTEXT://127.0.0.1:{port}: Address already in use"):
        acceptor.bind()
    taken.close()


def test_connections_wait_while_no_process_has_room_for_them(scenes: list[Scene]) -> None:
    scene = Scene({})
    scenes.append(scene)
    for process in scene.ours:
        process.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    for _ in range(50):
        scene.connect()
        scene.turn()
    assert scene.acceptor.next_due_s() is not None, "the channels have room for all: nothing is shown"
    waiting = [socket.socket(fileno=os.dup(fd)) for fd in scene.acceptor.client_fds()]
    assert waiting
    assert {one.getpeername() for one in waiting} <= {client.getsockname() for client in scene.clients}
    for one in waiting:
        one.close()
    ports: list[int] = []
    while len(ports) < 50:
        scene.acceptor.take_turn()
        got = scene.received()
        assert got, "a connection was not passed on"
        ports += [accepted.port for _, accepted, _ in got]
        for _, _, fd in got:
            socket.socket(fileno=fd).close()
    assert sorted(ports) == sorted(client.getsockname()[1] for client in scene.clients)
    assert scene.acceptor.next_due_s() is None
    assert scene.acceptor.client_fds() == []


def test_the_backlog_is_the_kernels_unless_an_operator_says_otherwise() -> None:
    assert _backlog(BrokerConfig({})) == 1 << 16
    assert _backlog(BrokerConfig({"socket.listen.backlog.size": "50"})) == 50


def test_a_connection_of_a_loopback_listener_has_its_options_already(scenes: list[Scene]) -> None:
    scene = Scene({"kbroker.local.socket.buffer.bytes": "65536"})
    scenes.append(scene)
    scene.connect()
    scene.turn()
    ((_, _, fd),) = scene.received()
    with socket.socket(fileno=fd) as end:
        assert end.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
        assert end.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert end.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == 2 * 65536


def test_connections_are_counted_until_they_are_closed() -> None:
    limits = ConnectionLimits(
        BrokerConfig({"max.connections": "2", "max.connections.per.ip": "1"}), lambda: 0.0
    )
    limits.opened("PLAINTEXT", "10.0.0.1")
    assert limits.may_accept("PLAINTEXT")
    assert limits.refusal("10.0.0.1") == "too many connections from 10.0.0.1 (maximum = 1)"
    limits.opened("PLAINTEXT", "10.0.0.2")
    assert not limits.may_accept("PLAINTEXT")
    limits.closed("PLAINTEXT", "10.0.0.1")
    assert limits.may_accept("PLAINTEXT")
    assert (limits.refusal("10.0.0.1"), limits.refusal("10.0.0.3")) == ("", "")
    assert dict(limits._by_host) == {"10.0.0.2": 1}, "an address without connections takes no memory"


def test_connections_without_a_limit_are_always_accepted() -> None:
    limits = ConnectionLimits(BrokerConfig(), lambda: 0.0)
    for _ in range(1000):
        assert limits.may_accept("PLAINTEXT")
        assert limits.refusal("10.0.0.1") == ""
        limits.opened("PLAINTEXT", "10.0.0.1")


def test_a_change_of_limits_asks_no_resolver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, each change of a limit did, while the acceptor took no connection."""
    asked: list[str] = []

    def resolve(host: str, _port: object) -> list[tuple[object, ...]]:
        asked.append(host)
        return [(0, 0, 0, "", ("10.0.0.1", 0))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    name = "max.connections.per.ip.overrides"
    config = BrokerConfig({"max.connections.per.ip": "5", name: "server:0"})
    limits = ConnectionLimits(config, lambda: 0.0)
    assert asked == ["server"]
    for own, refused in (
        ({"max.connections": "7"}, True),
        ({name: "10.0.0.2:0,other:1"}, False),
        ({}, True),
    ):
        limits.configure(config.with_dynamic(cluster={}, own=own))
        assert bool(limits.refusal("10.0.0.1")) is refused
        assert bool(limits.refusal("10.0.0.2")) is not refused
    assert asked == ["server"]


def test_an_override_of_a_host_name_is_that_of_its_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(host: str, _port: object) -> list[tuple[object, ...]]:
        if host == "unknown":
            raise socket.gaierror
        if host == "a..b":
            raise UnicodeError("label empty or too long")
        return [(0, 0, 0, "", (address, 0)) for address in ("10.0.0.1", "10.0.0.2", "10.0.0.1")]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    found = parse_overrides("server:7, unknown:8,a..b:9,")
    assert found == {"10.0.0.1": 7, "10.0.0.2": 7, "unknown": 8, "a..b": 9}
    assert parse_overrides("") == {}
