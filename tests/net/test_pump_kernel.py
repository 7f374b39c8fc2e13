"""One turn of a network process, without the rest of it."""

import os
import socket
import time

import numpy as np
import pytest

from kbroker.ipc.layout import Completion, ProcessLine
from kbroker.ipc.ring import ring_push
from kbroker.kernels.jit import PLAIN
from kbroker.kernels.libc import Epoll
from kbroker.net.network_tables import NetworkTables
from kbroker.net.pump_kernel import OWN_EVENT_FD, POLL_TURN_NS, pump, register, resume
from kbroker.net.rows import Connection, Context, Event, EventKind, Flag, Request
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


HOUR_NS = 3600 * 10**9


def sleeps(tables: NetworkTables) -> bool:
    """Whether a worker would write the process's eventfd."""
    return bool(tables.shared.processes[tables.client, ProcessLine.SLEEPING])


def test_a_process_that_does_not_poll_announces_its_sleep_at_once() -> None:
    tables = new_tables()
    tables.words[Context.LAST_WORK_NS] = time.monotonic_ns()
    assert pump(tables.address) == 0
    assert sleeps(tables)
    words = tables.words
    assert not words[[Context.MORE, Context.LEFT, Context.POLLING, Context.STAT_POLLED_NS]].any()


def test_a_process_polls_until_its_time_after_the_last_work_is_over() -> None:
    tables = new_tables()
    words = tables.words
    words[Context.POLL_NS] = HOUR_NS
    words[Context.LAST_WORK_NS] = began = time.monotonic_ns()
    for _ in range(3):
        assert pump(tables.address) == 0
        assert (words[Context.MORE], words[Context.POLLING], words[Context.LEFT]) == (0, 1, 1)
        assert not sleeps(tables)
    passed = time.monotonic_ns() - began
    assert passed >= 3 * POLL_TURN_NS
    assert 0 < words[Context.STAT_POLLED_NS] <= passed  # it is CPU time
    words[Context.LAST_WORK_NS] -= 2 * HOUR_NS
    pump(tables.address)
    assert (words[Context.MORE], words[Context.POLLING]) == (0, 0)
    assert sleeps(tables)
    counted = words[Context.STAT_POLLED_NS]
    pump(tables.address)
    assert words[Context.STAT_POLLED_NS] == counted, "a sleeping process was counted as polling"


def test_a_block_for_control_is_left_to_python() -> None:
    tables = new_tables()
    tables.words[Context.LINK_USED] = 100
    assert pump(tables.address) == 0
    assert tables.words[Context.LEFT] == 1


def test_work_begins_the_time_of_polling_again() -> None:
    tables = new_tables()
    words = tables.words
    event_fd = int(words[Context.EVENT_FD])
    assert register(tables.address, event_fd, Epoll.IN | Epoll.ET, OWN_EVENT_FD) == 0
    words[Context.POLL_NS] = HOUR_NS
    pump(tables.address)
    assert sleeps(tables), "there was no work yet"
    began = time.monotonic_ns()
    os.eventfd_write(event_fd, 1)
    pump(tables.address)
    assert words[Context.LAST_WORK_NS] >= began
    assert words[Context.POLLING] == 1
    assert not sleeps(tables)


def test_an_event_for_python_ends_a_turn_of_polling() -> None:
    tables = new_tables()
    words, shared = tables.words, tables.shared
    words[Context.POLL_NS] = HOUR_NS
    entry = np.array([Completion.SLOT_ADVANCED, 0, 0, 0, 0, 3, 0, 0], np.int64)
    assert ring_push(shared.completion_ring(tables.client, 0), shared.sizes.ring_entries, entry)
    assert pump(tables.address) == 1
    assert tables.events[0, Event.KIND] == EventKind.ADVANCED
    assert words[Context.POLLING] == 1
    assert not sleeps(tables)
    if not PLAIN:  # a round of Python takes longer than a turn
        assert words[Context.NOW_NS] - words[Context.LAST_WORK_NS] < POLL_TURN_NS
