"""TLS alerts for refused handshakes: the client is sent OpenSSL's alert, so that its log says why.
And the contexts of sessions with such alerts.

When a handshake fails, an event loop's TLS drops OpenSSL's last output. Here it is kept on the
error, and sent over a second descriptor of the connection, which outlives the one that the loop
closes.
"""

import asyncio
import socket
import ssl
import time
from typing import Any

from kbroker.net.security.tls_turns import PacedSession

MAX_BYTES = 1 << 12
LINGER_S = 1.0
READ_BYTES = 1 << 14
MAX_READS = 64


class AlertSession(PacedSession):
    """A session whose failed handshake carries its alert."""

    def do_handshake(self) -> None:
        """Raises SSLError, with the alert as its attribute `alert`."""
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            error.alert = self.outgoing.read(MAX_BYTES)  # type: ignore[attr-defined]
            raise


class AlertContext(ssl.SSLContext):
    """A context of such sessions."""

    sslobject_class = AlertSession

    def wrap_bio(
        self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *args: Any, **kwargs: Any
    ) -> ssl.SSLObject:
        """As ssl.SSLContext's."""
        taken = ssl.MemoryBIO()
        session = super().wrap_bio(taken, outgoing, *args, **kwargs)
        assert isinstance(session, AlertSession)
        session.received, session.taken, session.outgoing = incoming, taken, outgoing
        return session


async def send_alert(client: socket.socket, error: BaseException) -> None:
    """Send a failed handshake's alert, then wait a little for the client to receive it: closing a
    connection with unread bytes resets it, and the alert is lost."""
    alert: bytes = getattr(error, "alert", b"")
    if not alert:
        return
    try:
        client.setblocking(False)
        client.send(alert)
        client.shutdown(socket.SHUT_WR)
        loop = asyncio.get_running_loop()
        deadline = time.monotonic() + LINGER_S
        for _ in range(MAX_READS):
            left = deadline - time.monotonic()
            if left <= 0 or not await asyncio.wait_for(loop.sock_recv(client, READ_BYTES), left):
                return
    except (OSError, TimeoutError):
        return
