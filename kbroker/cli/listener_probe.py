"""Finds out why a listener does not answer a plaintext client.

A client library just retries until its timeout if a listener requires TLS or a login.
"""

import socket
import struct
import time
from contextlib import suppress

WANTS_TLS = (
    "closes the connection at the first request, as a TLS listener does: set security.protocol=SSL "
    "(--command-config FILE)"
)
WANTS_LOGIN = (
    "closes the connection without a login: set security.protocol=SASL_PLAINTEXT and sasl.* "
    "(--command-config FILE)"
)
SPEAKS_HTTP = "speaks HTTP: give the address of a listener, by default port 9092"
SILENT = "accepts connections and does not answer: is it a listener of a broker, and does the broker run?"
_HTTP = b"HTTP"
_TLS_ALERT = 0x15
_API_VERSIONS, _METADATA = 18, 3
_CLIENT = b"kbroker-cli"
HTTP_WITHIN_S = 2.0
TRIES = 2
"""A stopping broker also closes connections, but it refuses the next one."""


def refusal(host: str, port: int, deadline: float) -> str:
    """The reason why the listener serves no client in plain text; empty if it does, SILENT if it
    has not answered before the deadline (time.monotonic).

    Raises OSError if it does not accept connections.
    """
    found = ""
    for _ in range(TRIES):
        with socket.create_connection((host, port), max(deadline - time.monotonic(), 0.1)) as link:
            found = _refusal(link, deadline)
        if found not in (WANTS_TLS, WANTS_LOGIN):
            break
    return SPEAKS_HTTP if found == SILENT and _speaks_http(host, port) else found


def _speaks_http(host: str, port: int) -> bool:
    """Whether a listener that waits for more of the first request answers one of HTTP, as kbroker's
    own port for metrics does."""
    with suppress(OSError), socket.create_connection((host, port), HTTP_WITHIN_S) as link:
        link.sendall(b"HEAD / HTTP/1.0\r\n\r\n")
        return _receive(link, 4) == _HTTP
    return False


def _refusal(link: socket.socket, deadline: float) -> str:
    """The same for one connection."""
    metadata = struct.pack(">i?", 0, False)  # v4: asks for no topic and creates none
    for key, version, body, reason in (
        (_API_VERSIONS, 0, b"", WANTS_TLS),
        (_METADATA, 4, metadata, WANTS_LOGIN),
    ):
        header = struct.pack(">hhih", key, version, 0, len(_CLIENT)) + _CLIENT
        link.settimeout(max(deadline - time.monotonic(), 0.1))
        try:
            link.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
            size = _receive(link, 4)
            if len(size) < 4 or size[0] == _TLS_ALERT:
                return reason
            if size == _HTTP:
                return SPEAKS_HTTP
            _receive(link, struct.unpack(">i", size)[0])
        except TimeoutError:
            return SILENT
        except OSError:  # reset
            return reason
    return ""


def _receive(link: socket.socket, count: int) -> bytes:
    """`size` bytes, or fewer at the end of the stream."""
    data = b""
    while len(data) < count:
        part = link.recv(count - len(data))
        if not part:
            break
        data += part
    return data
