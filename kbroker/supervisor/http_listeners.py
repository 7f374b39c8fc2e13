"""Listening sockets of the http process; the parent holds them, so they survive a restart of that
process."""

import errno
import logging
import os
import socket

from kbroker.config.broker import BrokerConfig
from kbroker.http.console.listener import Access, listener_of
from kbroker.net.accept.listening import NO_NAME

HTTP_LISTEN = "kbroker.http.listen"
REGISTRY_LISTEN = "kbroker.schema.registry.listen"

log = logging.getLogger(__name__)


class HttpListeners:
    """Runs in: acceptor. Owner: the supervisor.

    metrics: the socket for metrics, probes and console. registry: of the schema registry. None: not
    open, or the setting is empty.
    """

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self.metrics: socket.socket | None = None
        self.registry: socket.socket | None = None

    def open(self) -> None:
        """Listen on the addresses of both settings. If the default address of the metrics is in
        use, a free port replaces it. Raises OSError that names the setting."""
        if not self._is_set(HTTP_LISTEN):
            self.metrics = listen_or_fall_back(self._address(HTTP_LISTEN))
        self.open_required()

    def open_required(self) -> None:
        """Listen on the addresses that no other can replace: all that are configured. Raises
        OSError that names the setting."""
        if self._is_set(HTTP_LISTEN):
            self.metrics = listen(self._address(HTTP_LISTEN), HTTP_LISTEN)
        self.registry = listen(self._address(REGISTRY_LISTEN), REGISTRY_LISTEN)

    def sockets(self) -> list[socket.socket]:
        """The open sockets."""
        return [each for each in (self.metrics, self.registry) if each is not None]

    def close(self) -> None:
        """Release the addresses."""
        for each in self.sockets():
            each.close()

    def addresses(self) -> str:
        """The log line's addresses when the broker is ready: the metrics, the console if it is
        served, and the registry. Empty without metrics."""
        if self.metrics is None:
            return ""
        tls = bool(self._config.get_str("kbroker.http.ssl.listener"))
        metrics = url(self.metrics, tls)
        found = [f"metrics={metrics}/metrics"]
        if self._config.get_bool("kbroker.console.enable") and self._serves("the console", self.metrics):
            found.append(f"console={metrics}/")
        if self.registry is not None and self._serves("the schema registry", self.registry):
            found.append(f"registry={url(self.registry, tls)}")
        return " ".join(found)

    def _serves(self, name: str, listening: socket.socket) -> bool:
        """Whether the http process can be a client of a listener; else the reason is logged."""
        found = listener_of(listening.getsockname()[0], self._config)
        if found.access is Access.CLOSED:
            log.warning("%s is not served: %s", name, found.why)
        return found.access is not Access.CLOSED

    def _is_set(self, setting: str) -> bool:
        return setting in self._config.static

    def _address(self, setting: str) -> str:
        return self._config.get_optional_str(setting) or ""


def listen_or_fall_back(address: str) -> socket.socket | None:
    """As ``listen``, for a default address: if its port is in use, for instance by another broker
    of this host, a free port is used."""
    try:
        return listen(address)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        found = listen(f"{address.rpartition(':')[0]}:0")
        assert found is not None
        log.warning("%s; metrics are at %s/metrics instead", error.strerror, url(found))
        return found


def listen(address: str, setting: str = HTTP_LISTEN) -> socket.socket | None:
    """Listen on an address of a setting: host:port, [address]:port, :port, or nothing for no
    socket.

    OSError names the setting.
    """
    if not address:
        return None
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    try:
        (family, kind, protocol, _, where), *_ = socket.getaddrinfo(
            host or None, int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(where)
        listening.listen(128)
    except UnicodeError as error:  # of a name such as a..b
        raise OSError(errno.EINVAL, f"{setting}={address}: {NO_NAME}") from error
    except OSError as error:
        why = error.strerror if isinstance(error, socket.gaierror) else os.strerror(error.errno or 0)
        raise OSError(error.errno, f"{setting}={address}: {why}") from error
    return listening


def url(listening: socket.socket, tls: bool = False) -> str:
    """The URL for a client on this host, without a path."""
    host, port = listening.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    scheme = "https" if tls else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
