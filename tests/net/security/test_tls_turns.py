"""Handshakes begin one in each turn of the loop, with the client's whole first message; long reads
continue in their turns."""

import asyncio
import random
import shutil
import socket
import ssl
import struct
import time
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest
import uvloop

from kbroker.config.tls_context import context_and_chains
from kbroker.net.security.tls_alert import AlertContext
from kbroker.net.security.tls_relay import relay
from kbroker.net.security.tls_turns import (
    MAX_UNSENT_BYTES,
    HandshakeTurns,
    PacedSession,
    ReadTurns,
    _readable,
)
from tests.net.security.key_updates import key_updates
from tests.net.security.tls_stores import config_of, put

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


# --- long reads --------------------------------------------------------------------------------------------

needs_openssl = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="no openssl to make certificates with"
)
SOCKET_READ = 256 << 10
"""Maximum bytes of one read of the socket."""


class Session:
    """Both sides of a session after its handshake, and the buffers between them. stops: the seconds
    until each stopped read may continue."""

    def __init__(self, folder: Path) -> None:
        context = context_and_chains(config_of(put(folder / "k.pem", "k")), "SSL", AlertContext)[0]
        trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        trusting.keylog_filename = str(folder / "keys")
        self.received, self.outgoing, back, self.sent = (ssl.MemoryBIO() for _ in range(4))
        self.client = trusting.wrap_bio(back, self.sent)
        made = context.wrap_bio(self.received, self.outgoing, server_side=True)
        assert isinstance(made, PacedSession)
        self.server, self.stops = made, list[float]()
        for _ in range(4):
            with suppress(ssl.SSLWantReadError):
                self.client.do_handshake()
            self.received.write(self.sent.read())
            with suppress(ssl.SSLWantReadError):
                self.server.do_handshake()
            back.write(self.outgoing.read())
        self.server.stopped = self.stops.append

    def turn(self) -> bytes:
        """What the server reads of what was received, as uvloop does."""
        parts = []
        with suppress(ssl.SSLWantReadError):
            while self.received.pending or self.server.pending():
                parts.append(self.server.read(SOCKET_READ))
        return b"".join(parts)


@needs_openssl
def test_a_read_of_very_many_records_stops_and_continues(tmp_path: Path) -> None:
    """In one piece, all of them take some 30 ms."""
    session = Session(tmp_path)
    text = random.Random(1).randbytes(20_000)
    for byte in text:
        session.client.write(bytes((byte,)))
    sent = session.sent.read()
    read, longest_ns, turns = b"", 0, 0
    for at in range(0, len(sent), SOCKET_READ):
        session.received.write(sent[at : at + SOCKET_READ])
        while session.received.pending:
            began_ns, turns = time.thread_time_ns(), turns + 1
            read += session.turn()
            longest_ns = max(longest_ns, time.thread_time_ns() - began_ns)
    assert read == text
    assert len(session.stops) > 5
    assert longest_ns < 10e6
    assert turns - len(session.stops) <= 2  # only a read that has stopped leaves something


@needs_openssl
def test_records_of_all_lengths_are_read_however_they_arrive(tmp_path: Path) -> None:
    session, chosen = Session(tmp_path), random.Random(2)
    read, text = b"", b""
    for _ in range(300):
        part = chosen.randbytes(chosen.choice((0, 1, 5, 100, 4073, 4096, 16_384, 50_000)))
        text += part
        if part:
            session.client.write(part)
        left = session.sent.read()
        while left:
            size = chosen.choice((1, 3, 4, 5, 6, 17, 4096, 20_000, 100_000))
            session.received.write(left[:size])
            left = left[size:]
            read += session.turn()
    while session.received.pending:
        read += session.turn()
    assert read == text


@needs_openssl
def test_a_client_that_changes_its_keys_again_and_again_has_few_answers(tmp_path: Path) -> None:
    """Each KeyUpdate asks for one in return, which the client does not read."""
    session = Session(tmp_path)
    session.received.write(b"".join(key_updates(session.client, tmp_path / "keys", 9000)))
    before, longest_ns = -1, 0
    while session.received.pending and before != session.received.pending:
        before, began_ns = session.received.pending, time.thread_time_ns()
        assert session.turn() == b""
        longest_ns = max(longest_ns, time.thread_time_ns() - began_ns)
    assert longest_ns < 10e6
    assert MAX_UNSENT_BYTES < session.outgoing.pending < 2 * MAX_UNSENT_BYTES
    assert session.stops[-1] > 0
    assert session.outgoing.read()
    assert session.turn() == b""
    assert session.received.pending < before  # it continues when the client reads


@needs_openssl
def test_a_relay_passes_on_all_records_of_a_client_that_leaves(tmp_path: Path) -> None:
    context = context_and_chains(config_of(put(tmp_path / "k.pem", "k")), "SSL", AlertContext)[0]
    text = random.Random(3).randbytes(30_000)

    def send(client: socket.socket) -> None:
        trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        with trusting.wrap_socket(client) as link:
            for byte in text:
                link.sendall(bytes((byte,)))
            link.sendall(text)
            link.recv(1)

    def received(inner: socket.socket) -> bytes:
        inner.sendall(b"x")
        with inner, inner.makefile("rb") as file:
            return file.read()

    async def run() -> bytes:
        client, served = pair()
        inner, ours = socket.socketpair()
        sending = asyncio.to_thread(send, client)
        receiving = asyncio.to_thread(received, inner)
        relaying = relay(served, ours, context, lambda _: True, print, HandshakeTurns())
        _, found, _ = await asyncio.wait_for(asyncio.gather(sending, receiving, relaying), 60)
        return found

    assert uvloop.run(run()) == 2 * text


def test_one_long_read_continues_in_each_turn_of_the_loop() -> None:
    async def scene() -> list[str]:
        turns, done = ReadTurns(), list[str]()
        for name in "ab":
            turns.put(lambda name=name: done.append(name))  # type: ignore[misc]
        for _ in range(3):
            done.append("turn")
            await asyncio.sleep(0)
        turns.put(lambda: done.append("c"))
        await asyncio.sleep(0)
        return done

    assert asyncio.run(scene()) == ["turn", "a", "turn", "b", "turn", "c"]
