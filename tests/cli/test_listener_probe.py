"""A listener that closes the first connection only is one that starts again, not one that wants
TLS."""

import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from kbroker.cli import listener_probe
from kbroker.cli.listener_probe import (
    MAX_ANSWER,
    NO_BROKER,
    SILENT,
    SPEAKS_HTTP,
    WANTS_LOGIN,
    WANTS_TLS,
    refusal,
)

ANSWER = struct.pack(">i4s", 4, b"body")
ALERT = bytes([21, 3, 3, 0, 2, 2, 10])


@contextmanager
def listener(*scripts: list[bytes]) -> Iterator[tuple[str, int]]:
    """Gives each connection its answers, one for each request, and closes it then."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            for script in scripts:
                link, _ = server.accept()
                with link:
                    for answer in script:
                        link.recv(1 << 16)
                        link.sendall(answer)
                    if len(script) < 2:
                        with suppress(ConnectionResetError):  # it left something unread
                            link.recv(1 << 16)

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()
        thread.join()


@pytest.mark.parametrize(
    ("scripts", "expected"),
    [
        (([ANSWER, ANSWER],), ""),
        (([], []), WANTS_TLS),
        (([ALERT], [ALERT]), WANTS_TLS),
        (([ANSWER], [ANSWER]), WANTS_LOGIN),
        (([], [ANSWER, ANSWER]), ""),
        (([b"HTTP/1.1 400 Bad Request\r\n\r\n"],), SPEAKS_HTTP),
        (([b"SSH-2.0-server\r\n"],), NO_BROKER),
        (([struct.pack(">i", -1)],), NO_BROKER),
        (([ANSWER, struct.pack(">i", MAX_ANSWER + 1)],), NO_BROKER),
    ],
)
def test_a_listener_is_known_by_where_it_closes(scripts: tuple[list[bytes], ...], expected: str) -> None:
    with listener(*scripts) as (host, port):
        assert refusal(host, port, time.monotonic() + 30) == expected


def test_a_listener_that_never_answers_is_silent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert refusal("127.0.0.1", server.getsockname()[1], time.monotonic() + 2) == SILENT


class Clock:
    """The time of SilentLink, which passes only while it waits."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s


class SilentLink:
    """A connection to a listener that sends `content`, a byte in a second, and then nothing."""

    def __init__(self, clock: Clock, timeout_s: float, content: bytes = b"") -> None:
        self.clock = clock
        self.timeout_s = timeout_s
        self.content = content

    def __enter__(self) -> "SilentLink":
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def settimeout(self, seconds: float) -> None:
        self.timeout_s = seconds

    def getpeername(self) -> tuple[str, int]:
        return "192.0.2.1", 9404

    def sendall(self, data: bytes) -> None:
        """It is dropped."""

    def recv(self, count: int, flags: int = 0) -> bytes:
        waits_s = min(self.timeout_s, 1.0) if self.content else self.timeout_s
        self.clock.now_s += waits_s
        if not self.content or waits_s < 1.0:
            raise TimeoutError
        part = self.content[:1]
        self.content = self.content if flags & socket.MSG_PEEK else self.content[1:]
        return part


@pytest.mark.parametrize("content", [b"", b"H", b"\0\0\0\x40" + bytes(30)])
@pytest.mark.parametrize("timeout_s", [0.3, 3.0, 15.0])
def test_a_probe_ends_at_the_deadline(
    monkeypatch: pytest.MonkeyPatch, content: bytes, timeout_s: float
) -> None:
    clock = Clock()
    monkeypatch.setattr(listener_probe, "time", clock)
    monkeypatch.setattr(socket, "create_connection", lambda _, seconds: SilentLink(clock, seconds, content))
    deadline = clock.now_s + timeout_s
    assert refusal("192.0.2.1", 9404, deadline) == SILENT
    assert clock.now_s == pytest.approx(deadline)


class Quiet(BaseHTTPRequestHandler):
    """Answers HEAD as any method that it lacks: with an error."""

    def log_message(self, *_: object) -> None:
        """Not to stderr."""


def test_an_http_server_that_waits_for_the_rest_of_a_line_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """As kbroker's port for metrics and console does."""
    monkeypatch.setattr(listener_probe, "HTTP_AFTER_S", 0.01)
    with ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            assert refusal("127.0.0.1", server.server_port, time.monotonic() + 120) == SPEAKS_HTTP
        finally:
            server.shutdown()
            thread.join()
