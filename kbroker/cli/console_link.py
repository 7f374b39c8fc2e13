"""Requests to the broker's HTTP port, for commands that show metrics or what the console shows."""

import http.client
import json
import os
import ssl
from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any, Self
from urllib.parse import unquote, urlsplit

import typer

from kbroker.cli import client_properties
from kbroker.cli.failures import CommandFailed, Unreachable, UsageFailed
from kbroker.config.client_network import is_this_host
from kbroker.config.http_login import LOGIN, basic, login_in, without_login
from kbroker.config.http_owner import NO_HTTP, NotTheBroker, OwnedConnection

HTTP_PORT = 9404
DEFAULT_URL = f"http://127.0.0.1:{HTTP_PORT}/"
MAX_BYTES = 64 << 20
PATIENCE_S = 10.0
BAD_LOGIN = "not a valid URL; in a password write / as %2F, ? as %3F and # as %23"
BUSY = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
"""Answers while there are too many logins or connections, and while the broker cannot check a
login."""
ODD_ANSWER = (LookupError, ValueError, TypeError, AttributeError, OverflowError)
"""Errors of a command that reads an answer which lacks something, or has something else there."""
AS_JSON = {"Content-Type": "application/json"}
SPEAKS_TLS = b"this port speaks https"
"""The answer of a port with kbroker.http.ssl.listener to plain HTTP."""
GIVE_LOGIN = f"give --command-config FILE with sasl.username and sasl.password, or set {LOGIN}=NAME:PASSWORD"

LoginFile = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        metavar="FILE",
        help="File with client settings; its user logs in to the broker's HTTP port.",
        show_default=f"{LOGIN}=NAME:PASSWORD of the environment",
    ),
]


