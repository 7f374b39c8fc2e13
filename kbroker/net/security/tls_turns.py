"""TLS handshakes take turns: a key exchange costs a millisecond, and thousands of clients may
connect at once.

A handshake begins when the client's whole first message has arrived: the kernel wakes the loop no
earlier (SO_RCVLOWAT), so a client that sends it byte by byte costs nothing. One handshake begins in
each turn of the loop.
"""

import asyncio
import socket
import struct
from typing import Final

RECORD_HEAD: Final = 5
HANDSHAKE: Final = b"\x16\x03"
"""The first byte of a TLS client; OpenSSL refuses anything else at once."""
MAX_FIRST_BYTES: Final = 16 << 10
"""Maximum size of a first message that is awaited whole; OpenSSL reads a longer one in parts."""
_LENGTH: Final = struct.Struct(">H")


class HandshakeTurns:
    """Runs in: network. Owner: its TlsListeners."""

    def __init__(self) -> None:
        self._turns = asyncio.Lock()

    async def begin(self, outer: socket.socket, seconds: float) -> None:
        """Wait for the client's first message, or its end, then for a turn. Raises TimeoutError,
        OSError."""
        try:
            async with asyncio.timeout(seconds):
                await _first_message(outer)
        except TimeoutError:
            raise TimeoutError(f"the client's first message took longer than {seconds:g} seconds") from None
        async with self._turns:
            await asyncio.sleep(0)


async def _first_message(outer: socket.socket) -> None:
    """Wait for a client's first message, or for its end. The message of most clients has arrived
    already: then nothing waits, and the loop gets no reader of this socket."""
    head = _peek(outer, RECORD_HEAD)
    if head is None or 0 < len(head) < RECORD_HEAD:
        await _received(outer, RECORD_HEAD)
        head = _peek(outer, RECORD_HEAD)
    if head is None or len(head) < RECORD_HEAD or not head.startswith(HANDSHAKE):
        return
    size = RECORD_HEAD + min(_LENGTH.unpack_from(head, 3)[0], MAX_FIRST_BYTES)
    if len(_peek(outer, size) or b"") < size:
        await _received(outer, size)


def _peek(outer: socket.socket, size: int) -> bytes | None:
    """Up to `size` bytes, which stay in the socket; empty at the client's end, None if nothing has
    arrived. Never waits, even if the socket blocks: `dup` of a Python socket without a timeout
    makes it block."""
    try:
        return outer.recv(size, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return None


async def _received(outer: socket.socket, size: int) -> None:
    """Wait until `size` bytes have arrived, or the client has ended."""
    outer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size)
    try:
        await _readable(outer)
    finally:
        outer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)


async def _readable(outer: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(outer, _wake, ready)
    try:
        await ready
    finally:
        loop.remove_reader(outer)


def _wake(ready: "asyncio.Future[None]") -> None:
    if not ready.done():
        ready.set_result(None)
