"""Requests to the broker's HTTP port, for commands that show metrics or what the console shows."""

import http.client
import json
import ssl
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from kbroker.cli.failures import CommandFailed, Unreachable, UsageFailed
from kbroker.config.http_login import login_header, without_login

HTTP_PORT = 9404
DEFAULT_URL = f"http://127.0.0.1:{HTTP_PORT}/"
MAX_BYTES = 64 << 20
PATIENCE_S = 10.0
BAD_LOGIN = "not a valid URL; in a password write / as %2F, ? as %3F and # as %23"
SPEAKS_TLS = b"this port speaks https"
"""The answer of a port with kbroker.http.ssl.listener to plain HTTP."""


def get(url: str, path: str) -> tuple[HTTPStatus | int, bytes]:
    """Status and body of one path. Raises Unreachable, UsageFailed."""
    try:
        connection = _connect(url)
        try:
            connection.request("GET", path, headers=login_header(_whole(url)))
            answer = connection.getresponse()
            body = answer.read(MAX_BYTES)
        finally:
            connection.close()
    except UnicodeError:
        raise UsageFailed(f"--url {without_login(url)}: not a valid host name") from None
    except ssl.SSLCertVerificationError as error:
        why = error.verify_message or str(error)
        raise UsageFailed(
            f"{without_login(url)}: {why}; SSL_CERT_FILE=FILE names the certificates to trust"
        ) from error
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        what = "is the broker running, and is --url its kbroker.http.listen?"
        raise Unreachable(f"{without_login(url)}: {reason}; {what}") from error
    if answer.status == HTTPStatus.BAD_REQUEST and body.rstrip() == SPEAKS_TLS:
        raise UsageFailed(f"{without_login(url)}: this port speaks https: --url https://HOST:PORT/")
    return answer.status, body


def get_json(url: str, path: str, member: str) -> Any:
    """An answer of the console's API. member: one that it has. Raises Unreachable (also while the
    broker starts), CommandFailed, UsageFailed."""
    code, body = get(url, path)
    try:
        data = json.loads(body)
    except ValueError:
        data = None
    if not isinstance(data, dict) or (code == HTTPStatus.OK and member not in data):
        raise CommandFailed(f"{without_login(url)}: this is not the console of a kbroker")
    if code == HTTPStatus.UNAUTHORIZED:
        raise CommandFailed(
            f"{without_login(url)}: this console requires a login, which the command does not support; "
            "`kbroker status` needs none"
        )
    if code == HTTPStatus.SERVICE_UNAVAILABLE:
        raise Unreachable(f"{without_login(url)}: {data.get('message', 'not ready')}")
    if code != HTTPStatus.OK:
        raise CommandFailed(f"{without_login(url)}: {data.get('message', code)}")
    return data


def _connect(url: str) -> http.client.HTTPConnection:
    """An HTTP connection; https is for kbroker.http.ssl.listener, or a proxy."""
    if not url.strip():
        raise UsageFailed("--url is empty; is a shell variable not set?")
    try:
        parts = urlsplit(_whole(url))
        host, port = parts.hostname or "127.0.0.1", parts.port
    except ValueError as error:
        why = BAD_LOGIN if "@" in url else error
        raise UsageFailed(f"--url {without_login(url)}: {why}") from error
    if parts.scheme == "https":
        return http.client.HTTPSConnection(host, port, timeout=PATIENCE_S)
    if parts.scheme != "http":
        raise UsageFailed(f"--url {without_login(url)}: expected http://HOST:PORT/ or https://HOST:PORT/")
    return http.client.HTTPConnection(host, port or HTTP_PORT, timeout=PATIENCE_S)


def _whole(url: str) -> str:
    return url if "://" in url else f"http://{url}"
