"""TLS handshakes take turns, and so do long reads: a key exchange costs a millisecond, and
thousands of clients may connect at once; a client may send ten thousand records in a read of the
socket.

A handshake begins when the client's whole first message has arrived: the kernel wakes the loop no
earlier (SO_RCVLOWAT), so a client that sends it byte by byte costs nothing. One handshake begins in
each turn of the loop.

A session takes what was received piece by piece, some 2 KiB or a whole record. After READ_NS it
stops, and continues in its turn: in each turn of the loop one such session reads.
"""

import asyncio
import socket
import ssl
import struct
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

RECORD_HEAD: Final = 5
HANDSHAKE: Final = b"\x16\x03"
"""The first byte of a TLS client; OpenSSL refuses anything else at once."""
MAX_FIRST_BYTES: Final = 16 << 10
"""Maximum size of a first message that is awaited whole; OpenSSL reads a longer one in parts."""
_LENGTH: Final = struct.Struct(">H")
READ_NS: Final = 1_000_000
PIECE_BYTES: Final = 1 << 11
"""Maximum of bytes for one call of OpenSSL if records are short: 90 of one byte, or 75 KeyUpdates,
take two milliseconds."""
MAX_UNSENT_BYTES: Final = 1 << 16
"""Bytes for a client that it does not read: each KeyUpdate may ask for one in return."""
UNSENT_S: Final = 0.05
"""Time between two counts of such bytes."""


class ReadTurns:
    """Runs in: network. Owner: a HandshakeTurns."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()

    def put(self, read: Callable[[], None]) -> None:
        """Queue a read: it is called after those before it, in a later turn of the loop."""
        self._waiting.append(read)
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        self._waiting[0]()
        self._waiting.popleft()
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._next)


class HandshakeTurns:
    """Runs in: network. Owner: its TlsListeners. reads: the turns after the handshakes."""

    def __init__(self) -> None:
        self._turns = asyncio.Lock()
        self.reads = ReadTurns()

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


class PacedSession(ssl.SSLObject):
    """A server's session that reads in pieces.

    received, outgoing: the buffers of its event loop. taken: that of OpenSSL, which has the pieces.
    stopped: called when a read stops before the end of what was received, with the seconds until it
    may continue; None: it does not stop."""

    received: ssl.MemoryBIO
    outgoing: ssl.MemoryBIO
    taken: ssl.MemoryBIO
    stopped: Callable[[float], None] | None = None
    _ends_ns = 0
    _left = 0
    """Bytes that are to come of the record whose head has been taken."""
    _head = b""
    """The beginning of the head of a record."""

    def do_handshake(self) -> None:
        """Raises SSLError."""
        while True:
            try:
                return super().do_handshake()
            except ssl.SSLWantReadError:
                if not self.received.pending:
                    raise
                self._take()

    def read(self, len: int = 1024, buffer: Any = None) -> Any:  # noqa: A002  SSLObject's word
        """Raises SSLError: SSLWantReadError also in the middle of what was received."""
        while self._may_read():
            try:
                return super().read(len, buffer)
            except ssl.SSLWantReadError:
                if self.taken.pending or not self.received.pending:
                    self._ends_ns = 0
                    raise
        raise ssl.SSLWantReadError("the read continues in its turn")

    def pending(self) -> int:
        """Bytes that OpenSSL has not decrypted count, too: after 0 an event loop reads no more."""
        found = super().pending() + self.taken.pending
        if not found:
            self._ends_ns = 0
        return found

    def _may_read(self) -> bool:
        """Take the next piece when OpenSSL has read the last one; False when this read has taken
        too long."""
        if self.taken.pending or super().pending() or not self.received.pending:
            return True
        now_ns = time.monotonic_ns()
        is_full = self.outgoing.pending > MAX_UNSENT_BYTES
        if self.stopped is not None and (is_full or 0 < self._ends_ns < now_ns):
            self._ends_ns = 0
            self.stopped(UNSENT_S if is_full else 0)
            return False
        if not self._ends_ns:
            self._ends_ns = now_ns + READ_NS
        self._take()
        return True

    def _take(self) -> None:
        """Move a piece to OpenSSL, with the rest of its last record: a long one is decrypted as a
        whole."""
        piece = self.received.read(max(PIECE_BYTES, self._left))
        seen, at = self._head + piece, self._left
        while len(seen) - at >= RECORD_HEAD:
            at += RECORD_HEAD + _LENGTH.unpack_from(seen, at + 3)[0]
        rest = self.received.read(at - len(seen)) if at > len(seen) else b""
        self.taken.write(piece)
        self.taken.write(rest)
        self._left = max(0, at - len(seen) - len(rest))
        self._head = seen[at:]


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