class ConsoleLink:
    """The broker's HTTP port for one command, as a context: its session ends with it.

    file: client settings with the user that logs in. Without it: the user of the URL, or of the
    environment. Raises UsageFailed."""

    def __init__(self, url: str, file: Path | None = None) -> None:
        self.url = url
        self._login = _login_of(url, file)
        self._owners = () if file is None or self._login is None else (file.stat().st_uid,)
        self._session: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """Raises CommandFailed for what an answer of another form has caused."""
        if self._session:
            with suppress(CommandFailed):
                self._request("POST", "/api/logout", AS_JSON | self._basic | self._session, b"{}")
        if isinstance(error, ODD_ANSWER):
            why = f"{type(error).__name__}: {error}"
            text = f"{self.shown}: its answer is not that of this version of kbroker ({why})"
            raise CommandFailed(text) from error

    @property
    def shown(self) -> str:
        """The URL, for messages."""
        return without_login(self.url)

    @property
    def _basic(self) -> dict[str, str]:
        """HTTP's own login, which the console ignores and a proxy may require; none for a name that
        it cannot carry."""
        return {} if self._login is None or ":" in self._login[0] else basic(":".join(self._login))

    def get(self, path: str) -> tuple[HTTPStatus | int, bytes]:
        """Status and body of one path, with HTTP's own login. Raises Unreachable, UsageFailed."""
        if self._login and not self._basic:
            raise UsageFailed(f"user {self._login[0]!r}: HTTP Basic cannot carry a name with a colon")
        answer, body = self._request("GET", path, self._basic)
        return answer.status, body

    def get_json(self, path: str, member: str) -> Any:
        """An answer of the console's API. member: a name that it must have. Raises Unreachable
        (also while the broker starts), CommandFailed, UsageFailed."""
        code, data = self._api(path)
        if code == HTTPStatus.UNAUTHORIZED and self._login:
            self._log_in(*self._login)
            code, data = self._api(path)
        self._check(code, data)
        if member not in data:
            raise self._no_console()
        return data

    def not_logged_in(self, reason: str) -> CommandFailed:
        """The failure for an answer with 401. reason: the answer's text."""
        if self._login:
            return CommandFailed(f"{self.shown}: login of {self._login[0]!r}: {reason.strip()}")
        return CommandFailed(f"{self.shown}: a login is required: {GIVE_LOGIN}")

    def _log_in(self, user: str, password: str) -> None:
        body = json.dumps({"user": user, "password": password}).encode()
        answer, found = self._request("POST", "/api/login", AS_JSON | self._basic, body)
        data = self._parsed(answer, found)
        self._check(answer.status, data)
        cookie = (answer.getheader("Set-Cookie") or "").partition(";")[0]
        self._session = {"Cookie": cookie, "X-Csrf-Token": str(data.get("csrf", ""))}

    def _api(self, path: str) -> tuple[int, dict[str, Any]]:
        answer, body = self._request("GET", path, self._basic | self._session)
        return answer.status, self._parsed(answer, body)

    def _parsed(self, answer: http.client.HTTPResponse, body: bytes) -> dict[str, Any]:
        if answer.status == HTTPStatus.SERVICE_UNAVAILABLE and not body:  # there are too many connections
            raise Unreachable(f"{self.shown}: {HTTPStatus(answer.status).phrase}")
        try:
            data = json.loads(body)
        except (ValueError, RecursionError):
            data = None
        if not isinstance(data, dict):
            raise self._no_console()
        return data

    def _no_console(self) -> CommandFailed:
        return CommandFailed(f"{self.shown}: this is not the console of a kbroker")

    def _check(self, code: int, data: Mapping[str, Any]) -> None:
        if code == HTTPStatus.UNAUTHORIZED:
            raise self.not_logged_in(str(data.get("message")))
        if code in BUSY:
            raise Unreachable(f"{self.shown}: {data.get('message', 'not ready')}")
        if code != HTTPStatus.OK:
            raise CommandFailed(f"{self.shown}: {data.get('message', code)}")

    def _connection(self) -> http.client.HTTPConnection:
        """An HTTP connection; https is for kbroker.http.ssl.listener, or a proxy."""
        scheme, host, port = _target(self.url)
        if scheme == "https":
            return http.client.HTTPSConnection(host, port, timeout=PATIENCE_S)
        port = port or HTTP_PORT
        if self._login is None:
            return http.client.HTTPConnection(host, port, timeout=PATIENCE_S)
        return OwnedConnection(host, port, timeout=PATIENCE_S, owners=self._owners)

    def _request(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> tuple[http.client.HTTPResponse, bytes]:
        """The answer and its body. Raises Unreachable, UsageFailed."""
        try:
            connection = self._connection()
            try:
                origin = _origin(self.url) if method == "POST" else {}
                connection.request(method, path, body, {**origin, **headers})
                answer = connection.getresponse()
                content = answer.read(MAX_BYTES)
            finally:
                connection.close()
        except NotTheBroker as error:
            raise CommandFailed(f"{self.shown}: {error}") from None
        except UnicodeError:
            raise UsageFailed(f"--url {self.shown}: not a valid host name") from None
        except http.client.InvalidURL as error:
            raise UsageFailed(f"--url {self.shown}: {error}") from error
        except ssl.SSLCertVerificationError as error:
            why = error.verify_message or str(error)
            raise UsageFailed(
                f"{self.shown}: {why}; SSL_CERT_FILE=FILE names the certificates to trust"
            ) from error
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            reason = "no HTTP is spoken there" if type(error) in NO_HTTP else reason
            what = "is the broker running, and is --url its kbroker.http.listen?"
            raise Unreachable(f"{self.shown}: {reason}; {what}") from error
        if answer.status == HTTPStatus.BAD_REQUEST and content.rstrip() == SPEAKS_TLS:
            raise UsageFailed(f"{self.shown}: this port speaks https: --url https://HOST:PORT/")
        return answer, content


def _login_of(url: str, file: Path | None) -> tuple[str, str] | None:
    """Name and password, if there are any. Raises UsageFailed."""
    if file is None:
        return _login_of_url(url)
    settings = client_properties.read(file)
    if not settings.get("sasl.username"):
        raise UsageFailed(f"--command-config {file}: no sasl.username and sasl.password in this file")
    if "@" in url:
        raise UsageFailed("--url and --command-config name a user each: give one")
    protocol = settings.get("security.protocol", "")
    if protocol.upper().endswith("SSL") and _is_readable_on_the_way(url):
        raise UsageFailed(
            f"--url {url}: sends the password of a file with security.protocol={protocol} in the clear: "
            "--url https://HOST:PORT/"
        )
    return settings["sasl.username"], settings.get("sasl.password", "")


def _login_of_url(url: str) -> tuple[str, str] | None:
    """Name and password of the URL, in which the name may have a colon as %3A, or of the
    environment. Raises UsageFailed, which shows neither."""
    try:
        in_url = login_in(_whole(url))
    except ValueError:  # of the URL, which the first request refuses
        return None
    login = in_url or os.environ.get(LOGIN, "")
    name, colon, password = login.partition(":")
    if login and not colon:
        place = f"--url {without_login(url)}" if in_url else LOGIN
        raise UsageFailed(f"{place}: expected NAME:PASSWORD{' before the @' if in_url else ''}")
    if in_url:
        name, password = unquote(name), unquote(password)
    return (name, password) if login else None


def _is_readable_on_the_way(url: str) -> bool:
    """Whether requests leave this host without TLS."""
    try:
        parts = urlsplit(_whole(url))
        host = parts.hostname or "127.0.0.1"
    except ValueError:  # which the first request refuses
        return False
    return parts.scheme == "http" and not is_this_host(host)


def _origin(url: str) -> dict[str, str]:
    """The headers that a page of this server sends: the console refuses logins from other pages."""
    parts = urlsplit(_whole(url))
    host = parts.netloc.rpartition("@")[2]
    return {"Host": host, "Origin": f"{parts.scheme}://{host}"}


def _target(url: str) -> tuple[str, str, int | None]:
    """Scheme, host and port. Raises UsageFailed."""
    if not url.strip():
        raise UsageFailed("--url is empty; is a shell variable not set?")
    try:
        parts = urlsplit(_whole(url))
        host, port = parts.hostname or "127.0.0.1", parts.port
    except ValueError as error:
        why = BAD_LOGIN if "@" in url else error
        raise UsageFailed(f"--url {without_login(url)}: {why}") from error
    if parts.scheme not in ("http", "https"):
        raise UsageFailed(f"--url {without_login(url)}: expected http://HOST:PORT/ or https://HOST:PORT/")
    return parts.scheme, host, port


def _whole(url: str) -> str:
    return url if "://" in url else f"http://{url}"
