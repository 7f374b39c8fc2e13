"""Listening sockets of the http process; the parent holds them, so they survive a restart of that
process."""

import errno
import logging
import os
import socket

from kbroker.config.broker import BrokerConfig
from kbroker.http.console.listener import Access, listener_of

HTTP_LISTEN = "kbroker.http.listen"
REGISTRY_LISTEN = "kbroker.schema.registry.listen"

log = logging.getLogger(__name__)


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
        log.warning("%s; metrics are at %s instead", error.strerror, shown(found))
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
    except OSError as error:
        why = error.strerror if isinstance(error, socket.gaierror) else os.strerror(error.errno or 0)
        raise OSError(error.errno, f"{setting}={address}: {why}") from error
    return listening


def shown(listening: socket.socket) -> str:
    """URL of the metrics for a client on this host."""
    host, port = listening.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}/metrics" if ":" in host else f"http://{host}:{port}/metrics"


def addresses(listening: socket.socket, config: BrokerConfig) -> str:
    """The log line's addresses when the broker is ready: the metrics, and the console if it is
    served."""
    metrics = shown(listening)
    if not config.get_bool("kbroker.console.enable"):
        return f"metrics={metrics}"
    if listener_of(listening.getsockname()[0], config).access is Access.CLOSED:
        return f"metrics={metrics}"
    return f"metrics={metrics} console={metrics.removesuffix('metrics')}"
