"""Requests to the broker's HTTP port, for commands that show metrics."""

import http.client
from http import HTTPStatus
from urllib.parse import urlsplit

from kbroker.cli.failures import Unreachable, UsageFailed

HTTP_PORT = 9404
DEFAULT_URL = f"http://127.0.0.1:{HTTP_PORT}/"
MAX_BYTES = 64 << 20
PATIENCE_S = 10.0


def get(url: str, path: str) -> tuple[HTTPStatus | int, bytes]:
    """Status and body of one path. Raises Unreachable, UsageFailed."""
    try:
        connection = _connect(url)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read(MAX_BYTES)
        finally:
            connection.close()
    except UnicodeError:
        raise UsageFailed(f"--url {url}: not a valid host name") from None
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        what = "is the broker running, and is --url its kbroker.http.listen?"
        raise Unreachable(f"{url}: {reason}; {what}") from error


def _connect(url: str) -> http.client.HTTPConnection:
    """An HTTP connection; https is for a proxy in front of the broker."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname or "127.0.0.1", parts.port
    except ValueError as error:
        raise UsageFailed(f"--url {url}: {error}") from error
    if parts.scheme == "https":
        return http.client.HTTPSConnection(host, port, timeout=PATIENCE_S)
    if parts.scheme != "http":
        raise UsageFailed(f"--url {url}: expected http://HOST:PORT/ or https://HOST:PORT/")
    return http.client.HTTPConnection(host, port or HTTP_PORT, timeout=PATIENCE_S)
