"""The listening socket of the http process: the parent's, so that it outlives a restart of that process."""

import os
import socket


def listen(address: str) -> socket.socket | None:
    """Listen on the setting kbroker.http.listen: host:port, [address]:port, :port, or nothing for no socket.

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
        raise OSError(f"kbroker.http.listen={address}: {why}") from error
    return listening


def shown(listening: socket.socket) -> str:
    """URL of the metrics, as a client on this host would say it."""
    host, port = listening.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}/metrics" if ":" in host else f"http://{host}:{port}/metrics"
