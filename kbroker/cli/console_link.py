"""The HTTP side of a broker, for commands that show what it measures."""

import http.client
from http import HTTPStatus
from urllib.parse import urlsplit

from kbroker.cli.failures import Unreachable, UsageFailed

DEFAULT_URL = "http://127.0.0.1:9404/"
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
    except (OSError, http.client.HTTPException) as error:
        raise Unreachable(f"{url}: {error}") from error


def _connect(url: str) -> http.client.HTTPConnection:
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname or "127.0.0.1", parts.port or 9404
    except ValueError as error:
        raise UsageFailed(f"--url {url}: {error}") from error
    return http.client.HTTPConnection(host, port, timeout=PATIENCE_S)
