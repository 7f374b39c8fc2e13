"""The small HTTP server: metrics, probes and the console, one thread a connection, keep-alive."""

import gzip
import logging
import socket
from collections.abc import Mapping
from http import HTTPStatus
from urllib.parse import parse_qs

from prometheus_client.exposition import choose_encoder

from kbroker.config.client_network import is_loopback
from kbroker.http.basic_logins import CHALLENGE, BasicLogins, NotLoggedIn
from kbroker.http.bounded_server import BoundedServer
from kbroker.http.collector import BrokerCollector
from kbroker.http.connection import HttpConnection
from kbroker.http.console import browser_headers
from kbroker.http.console.service import BODY_BYTES, Console
from kbroker.http.families import Dialect
from kbroker.http.health import Health
from kbroker.http.tls import HttpTls

log = logging.getLogger(__name__)

PACK_LEVEL = 1
PROBES = ("/healthz", "/readyz")
TEXT = "text/plain; charset=utf-8"
WRONG_NAMES = f"names: expected one of {', '.join(Dialect)}\n".encode()
INDEX = b"kbroker: /metrics /healthz /readyz\nthe page about them: kbroker docs observe\n"
CONSOLE = b"the console: / (its API: /api/openapi.json); its page: kbroker docs console\n"
NO_CONSOLE = b"the console is not served here; kbroker docs console says why\n"


class MetricsServer(BoundedServer):
    """Serves on a socket that already listens. Runs in: http. logins: of /metrics, None for
    everyone."""

    def __init__(
        self,
        listener: socket.socket,
        collector: BrokerCollector,
        health: Health,
        console: Console | None = None,
        tls: HttpTls | None = None,
        logins: BasicLogins | None = None,
    ) -> None:
        super().__init__(listener, Handler, tls)
        self.collector = collector
        self.health = health
        self.console = console
        self.logins = logins


class Handler(HttpConnection):
    """One connection."""

    MAX_BODY_BYTES = BODY_BYTES
    server: MetricsServer

    def do_GET(self) -> None:  # noqa: N802  http.server's word
        """Serves /metrics, /healthz and /readyz. Other paths go to the console; without it / lists
        the paths."""
        path = self.path.partition("?")[0]
        if self.probes_only and path not in PROBES:
            self._turn_away()
        elif path == "/metrics" and self._is_foreign():
            self._answer(HTTPStatus.FORBIDDEN, TEXT, f"{browser_headers.FOREIGN}\n".encode())
        elif path == "/metrics":
            self._metrics()
        elif path == "/healthz":
            self._send_health(self.server.health.not_alive())
        elif path == "/readyz":
            self._send_health(self.server.health.not_ready())
        elif self._is_console(path):
            self._console()
        elif path == "/":
            self._answer(HTTPStatus.OK, TEXT, self._index())
        else:
            self._answer(HTTPStatus.NOT_FOUND, TEXT, self._index())

    do_HEAD = do_GET  # noqa: N815

    def do_POST(self) -> None:  # noqa: N802  http.server's word
        """Serves changes and logins of the console."""
        self.close_connection = True
        if self.probes_only:
            self._turn_away()
        elif self._is_console(self.path.partition("?")[0]):
            self._console()
        else:
            self._answer(HTTPStatus.NOT_IMPLEMENTED, TEXT, self._index())

    do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_TRACE = do_QUERY = do_POST  # noqa: N815  refused as the API does

    def _is_foreign(self) -> bool:
        return browser_headers.is_foreign(
            self.titled_headers(), is_loopback(str(self.server.server_address[0]))
        )

    def _turn_away(self) -> None:
        self.close_connection = True
        self._answer(HTTPStatus.SERVICE_UNAVAILABLE, TEXT, b"too many connections are at work\n")

    def _index(self) -> bytes:
        """The paths of this port."""
        return INDEX + (NO_CONSOLE if self.server.console is None else CONSOLE)

    def _is_console(self, path: str) -> bool:
        console = self.server.console
        return console is not None and console.serves(path)

    def _console(self) -> None:
        console = self.server.console
        assert console is not None
        peer = self.client_address[0]
        reply = console.answer(self.command, self.path, self.titled_headers(), self.body, peer)
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        if reply.stream is None:
            if reply.status is not HTTPStatus.NOT_MODIFIED:
                self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(reply.body)
            return
        self.close_connection = True
        console.stream(self.connection, reply.stream, self.end_headers)

    def _is_logged_in(self) -> bool:
        """Whether the client may read the metrics; else it is answered."""
        if self.server.logins is None:
            return True
        try:
            self.server.logins.caller(self.headers.get("Authorization", ""), str(self.client_address[0]))
        except NotLoggedIn as refusal:
            asks = refusal.status is HTTPStatus.UNAUTHORIZED
            more = {"WWW-Authenticate": CHALLENGE} if asks else {}
            self._answer(refusal.status, TEXT, f"{refusal.text}\n".encode(), more)
            return False
        return True

    def _metrics(self) -> None:
        if not self._is_logged_in():
            return
        collector = self.server.collector
        began_s = collector.now_s()
        content_type = _content_type(self.headers.get("Accept", ""))
        packed = "gzip" in self.headers.get("Accept-Encoding", "")
        query = parse_qs(self.path.partition("?")[2])
        try:
            dialect = Dialect(query.get("names", [Dialect.ALL])[-1])
        except ValueError:
            self._answer(HTTPStatus.BAD_REQUEST, TEXT, WRONG_NAMES)
            return
        try:
            openmetrics = content_type.startswith("application/openmetrics")
            body = collector.text(openmetrics, query.get("name[]", []), dialect)
        except Exception:
            log.exception("a scrape failed")
            self._answer(HTTPStatus.INTERNAL_SERVER_ERROR, TEXT, b"the scrape failed, see the broker's log\n")
            return
        if packed:
            body = gzip.compress(body, PACK_LEVEL)
        collector.scraped(began_s)
        self._answer(HTTPStatus.OK, content_type, body, {"Content-Encoding": "gzip"} if packed else {})

    def refuse(self, status: HTTPStatus, text: str) -> None:
        """Answer in one line."""
        self._answer(status, TEXT, f"{text}\n".encode())

    def _send_health(self, problems: list[str]) -> None:
        status = HTTPStatus.SERVICE_UNAVAILABLE if problems else HTTPStatus.OK
        text = "\n".join(problems) if problems else "ok"
        self._answer(status, TEXT, f"{text}\n".encode())

    def _answer(
        self, status: HTTPStatus, content_type: str, body: bytes, more: Mapping[str, str] | None = None
    ) -> None:
        self.send_response(status)
        for name, value in (more or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Type", content_type)
        self.send_header("X-Content-Type-Options", "nosniff")  # clients choose names in the metrics
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _content_type(accept: str) -> str:
    """The format of the metrics that a client accepts, the plain one for an odd version."""
    try:
        return str(choose_encoder(accept)[1])
    except (TypeError, ValueError):
        return str(choose_encoder("")[1])
