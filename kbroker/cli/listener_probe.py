"""Finds out why a listener does not answer a plaintext client.

A client library just retries until its timeout if a listener requires TLS or a login.
"""

import socket
import struct
import time
from contextlib import suppress

FILE_OPTION = "--command-config"
WANTS_TLS = (
    "closes the connection at the first request, as a TLS listener does: set security.protocol=SSL "
    f"({FILE_OPTION} FILE)"
)
WANTS_LOGIN = (
    "closes the connection without a login: set security.protocol=SASL_PLAINTEXT and sasl.* "
    f"({FILE_OPTION} FILE)"
)
SPEAKS_HTTP = "speaks HTTP: give the address of a listener, by default port 9092"
NO_BROKER = "does not speak Kafka's protocol: give the address of a listener, by default port 9092"
SILENT = "accepts connections and does not answer: is it a listener of a broker, and does the broker run?"
_HTTP = b"HTTP"
_TLS_ALERT = 0x15
_API_VERSIONS, _METADATA = 18, 3
_CLIENT = b"kbroker-cli"
MAX_ANSWER = 1 << 20
"""Bytes; that of the largest cluster is far smaller. The first bytes of another protocol are mostly
read as a larger size."""
HTTP_AFTER_S = 2.0
"""Time without an answer after which the probe sends a request of HTTP; at most half of the time
that is left."""
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
    return found


def _answers_http_only(link: socket.socket, deadline: float) -> bool:
    """Whether a listener that is silent, because it waits for more of the first request, answers
    one of HTTP, as kbroker's own port for metrics does. Leaves half of the time for an answer to
    the first."""
    try:
        link.settimeout(min(HTTP_AFTER_S, _left_s(deadline) / 2))
        link.recv(1, socket.MSG_PEEK)
        return False
    except TimeoutError:
        return _speaks_http(link.getpeername()[:2], deadline - _left_s(deadline) / 2)


def _speaks_http(address: tuple[str, int], deadline: float) -> bool:
    with suppress(OSError), socket.create_connection(address, _left_s(deadline)) as link:
        link.sendall(b"HEAD / HTTP/1.0\r\n\r\n")
        return _receive(link, 4, deadline) == _HTTP
    return False


def _refusal(link: socket.socket, deadline: float) -> str:
    """The reason for which a listener refuses one plaintext connection; empty if it does not."""
    metadata = struct.pack(">i?", 0, False)  # v4: asks for no topic and creates none
    for key, version, body, reason in (
        (_API_VERSIONS, 0, b"", WANTS_TLS),
        (_METADATA, 4, metadata, WANTS_LOGIN),
    ):
        header = struct.pack(">hhih", key, version, 0, len(_CLIENT)) + _CLIENT
        try:
            link.settimeout(_left_s(deadline))
            link.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
            if key == _API_VERSIONS and _answers_http_only(link, deadline):
                return SPEAKS_HTTP
            size = _receive(link, 4, deadline)
            if len(size) < 4 or size[0] == _TLS_ALERT:
                return reason
            if size == _HTTP:
                return SPEAKS_HTTP
            (length,) = struct.unpack(">i", size)
            if not 0 <= length <= MAX_ANSWER:
                return NO_BROKER
            _receive(link, length, deadline)
        except TimeoutError:
            return SILENT
        except OSError:  # reset
            return reason
    return ""


def _left_s(deadline: float) -> float:
    """Seconds until the deadline. Raises TimeoutError after it."""
    left_s = deadline - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s


def _receive(link: socket.socket, count: int, deadline: float) -> bytes:
    """`count` bytes, or fewer at the end of the stream. Raises TimeoutError at the deadline."""
    data = b""
    while len(data) < count:
        link.settimeout(_left_s(deadline))
        part = link.recv(count - len(data))
        if not part:
            break
        data += part
    return data
