"""Options of accepted sockets: Kafka's for other hosts, faster ones for clients on this host."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from kbroker.config.broker import BrokerConfig
from kbroker.net.accept.socket_options import LIMITS, RECEIVE, SEND, SocketOptions

MIB = 1 << 20


@pytest.fixture
def accepted() -> Iterator[socket.socket]:
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname()),
    ):
        client, _ = listening.accept()
        with client:
            yield client


def buffer(client: socket.socket, option: int) -> int:
    """As it was asked for: Linux says twice of it."""
    return client.getsockopt(socket.SOL_SOCKET, option) // 2


def roomy(tmp_path: Path) -> dict[str, Path]:
    limit = tmp_path / "limit"
    limit.write_text(f"{16 * MIB}\n")
    return {SEND: limit, RECEIVE: limit}


def congestion_control(client: socket.socket) -> bytes:
    return client.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0")


def test_a_client_on_this_host_is_not_paced(accepted: socket.socket) -> None:
    SocketOptions(BrokerConfig()).prepare(accepted, "127.0.0.1")
    assert congestion_control(accepted) == b"reno"
    assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    assert not accepted.getblocking()


def test_a_client_on_another_host_gets_kafkas_buffers_and_the_systems_congestion_control(
    accepted: socket.socket,
) -> None:
    before = congestion_control(accepted)
    SocketOptions(BrokerConfig()).prepare(accepted, "192.0.2.1")
    assert congestion_control(accepted) == before
    assert buffer(accepted, socket.SO_SNDBUF) == buffer(accepted, socket.SO_RCVBUF) == 102400


def test_buffers_of_a_local_client_are_large(tmp_path: Path) -> None:
    options = SocketOptions(BrokerConfig(), roomy(tmp_path))
    assert options.local == {SEND: MIB, RECEIVE: MIB}


def test_a_buffer_setting_other_than_kafkas_default_holds_for_local_clients_too(
    accepted: socket.socket, tmp_path: Path
) -> None:
    options = SocketOptions(BrokerConfig({SEND: "65536"}), roomy(tmp_path))
    options.prepare(accepted, "127.0.0.1")
    assert buffer(accepted, socket.SO_SNDBUF) == 65536
    assert options.local[RECEIVE] == MIB


def test_a_buffer_that_the_kernel_would_cut_down_is_left_to_it(
    accepted: socket.socket, tmp_path: Path
) -> None:
    limit = tmp_path / "limit"
    limit.write_text("212992\n")
    untouched = accepted.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
    SocketOptions(BrokerConfig(), {SEND: limit, RECEIVE: tmp_path / "missing"}).prepare(accepted, "127.0.0.1")
    assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == untouched
    assert set(LIMITS) == {SEND, RECEIVE}


def test_a_congestion_control_that_is_not_there_is_left_out(accepted: socket.socket) -> None:
    options = SocketOptions(BrokerConfig({"kbroker.local.congestion.control": "none-such"}))
    options.prepare(accepted, "127.0.0.1")
    assert options.congestion_control == b""
