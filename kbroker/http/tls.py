"""TLS of the http port and the registry: the settings of a listener's name, handshakes in the
thread of each connection."""

import logging
import socket
import ssl
from contextlib import suppress
from typing import Final

from kbroker.config.broker import BrokerConfig
from kbroker.config.tls_context import ListenerContext, TlsError

log = logging.getLogger(__name__)

LISTENER: Final = "kbroker.http.ssl.listener"
HANDSHAKE_S: Final = 10.0
PLAIN: Final = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 24\r\nConnection: close\r\n\r\n"
    b"this port speaks https\r\n"
)
"""Sent to a client that speaks plain HTTP."""


class HttpTls:
    """Runs in: http. Owner: the process's main. Thread-safe. Clients need no certificate, so that
    probes and scrapers need none."""

    def __init__(self, config: BrokerConfig, listener: str) -> None:
        """Raises TlsError."""
        self._current = ListenerContext(config, listener, asks_clients=False)

    @classmethod
    def of(cls, config: BrokerConfig) -> "HttpTls | None":
        """TLS as the settings configure it; None for plain HTTP. Raises TlsError."""
        listener = config.get_str(LISTENER)
        return cls(config, listener) if listener else None

    def reload_changed(self) -> None:
        """Load a replaced store: new connections use the renewed certificate. A store that cannot
        be used, or has a certificate for other names, changes nothing."""
        if not self._current.replaced():
            return
        try:
            self._current.renew()
        except TlsError as error:
            log.warning("the http port keeps its key store: %s", error)
            return
        log.info("the http port has reloaded its changed key store")

    def wrap(self, connection: socket.socket) -> ssl.SSLSocket:
        """A new connection, before its handshake. Raises OSError."""
        connection.settimeout(HANDSHAKE_S)
        try:
            return self._current.context.wrap_socket(
                connection, server_side=True, do_handshake_on_connect=False
            )
        except (OSError, ValueError) as error:
            connection.close()
            raise OSError(f"no TLS on this connection: {error}") from error


def shake_hands(connection: socket.socket) -> None:
    """The handshake of a new connection, within HANDSHAKE_S; nothing without TLS. Raises
    OSError."""
    if not isinstance(connection, ssl.SSLSocket):
        return
    try:
        connection.do_handshake()
    except ssl.SSLError as error:
        if error.reason == "HTTP_REQUEST":
            with suppress(OSError):
                socket.socket.send(connection, PLAIN)
        raise


def cut(connection: socket.socket) -> None:
    """End a connection that another thread may be using. SSLSocket.shutdown would first remove the
    encryption, and the other thread could send its next bytes in clear."""
    with suppress(OSError):
        if isinstance(connection, ssl.SSLSocket):
            socket.socket.shutdown(connection, socket.SHUT_RDWR)
        else:
            connection.shutdown(socket.SHUT_RDWR)


def end_writing(connection: socket.socket) -> None:
    """Send the client the end of the connection, over TLS with an alert that says so. Never waits.
    Raises OSError."""
    if isinstance(connection, ssl.SSLSocket):
        connection.setblocking(False)
        with suppress(OSError, ValueError):
            connection.unwrap()
    connection.shutdown(socket.SHUT_WR)
