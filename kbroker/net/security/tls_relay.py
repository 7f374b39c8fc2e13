"""TLS relays: each TLS connection gets an inner socket that carries the plain bytes, so that the
kernels work unchanged.

The kernels receive from and send to the inner end, as with any client. A relay on the loop of the
network process moves bytes between its other end and the client through OpenSSL. This costs copies
that plain listeners do not have: sendfile by itself cannot send bytes of a file. Bytes flow as fast
as the slower side takes them.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Any, cast

from kbroker.net.security.tls_alert import send_alert
from kbroker.net.security.tls_turns import HandshakeTurns, PacedSession, ReadTurns

log = logging.getLogger(__name__)

HANDSHAKE_SECONDS = 30.0
GONE = (ConnectionResetError, BrokenPipeError)
"""A client that disconnects before the end of its handshake, such as a port scan, is not a failed
login."""
CALLBACK_FAILED = "CALLBACK_FAILED"
"""OpenSSL's reason when Python cannot pass a server name to the listener's callback, which itself
never fails."""
Authenticated = Callable[[ssl.SSLObject], bool]
HandshakeFailed = Callable[[str], None]


class RelayEnd(asyncio.Protocol):
    """One side: what it receives is written to the other. reads: the turns of a client's long
    reads."""

    def __init__(self, reads: ReadTurns | None = None) -> None:
        self.other: RelayEnd
        self.transport: asyncio.Transport | None = None
        self._reads = reads
        self._stopped = self._held = False
        self.ended = asyncio.Event()
        self._early = bytearray()  # received before the other side was set

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport, and write the bytes that the other side has received so far."""
        self.transport = cast(asyncio.Transport, transport)
        early, self.other._early = self.other._early, bytearray()
        if early:
            self.transport.write(bytes(early))
        session = transport.get_extra_info("ssl_object") if self._reads is not None else None
        if isinstance(session, PacedSession):
            session.stopped = self._stop
            # what a stopped read has left is read before more bytes, or the end, of the client
            cast(Any, transport).set_read_buffer_limits(1, 0)

    def _stop(self, seconds: float) -> None:
        """A long read of this client has stopped, and continues in its turn."""
        if self._stopped:
            return
        self._stopped = True
        if seconds:
            asyncio.get_running_loop().call_later(seconds, self._read_on)
        elif self._reads is not None:
            self._reads.put(self._read_on)

    def _read_on(self) -> None:
        self._stopped = False
        if self.transport is not None and not self._held:
            self.transport.pause_reading()
            self.transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        """Write the bytes to the other side."""
        if self.other.transport is not None:
            self.other.transport.write(data)
        elif not self.other.ended.is_set():
            self._early += data

    def pause_writing(self) -> None:
        """This side's buffer is full: stop reading from the other."""
        self.other._held = True
        if self.other.transport is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        """Resume reading from the other side."""
        self.other._held = False
        if self.other.transport is not None and not self.other.transport.is_closing():
            self.other.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the other side, too, after its unwritten bytes."""
        self.transport = None
        self.ended.set()
        if self.other.transport is not None:
            self.other.end(exc is None)

    def end(self, regular: bool) -> None:
        """The other side has ended. If it has closed regularly, a side that can be closed by halves
        gets all of its bytes, then their end, as from a plain client: of a socket without another
        end the broker does not read the rest, which may be requests with acks=0."""
        assert self.transport is not None
        if not regular or self.transport.is_closing() or not self.transport.can_write_eof():
            self.transport.close()
            return
        self.transport.resume_reading()  # the answers go nowhere
        self.transport.write_eof()


def reason_of(error: Exception) -> str:
    """The reason why a handshake failed, without OpenSSL's file names and line numbers."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"TLS handshake failed: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason == CALLBACK_FAILED:
        return "TLS handshake failed: the server name (SNI) is not ASCII"
    if isinstance(error, ssl.SSLError) and error.reason:
        return f"TLS handshake failed: {error.reason.lower().replace('_', ' ')}"
    return f"TLS handshake failed: {error}"


def _second(outer: socket.socket) -> socket.socket | None:
    """A second descriptor of a client, for an alert; None while none is free: the client is served
    without it."""
    try:
        return outer.dup()
    except OSError:
        return None


async def relay(
    outer: socket.socket,
    inner: socket.socket,
    context: ssl.SSLContext,
    authenticated: Authenticated,
    failed: HandshakeFailed,
    turns: HandshakeTurns,
) -> None:
    """Shake hands with the client in its turn, then let bytes flow until both sides have ended.

    authenticated: called after the handshake, before the first byte; False ends the connection.
    failed: called with the reason when either side has refused the handshake, or it took too long.
    The relay takes over both sockets, which are closed when it ends.
    """
    loop = asyncio.get_running_loop()
    client, broker = RelayEnd(turns.reads), RelayEnd()
    client.other, broker.other = broker, client
    alerted = _second(outer)
    try:
        await turns.begin(outer, HANDSHAKE_SECONDS)
        outside, _ = await loop.connect_accepted_socket(
            lambda: client, outer, ssl=context, ssl_handshake_timeout=HANDSHAKE_SECONDS
        )
    except (OSError, TimeoutError) as error:
        log.debug("a TLS handshake failed: %s", error)
        if not isinstance(error, GONE):
            failed(reason_of(error))
        outer.close()
        inner.close()
        if alerted is not None:
            await send_alert(alerted, error)
        return
    finally:
        if alerted is not None:
            alerted.close()
    if not authenticated(outside.get_extra_info("ssl_object")):
        outside.close()
        inner.close()
        await client.ended.wait()
        return
    await loop.create_connection(lambda: broker, sock=inner)
    if client.ended.is_set():
        broker.end(regular=True)
    await client.ended.wait()
    await broker.ended.wait()
