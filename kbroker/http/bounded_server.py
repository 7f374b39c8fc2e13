"""An HTTP server with a bounded number of connections, a thread for each."""

import logging
import socket
from contextlib import suppress
from http.server import ThreadingHTTPServer
from typing import ClassVar

from kbroker.http.connection import HttpConnection
from kbroker.http.connection_slots import ConnectionSlots
from kbroker.http.tls import HttpTls, end_writing, shake_hands

log = logging.getLogger(__name__)

RETRY_AFTER_S = 1
"""Retry-After of each 503: its request has waited for some seconds, or its connection may be closed
in favour of others."""
BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: %d\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
) % RETRY_AFTER_S


class BoundedServer(ThreadingHTTPServer):
    """Serves on a socket that already listens. Runs in: http.

    serves_probes: it accepts a few connections beyond the bound, only for health probes.
    """

    daemon_threads = True
    serves_probes: ClassVar[bool] = True

    def __init__(
        self, listener: socket.socket, handler: type[HttpConnection], tls: HttpTls | None = None
    ) -> None:
        super().__init__(("", 0), handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.server_address = listener.getsockname()
        self.slots = ConnectionSlots()
        self.tls = tls

    def get_request(self) -> tuple[socket.socket, tuple[str, int]]:
        """A new connection; its handshake is left to its thread. An IPv4 address has its own form
        on an IPv6 socket, too: ACLs, guesses and lines of the audit log name it so. Raises
        OSError."""
        connection, (host, port, *_) = super().get_request()
        client = host.removeprefix("::ffff:"), port
        return (connection if self.tls is None else self.tls.wrap(connection)), client

    def process_request(self, request: socket.socket, client_address: tuple[str, int]) -> None:  # type: ignore[override]
        """A thread for the connection, or 503 when there are too many at work. Over TLS such a
        connection ends without an answer: the answer would need a handshake, here in the thread
        that accepts."""
        slot = self.slots.take(request, client_address[0])
        if slot is None or (slot.probes_only and not self.serves_probes):
            request.setblocking(False)
            if self.tls is None:
                with suppress(OSError):
                    request.send(BUSY)
            self.slots.leave(request)
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: socket.socket, client_address: tuple[str, int]) -> None:  # type: ignore[override]
        """Body of the thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.slots.leave(request)

    def finish_request(self, request: socket.socket, client_address: tuple[str, int]) -> None:  # type: ignore[override]
        """The work of the thread."""
        shake_hands(request)
        super().finish_request(request, client_address)

    def shutdown_request(self, request: socket.socket) -> None:  # type: ignore[override]
        """The connection ends."""
        with suppress(OSError):
            end_writing(request)
        self.close_request(request)

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002
        """A client that disconnects is not logged."""
        log.debug("connection of %s failed", client_address, exc_info=True)
