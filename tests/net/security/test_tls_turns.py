"""Handshakes begin one in each turn of the loop, with the client's whole first message."""

import asyncio
import socket
import struct
from itertools import pairwise

import pytest

from kbroker.net.security.tls_turns import HandshakeTurns, _readable

MESSAGE = b"\x16\x03\x01" + struct.pack(">H", 300) + bytes(300)


def pair() -> tuple[socket.socket, socket.socket]:
    """TCP: the kernel knows SO_RCVLOWAT of local sockets, too, but clients come by TCP."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        served, _ = server.accept()
    served.setblocking(False)
    return client, served


def test_it_waits_for_the_complete_first_message_and_leaves_it_there() -> None:
    async def scene() -> None:
        client, served = pair()
        begun = asyncio.create_task(HandshakeTurns().begin(served, 60))
        for at in range(len(MESSAGE) - 1):
            client.send(MESSAGE[at : at + 1])
            await asyncio.sleep(0.0005)
        assert not begun.done()
        client.send(MESSAGE[-1:])
        await begun
        assert served.recv(1000) == MESSAGE
        assert served.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT) == 1
        client.close()
        served.close()

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("first", "rest", "waits"), [(MESSAGE, b"", 0), (b"", MESSAGE, 1), (b"\x16\x03", b"", 1)]
)
def test_it_waits_only_for_bytes_that_are_not_there(
    monkeypatch: pytest.MonkeyPatch, first: bytes, rest: bytes, waits: int
) -> None:
    """Each wait is a reader of the loop, and a turn, though the socket itself is left in a mode in
    which a read of no bytes stops the loop. The last client ends within its message."""
    waited: list[socket.socket] = []

    async def readable(outer: socket.socket) -> None:
        waited.append(outer)
        await _readable(outer)

    async def scene() -> None:
        client, served = pair()
        served.setblocking(True)
        client.send(first)
        begun = asyncio.create_task(HandshakeTurns().begin(served, 60))
        await asyncio.sleep(0)
        client.send(rest)
        if first + rest != MESSAGE:
            client.shutdown(socket.SHUT_WR)
        await begun
        assert served.recv(1000) == first + rest
        client.close()
        served.close()

    monkeypatch.setattr("kbroker.net.security.tls_turns._readable", readable)
    asyncio.run(scene())
    assert len(waited) == waits


@pytest.mark.parametrize("sent", [b"", MESSAGE[:3], MESSAGE[:100]])
def test_a_client_that_leaves_or_stalls_does_not_delay_others(sent: bytes) -> None:
    async def scene() -> None:
        turns = HandshakeTurns()
        client, served = pair()
        client.send(sent)
        with pytest.raises(TimeoutError):
            await turns.begin(served, 0.05)
        client.close()
        await turns.begin(served, 60)
        served.close()

    asyncio.run(scene())


def test_bytes_that_are_no_tls_are_refused_without_a_wait() -> None:
    async def scene() -> None:
        client, served = pair()
        client.send(struct.pack(">ihh", 5000, 3, 9))
        await HandshakeTurns().begin(served, 60)
        assert served.recv(1000)
        client.close()
        served.close()

    asyncio.run(scene())


def test_one_begins_in_each_turn_of_the_loop() -> None:
    async def scene() -> None:
        turns = HandshakeTurns()
        pairs = [pair() for _ in range(50)]
        for client, _ in pairs:
            client.send(MESSAGE)
        tasks = [asyncio.create_task(turns.begin(served, 60)) for _, served in pairs]
        done = [0]
        while done[-1] < len(tasks):
            await asyncio.sleep(0)
            done.append(sum(task.done() for task in tasks))
        assert max(after - before for before, after in pairwise(done)) == 1
        for client, served in pairs:
            client.close()
            served.close()

    asyncio.run(scene())
