"""Attacks on the HTTP ports over sockets: each request gets its own answer, and a body is never
taken for a request."""

import http.client
import io
import resource
import socket
import socketserver
import threading
import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from kbroker.http import connection
from kbroker.http.connection import HttpConnection
from kbroker.http.connection_slots import CONNECTIONS, FOR_PROBES
from kbroker.http.registry.server import Handler, RegistryServer
from kbroker.http.request_head import MAX_HEAD_BYTES, MAX_HEADERS
from kbroker.http.server import MetricsServer
from tests.http.console.served import Served
from tests.http.registry.desk import Desk

HIDDEN = b"GET /hidden HTTP/1.1\r\nHost: localhost\r\n\r\n"
END = b"GET /end HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
"""Of no server: 404. The connection closes."""
MANY = 1000


@dataclass
class Port:
    """A server; good: a path that is 200."""

    server: MetricsServer | RegistryServer
    good: str
    number: int

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.number), timeout=30)

    def answers(self, sent: bytes) -> list[int]:
        """The statuses of all answers until the server closes the connection."""
        with self.connect() as link:
            link.sendall(sent)
            found = b""
            while part := link.recv(65536):
                found += part
        return _statuses(found)

    def get(self, *headers: str, body: bytes = b"", method: str = "GET", path: str = "") -> bytes:
        lines = [f"{method} {path or self.good} HTTP/1.1", "Host: localhost", *headers, "", ""]
        return "\r\n".join(lines).encode("latin-1") + body


class _Bytes:
    """What http.client reads answers from."""

    def __init__(self, data: bytes) -> None:
        self.stream = io.BufferedReader(io.BytesIO(data))

    def makefile(self, _: str) -> "_Bytes":
        return self

    def __getattr__(self, name: str) -> object:
        return getattr(self.stream, name)

    def close(self) -> None:
        """The next answer is behind this one."""


def _statuses(data: bytes) -> list[int]:
    stream, found = _Bytes(data), []
    while stream.stream.peek(1):
        answer = http.client.HTTPResponse(stream)
        answer.begin()
        answer.read()
        found.append(answer.status)
    return found


@pytest.fixture(params=["metrics", "console", "registry"])
def port(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Port]:
    if request.param == "registry":
        listener = socket.create_server(("127.0.0.1", 0))
        server = RegistryServer(listener, Desk().registry)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield Port(server, "/subjects", listener.getsockname()[1])
        server.shutdown()
        thread.join()
        server.server_close()
        return
    served = Served(tmp_path)
    yield Port(served.server, "/healthz" if request.param == "metrics" else "/api/session", served.port)
    served.close()


def test_pipelined_requests_get_their_own_answers(port: Port) -> None:
    sent = port.get() + port.get(path="/none") + port.get("Content-Length: 0") + END
    assert port.answers(sent) == [200, 404, 200, 404]


def test_the_body_of_a_get_is_no_request(port: Port) -> None:
    for body in (HIDDEN, b"x", HIDDEN * 500):
        get = port.get(f"Content-Length: {len(body)}", body=body)
        assert port.answers(get + get + END) == [200, 200, 404]


