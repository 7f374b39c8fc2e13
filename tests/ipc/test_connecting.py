"""Links are made by what processes inherit; nobody else gets one."""

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
def ways() -> Iterator[connecting.Ways]:
    made = connecting.make()
    yield made
    made.close()


def test_a_process_gets_a_link_that_neither_end_shares(ways: connecting.Ways) -> None:
    assert connecting.accept(ways.listener) is None
    ours = connecting.connect(ways.connector)
    theirs = connecting.accept(ways.listener)
    assert theirs is not None
    ours.sendall(b"hello")
    assert theirs.recv(9) == b"hello"
    assert connecting.accept(ways.listener) is None
    theirs.close()
    assert ours.recv(1) == b""
    assert not os.get_inheritable(ours.fileno())
    ours.close()


def test_what_is_asked_while_control_is_away_waits_for_its_successor(ways: connecting.Ways) -> None:
    asked = [connecting.connect(ways.connector) for _ in range(5)]
    for number, link in enumerate(asked):
        link.sendall(bytes([number]))
    found = [connecting.accept(ways.listener) for _ in range(5)]
    assert [link.recv(1) for link in found if link is not None] == [bytes([n]) for n in range(5)]
    for each in (*asked, *found):
        assert each is not None
        each.close()


def test_a_link_is_abandoned_when_its_process_is_gone_whatever_it_sent(ways: connecting.Ways) -> None:
    ours = connecting.connect(ways.connector)
    ours.sendall(b"a request")
    theirs = connecting.accept(ways.listener)
    assert theirs is not None
    assert not connecting.is_abandoned(theirs)
    ours.close()
    assert connecting.is_abandoned(theirs)
    assert theirs.recv(9) == b"a request"
    theirs.close()


def test_when_nobody_takes_links_a_process_is_refused_and_not_held(ways: connecting.Ways) -> None:
    links: list[socket.socket] = []
    try:
        while len(links) < 100_000:
            links.append(connecting.connect(ways.connector))
    except OSError as error:
        refused = error
    assert refused.errno == errno.EAGAIN
    assert links
    for link in links:
        link.close()


def test_the_listener_ends_when_nobody_can_connect(ways: connecting.Ways) -> None:
    ways.connector.close()
    with pytest.raises(EOFError):
        connecting.accept(ways.listener)


def test_what_is_no_stream_is_refused_and_closed(ways: connecting.Ways) -> None:
    read, write = os.pipe()
    datagrams = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    before = open_files()
    for body, fds in (
        (b"link", [write]), (b"link", [datagrams[0].fileno()]), (b"link", []), (b"link", [write, write]),
        (b"?", [write]), (b"more than there is room for", [write]),
    ):  # fmt: skip
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        ways.connector.sendmsg([body], rights)
        with pytest.raises(OSError):
            connecting.accept(ways.listener)
    assert open_files() == before
    good = connecting.connect(ways.connector)
    taken = connecting.accept(ways.listener)
    assert taken is not None
    for end in (*datagrams, good, taken):
        end.close()
    for fd in (read, write):
        os.close(fd)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_stream_of_another_user_is_refused(ways: connecting.Ways) -> None:
    def connect() -> None:
        os.setresuid(SOMEBODY_ELSE, SOMEBODY_ELSE, SOMEBODY_ELSE)
        connecting.connect(ways.connector)

    with ForkedChild(connect) as child:
        assert child.wait() == 0
    with pytest.raises(PermissionError, match=f"user {SOMEBODY_ELSE}"):
        connecting.accept(ways.listener)
