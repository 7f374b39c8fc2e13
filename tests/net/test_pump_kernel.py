"""One turn of a network process, without the rest of it."""

import socket

import pytest

from kbroker.kernels.libc import Epoll
from kbroker.net.network_tables import NetworkTables
from kbroker.net.pump_kernel import pump, register, resume
from kbroker.net.rows import Connection, Event, EventKind, Flag, Request
from tests.net.tables import new_tables


def is_reported_closed(tables: NetworkTables) -> bool:
    """Whether a turn finds that a client has gone."""
    events = tables.events[: pump(tables.address)]
    return EventKind.CLOSED in events[:, Event.KIND].tolist()


@pytest.mark.parametrize(("acks", "waits"), [(0, True), (1, False), (-1, False)])
def test_requests_without_answers_are_read_though_their_client_has_gone(acks: int, waits: bool) -> None:
    """A producer with acks=0 closes its connection as soon as it has sent all."""
    tables = new_tables()
    client, served = socket.socketpair()
    with client, served:
        row = tables.take_row(served.fileno(), Flag.AUTHENTICATED | Flag.BUSY, 0)
        words = tables.connections[row]
        words[Connection.ARMED] = Epoll.READING
        assert register(tables.address, served.fileno(), Epoll.READING, row) == 0
        request = tables.requests[0]
        request[[Request.CONNECTION, Request.NEXT, Request.PENDING, Request.ACKS]] = row, -1, 1, acks
        words[[Connection.HEAD, Connection.TAIL, Connection.QUEUED]] = 0, 0, 1
        client.shutdown(socket.SHUT_WR)
        assert is_reported_closed(tables) is not waits
        if waits:
            words[[Connection.HEAD, Connection.TAIL, Connection.QUEUED]] = -1, -1, 0
            words[Connection.FLAGS] &= ~Flag.BUSY
            resume(tables.address, row)
            assert is_reported_closed(tables), "all of its requests are read now"
