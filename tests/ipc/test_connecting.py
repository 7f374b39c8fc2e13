"""Links are made by what processes inherit; no other process gets one."""

import array
import errno
import os
import socket
from collections.abc import Iterator

import pytest

from kbroker.ipc import connecting
from tests.descriptors import open_files
from tests.forked_child import ForkedChild

SOMEBODY_ELSE = 54321


@pytest.fixture
def sockets() -> Iterator[connecting.ControlSockets]:
    made = connecting.make()
    yield made
    made.close()


def test_a_process_gets_a_link_that_neither_end_shares(sockets: connecting.ControlSockets) -> None:
    assert connecting.accept(sockets.listener) is None
    ours = connecting.connect(sockets.connector)
    theirs = connecting.accept(sockets.listener)
    assert theirs is not None
    ours.sendall(b"hello")
    assert theirs.recv(9) == b"hello"
    assert connecting.accept(sockets.listener) is None
    theirs.close()
    assert ours.recv(1) == b""
    assert not os.get_inheritable(ours.fileno())
    ours.close()


def test_a_request_during_a_restart_of_control_waits_for_its_successor(
    sockets: connecting.ControlSockets,
) -> None:
    requested = [connecting.connect(sockets.connector) for _ in range(5)]
    for number, link in enumerate(requested):
        link.sendall(bytes([number]))
    found = [connecting.accept(sockets.listener) for _ in range(5)]
    assert [link.recv(1) for link in found if link is not None] == [bytes([n]) for n in range(5)]
    for each in (*requested, *found):
        assert each is not None
        each.close()


def test_a_link_is_abandoned_when_its_process_is_gone_whatever_it_sent(
    sockets: connecting.ControlSockets,
) -> None:
    ours = connecting.connect(sockets.connector)
    ours.sendall(b"a request")
    theirs = connecting.accept(sockets.listener)
    assert theirs is not None
    assert not connecting.is_abandoned(theirs)
    ours.close()
    assert connecting.is_abandoned(theirs)
    assert theirs.recv(9) == b"a request"
    theirs.close()


def test_a_process_is_refused_and_not_blocked_when_no_link_is_accepted(
    sockets: connecting.ControlSockets,
) -> None:
    links: list[socket.socket] = []
    try:
        while len(links) < 100_000:
            links.append(connecting.connect(sockets.connector))
    except OSError as error:
        refused = error
    assert refused.errno == errno.EAGAIN
    assert links
    for link in links:
        link.close()


def test_the_listener_ends_when_no_client_can_connect(sockets: connecting.ControlSockets) -> None:
    sockets.connector.close()
    with pytest.raises(EOFError):
        connecting.accept(sockets.listener)


def test_a_descriptor_that_is_no_stream_is_refused_and_closed(sockets: connecting.ControlSockets) -> None:
    read, write = os.pipe()
    datagrams = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    before = open_files()
    for body, fds in (
        (b"link", [write]), (b"link", [datagrams[0].fileno()]), (b"link", []), (b"link", [write, write]),
        (b"?", [write]), (b"more than there is room for", [write]),
    ):  # fmt: skip
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        sockets.connector.sendmsg([body], rights)
        with pytest.raises(OSError):
            connecting.accept(sockets.listener)
    assert open_files() == before
    good = connecting.connect(sockets.connector)
    taken = connecting.accept(sockets.listener)
    assert taken is not None
    for end in (*datagrams, good, taken):
        end.close()
    for fd in (read, write):
        os.close(fd)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_stream_of_another_user_is_refused(sockets: connecting.ControlSockets) -> None:
    def connect() -> None:
        os.setresuid(SOMEBODY_ELSE, SOMEBODY_ELSE, SOMEBODY_ELSE)
        connecting.connect(sockets.connector)

    with ForkedChild(connect) as child:
        assert child.wait() == 0
    with pytest.raises(PermissionError, match=f"user {SOMEBODY_ELSE}"):
        connecting.accept(sockets.listener)
