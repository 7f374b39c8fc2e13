"""The small HTTP server: GET and HEAD of three paths, one thread a connection, keep-alive."""

import logging
import socket
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

from prometheus_client.exposition import choose_encoder

from kbroker.http.collector import BrokerCollector
from kbroker.http.health import Health

log = logging.getLogger(__name__)

CONNECTIONS = 64
IDLE_S = 60.0
TEXT = "text/plain; charset=utf-8"
INDEX = b"kbroker: /metrics /healthz /readyz\n"
BUSY = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class MetricsServer(ThreadingHTTPServer):
    """Serves on a socket that already listens. Runs in: http."""

    daemon_threads = True

    def __init__(self, listener: socket.socket, collector: BrokerCollector, health: Health) -> None:
        super().__init__(("", 0), Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.server_address = listener.getsockname()
        self.collector = collector
        self.health = health
        self._room = threading.BoundedSemaphore(CONNECTIONS)

    def process_request(self, request: socket.socket, client_address: tuple[str, int]) -> None:  # type: ignore[override]
        """A thread for the connection, or 503 when there are too many."""
        if not self._room.acquire(blocking=False):
            request.setblocking(False)
            try:
                request.send(BUSY)
            except OSError:
                log.debug("%s did not take the refusal", client_address)
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: socket.socket, client_address: tuple[str, int]) -> None:  # type: ignore[override]
        """Body of the thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002
        """A client that goes away is no news."""
        log.debug("connection of %s failed", client_address, exc_info=True)


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server_version = "kbroker"
    sys_version = ""
    timeout: ClassVar[float] = IDLE_S
    server: MetricsServer

    def do_GET(self) -> None:
        """/metrics, /healthz, /readyz; a word of help at /."""
        path = self.path.partition("?")[0]
        if path == "/metrics":
            self._metrics()
        elif path == "/healthz":
            self._verdict(self.server.health.not_alive())
        elif path == "/readyz":
            self._verdict(self.server.health.not_ready())
        elif path == "/":
            self._answer(HTTPStatus.OK, TEXT, INDEX)
        else:
            self._answer(HTTPStatus.NOT_FOUND, TEXT, INDEX)

    do_HEAD = do_GET  # noqa: N815

    def _metrics(self) -> None:
        encoder, content_type = choose_encoder(self.headers.get("Accept", ""))
        try:
            body = encoder(self.server.collector)
        except Exception:
            log.exception("a scrape failed")
            self._answer(HTTPStatus.INTERNAL_SERVER_ERROR, TEXT, b"the scrape failed, see the broker's log\n")
            return
        self._answer(HTTPStatus.OK, content_type, body)

    def _verdict(self, problems: list[str]) -> None:
        status = HTTPStatus.SERVICE_UNAVAILABLE if problems else HTTPStatus.OK
        text = "\n".join(problems) if problems else "ok"
        self._answer(status, TEXT, f"{text}\n".encode())

    def _answer(self, status: HTTPStatus, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  http.server's word
        """No line for each scrape."""
        log.debug("%s " + format, self.client_address, *args)
