"""One connection of an HTTP server. Requests are served one after the other; each is read whole
before it is answered."""

import io
import logging
import time
from abc import abstractmethod
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any, ClassVar

from kbroker.http.request_head import BadHead, Head, read_head
from kbroker.http.tls import end_writing

log = logging.getLogger(__name__)

IDLE_S = 60.0
BODY_S = 30.0
"""Maximum time for a body to arrive: until then it takes memory, and may hold a turn."""
PIECE_BYTES = 1 << 16
LINGER_S = 2.0
MAX_LINGER_BYTES = 16 << 20
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class HttpConnection(BaseHTTPRequestHandler):
    """Runs in: http, each connection in a separate thread. The server has `slots`.

    body: the request's body; None if it is longer than MAX_BODY_BYTES, has no length, or is not
    admitted. Such a request ends its connection. probes_only: see ConnectionSlots."""

    protocol_version = "HTTP/1.1"
    default_request_version = "HTTP/1.1"
    server_version = "kbroker"
    sys_version = ""
    timeout: ClassVar[float] = IDLE_S
    MAX_BODY_BYTES: ClassVar[int]
    server: Any
    raw_requestline: bytes
    body: bytes | None = b""
    probes_only = False
    _is_cut = False
    _reads_body: bool | None = None
    _head = Head(b"", 0, False)

    def titled_headers(self) -> dict[str, str]:
        """The request's headers; names like Content-Length, however the client wrote them."""
        return {name.title(): value for name, value in self.headers.items()}

    @abstractmethod
    def refuse(self, status: HTTPStatus, text: str) -> None:
        """Answer an invalid request in the server's format; the connection closes."""

    def admits_body(self, length: int) -> bool:  # noqa: ARG002
        """Whether a body within the bound is read, once the head is known."""
        return True

    def request_ended(self) -> None:
        """Called when a request was answered, or its connection has ended."""

    def parse_request(self) -> bool:
        """Read one request; False when it gets no answer, or has it already. The connection is busy
        from the request's last byte until the answer is sent."""
        self.command, self.request_version = "", self.protocol_version
        self.requestline = self.raw_requestline[:200].decode("latin-1").rstrip("\r\n")
        self.close_connection = True
        if not self.raw_requestline.strip(b"\r\n"):
            return False
        try:
            head = read_head(self.raw_requestline, self.rfile)
        except BadHead as bad:
            self.send_error(bad.status, bad.text)
            return False
        if head is None:
            return False
        self._head, self._reads_body = head, None
        received, self.rfile = self.rfile, io.BufferedReader(io.BytesIO(head.data))
        try:
            whole = super().parse_request()
        finally:
            self.rfile = received
        if not (whole and self._read_body()):
            return False
        self.probes_only = self.server.slots.work(self.connection, busy=True)
        return True

    def finish(self) -> None:
        """Let the client read the last answer: closing a connection with unread bytes resets it."""
        super().finish()
        if not self._is_cut:
            return
        deadline, left = time.monotonic() + LINGER_S, MAX_LINGER_BYTES
        with suppress(OSError):
            end_writing(self.connection)
            while left > 0 and (wait_s := deadline - time.monotonic()) > 0:
                self.connection.settimeout(wait_s)
                received = len(self.connection.recv(65536))
                left = left - received if received else 0

    def handle_one_request(self) -> None:
        """The request is answered: the connection is idle, and holds no body."""
        try:
            super().handle_one_request()
        finally:
            self.body = b""
            self.request_ended()
        self.server.slots.work(self.connection, busy=False)

    def handle_expect_100(self) -> bool:
        """Ask the client to send the body, if it will be read."""
        if self._will_read_body():
            self.wfile.write(CONTINUE)
            self.wfile.flush()
        return True

    def end_headers(self) -> None:
        """Announce the end of the connection in its last answer."""
        if self.close_connection:
            self.send_header("Connection", "close")
        super().end_headers()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002
        """Answer a request that http.server refuses."""
        self.close_connection = self._is_cut = True
        self.refuse(HTTPStatus(code), message or HTTPStatus(code).phrase)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  http.server's word
        """No line for each request."""
        log.debug("%s " + format, self.client_address, *args)

    def _will_read_body(self) -> bool:
        if self._reads_body is None:
            is_bounded = not self._head.chunked and self._head.length <= self.MAX_BODY_BYTES
            self._reads_body = is_bounded and self.admits_body(self._head.length)
        return self._reads_body

    def _read_body(self) -> bool:
        """False if the connection ends within the body."""
        if not self._will_read_body():
            self.body = None
            self.close_connection = self._is_cut = True
            return True
        self.body = self._received(self._head.length)
        if len(self.body) < self._head.length:
            self.close_connection = True
            return False
        return True

    def _received(self, length: int) -> bytes:
        """The body; less of it if the connection ends before. Raises TimeoutError, also while bytes
        arrive. A piece may be one byte: pieces are not kept."""
        ends_s = time.monotonic() + BODY_S
        received = bytearray()
        while len(received) < length:
            if (left_s := ends_s - time.monotonic()) <= 0:
                raise TimeoutError(f"a body has not arrived in {BODY_S} s")
            self.connection.settimeout(left_s)
            piece = self.rfile.read1(min(length - len(received), PIECE_BYTES))
            if not piece:
                break
            received += piece
        self.connection.settimeout(self.timeout)
        return bytes(received)