@pytest.mark.parametrize("method", ["HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "ODD"])
def test_the_body_of_no_method_is_a_request(port: Port, method: str) -> None:
    if method == "HEAD":  # http.client does not know that the answer has no body
        with port.connect() as link:
            link.sendall(port.get(f"Content-Length: {len(HIDDEN)}", body=HIDDEN, method=method) + END)
            received = b"".join(iter(lambda: link.recv(65536), b""))
        assert received.count(b"HTTP/1.1 ") == 2
        return
    sent = port.get(f"Content-Length: {len(HIDDEN)}", body=HIDDEN, method=method, path="/none") + END
    found = port.answers(sent)
    assert len(found) in (1, 2)
    assert found[1:] in ([], [404])
    assert found[0] in (404, 405, 501)


def test_a_body_that_is_not_read_ends_the_connection(port: Port) -> None:
    """One that is too long, or in chunks."""
    length = 9 << 20
    for get in (
        port.get(f"Content-Length: {length}", body=HIDDEN),
        port.get(f"Content-Length: {10**40}", body=HIDDEN),
        port.get("Transfer-Encoding: chunked", body=b"0\r\n\r\n" + HIDDEN),
    ):
        with port.connect() as link:
            link.sendall(get)
            link.shutdown(socket.SHUT_WR)
            found = b"".join(iter(lambda: link.recv(65536), b""))
        assert _statuses(found)[0] in (200, 411, 413)
        assert len(_statuses(found)) == 1
        assert b"\r\nConnection: close\r\n" in found


@pytest.mark.parametrize(
    "header",
    ["Content-Length: 5\r\nContent-Length: 0", "Content-Length: 44\r\nTransfer-Encoding: chunked",
     "Content-Length: -1", "Content-Length: +44", "Content-Length: 0x2c", "Content-Length: 4_4",
     "Content-Length: \xb2", "Content-Length : 44", "X: a\r\n Content-Length: 44", "X: a\rContent-Length: 44",
     "X: a\0", "X: a\x85Content-Length: 44\r\nContent-Length: 1x", "Host: other"],
)  # fmt: skip
def test_a_malformed_head_is_refused_and_nothing_follows(port: Port, header: str) -> None:
    for method in ("GET", "POST", "DELETE"):
        assert port.answers(port.get(header, body=HIDDEN, method=method) + END) == [400]
        assert port.answers(port.get() + port.get(header, body=HIDDEN, method=method) + END) == [200, 400]


def test_separators_of_other_alphabets_do_not_split_a_header(port: Port) -> None:
    header = "X: a\x85Content-Length: 44\xa0\u00ff"
    assert port.answers(port.get(header) + END) == [200, 404]


def test_many_headers_and_long_ones_are_refused(port: Port) -> None:
    assert port.answers(port.get(*["X: a"] * (100 * MAX_HEADERS)) + END) == [431]
    assert port.answers(port.get("X: " + "a" * (16 * MAX_HEAD_BYTES)) + END) == [431]
    assert port.answers(port.get("X: " + "a" * (MAX_HEAD_BYTES // 2)) + END) == [200, 404]
    assert port.answers(b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n" + END) == [414]


def test_a_request_that_ends_early_is_not_answered(port: Port) -> None:
    whole = port.get("Content-Length: 4", body=b"body")
    for count in (5, 20, len(whole) - 6, len(whole) - 1):
        with port.connect() as link:
            link.sendall(port.get() + whole[:count])
            link.shutdown(socket.SHUT_WR)
            found = b"".join(iter(lambda: link.recv(65536), b""))
        assert _statuses(found) == [200]


def test_a_body_has_a_limited_time(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "BODY_S", 0.1)
    with port.connect() as link:
        link.sendall(port.get("Content-Length: 100", body=b"x", method="POST"))
        assert link.recv(1) == b""


def test_a_body_that_never_pauses_has_a_limited_time(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte each millisecond would hold the turn of 8 MiB for hours."""
    monkeypatch.setattr(connection, "BODY_S", 0.0)
    with port.connect() as link:
        link.sendall(port.get("Content-Length: 100", body=b"x" * 100, method="POST"))
        assert link.recv(1) == b""


def test_a_body_in_small_pieces_takes_no_more_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over TLS each piece may have two bytes: an object for each would take 60 times the body."""
    handler = object.__new__(Handler)
    link = SimpleNamespace(settimeout=lambda _: None, read1=lambda _: bytes(bytearray(2)))
    monkeypatch.setattr(handler, "connection", link, raising=False)
    monkeypatch.setattr(handler, "rfile", link, raising=False)
    tracemalloc.start()
    try:
        assert len(handler._received(100 * MANY)) == 100 * MANY
        assert tracemalloc.get_traced_memory()[1] < 400 * MANY
    finally:
        tracemalloc.stop()


def test_an_idle_connection_holds_no_body(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    """64 of them would hold half a gigabyte."""
    handlers: list[HttpConnection] = []

    def setup(handler: HttpConnection) -> None:
        handlers.append(handler)
        socketserver.StreamRequestHandler.setup(handler)

    monkeypatch.setattr(HttpConnection, "setup", setup)
    with port.connect() as link:
        link.sendall(port.get("Content-Length: 4", body=b"body"))
        assert link.recv(12) == b"HTTP/1.1 200"
        (handler,) = handlers
        deadline = time.monotonic() + 60
        while handler.body:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_requests_that_come_byte_by_byte_are_answered(port: Port) -> None:
    sent = port.get("Content-Length: 4", body=b"body") + END
    with port.connect() as link:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in sent:
            link.sendall(bytes([byte]))
        found = b"".join(iter(lambda: link.recv(65536), b""))
    assert _statuses(found) == [200, 404]


def test_a_client_that_waits_for_the_word_sends_its_body(port: Port) -> None:
    with port.connect() as link:
        link.sendall(port.get("Expect: 100-continue", "Content-Length: 4"))
        assert link.recv(100).startswith(b"HTTP/1.1 100 Continue\r\n\r\n")
        link.sendall(b"body" + END)
        found = b"".join(iter(lambda: link.recv(65536), b""))
    assert _statuses(found) == [200, 404]


@pytest.mark.parametrize("body", [False, True])
def test_half_requests_do_not_block_others(port: Port, body: bool) -> None:
    half = port.get("Content-Length: 100", method="POST") if body else port.get()[:-2]
    links = [port.connect() for _ in range(4 * CONNECTIONS)]
    for link in links:
        link.sendall(half)
    for _ in range(10):
        assert port.answers(port.get() + END) == [200, 404]
    for link in links:
        link.close()


def test_connections_that_are_kept_alive_are_bounded(port: Port) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    before = threading.active_count()
    links = []
    try:
        for _ in range(MANY):
            link = port.connect()
            links.append(link)
            link.sendall(port.get())
            assert link.recv(12) == b"HTTP/1.1 200"
        bound = CONNECTIONS + FOR_PROBES
        deadline = time.monotonic() + 60
        while threading.active_count() - before > bound:
            assert time.monotonic() < deadline, "threads of closed connections go on"
            time.sleep(0.01)
        assert port.answers(port.get() + END) == [200, 404]
    finally:
        for link in links:
            link.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
