"""A reset is a real one: the other side sees an RST, and only connections to that port are
touched."""

import socket

import pytest

from loadtest.players.connections import reset_connections


def pair() -> tuple[socket.socket, socket.socket, int]:
    """A client, its server's end, and the port between them."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        client = socket.create_connection(("127.0.0.1", port))
        served, _ = server.accept()
    return client, served, port


def test_the_broker_sees_a_reset_and_the_client_a_dead_socket() -> None:
    client, served, port = pair()
    with client, served:
        assert reset_connections(port) == 1
        with pytest.raises(ConnectionResetError):
            served.recv(1)
        with pytest.raises(OSError):
            client.send(b"x")


def test_other_connections_stay() -> None:
    client, served, port = pair()
    with client, served:
        assert reset_connections(port - 1) == 0
        client.send(b"x")
        assert served.recv(1) == b"x"
