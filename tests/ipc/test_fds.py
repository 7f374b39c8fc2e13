"""Messages to the acceptor: taken, not taken now, or never; connections on their way from it."""

import asyncio
import os
import resource
import socket

import pytest

from kbroker.ipc import fds
from kbroker.net.accept.acceptor_updates import until_sent


def test_ids_that_do_not_fit_now_are_sent_later() -> None:
    acceptor, network = fds.pair()
    ids = list(range(10_000_000 // 8))
    sent = fds.send_closed(network, ids)
    assert 0 < sent < len(ids)
    assert not fds.send_settings(network, {"max.connections": "1"})
    assert fds.receive_closed(acceptor) == ids[: fds.IDS_PER_MESSAGE]
    acceptor.close()
    network.close()


def test_an_acceptor_that_has_gone_is_no_broken_pipe() -> None:
    acceptor, network = fds.pair()
    acceptor.close()
    for send in (
        lambda: fds.send_closed(network, [1]),
        lambda: fds.send_rates(network, {}, True),
        lambda: fds.send_settings(network, {}),
    ):
        with pytest.raises(EOFError):
            send()
    asyncio.run(until_sent(lambda: fds.send_settings(network, {})))
    network.close()


def test_no_connection_comes_from_an_acceptor_that_died_with_unread_messages() -> None:
    """The kernel then returns ECONNRESET to the reader."""
    acceptor, network = fds.pair()
    assert fds.send_closed(network, [1]) == 1
    acceptor.close()
    with pytest.raises(EOFError):
        fds.receive_connections(network)
    network.close()


def test_unread_messages_do_not_make_its_end_another_error() -> None:
    acceptor, network = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    network.send(b"unread")
    assert fds.send_closed(network, [1]) == 1
    acceptor.close()
    with pytest.raises(EOFError):
        fds.send_closed(network, [2])
    network.close()


def test_a_connection_without_a_descriptor_is_named() -> None:
    acceptor, network = fds.pair()
    read, write = os.pipe()
    came = [fds.Accepted(number, 0, "127.0.0.1", 1000 + number) for number in range(3)]
    assert fds.send_connections(acceptor, [(read, came[0]), (write, came[1]), (read, came[2])])
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    spare = os.dup(read)
    os.close(spare)  # the next descriptor: the first and no other may be opened
    resource.setrlimit(resource.RLIMIT_NOFILE, (spare + 1, before[1]))
    try:
        got = fds.receive_connections(network)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert got == [(came[0], spare), (came[1], fds.LOST), (came[2], fds.LOST)]
    assert fds.receive_connections(network) == []
    for fd in (read, write, spare):
        os.close(fd)
    acceptor.close()
    with pytest.raises(EOFError):
        fds.receive_connections(network)
    network.close()
