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
from kbroker.cli.listener_probe import SILENT, SPEAKS_HTTP, WANTS_LOGIN, WANTS_TLS, refusal

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
    ],
)
def test_a_listener_is_known_by_where_it_closes(scripts: tuple[list[bytes], ...], expected: str) -> None:
    with listener(*scripts) as (host, port):
        assert refusal(host, port, time.monotonic() + 30) == expected


def test_a_listener_that_never_answers_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener_probe, "HTTP_WITHIN_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert refusal("127.0.0.1", server.getsockname()[1], time.monotonic() + 0.01) == SILENT


class Quiet(BaseHTTPRequestHandler):
    """Answers HEAD as any method that it lacks: with an error."""

    def log_message(self, *_: object) -> None:
        """Not to stderr."""


def test_an_http_server_that_waits_for_the_rest_of_a_line_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """As kbroker's port for metrics and console does."""
    monkeypatch.setattr(listener_probe, "HTTP_WITHIN_S", 60)
    with ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            assert refusal("127.0.0.1", server.server_port, time.monotonic() + 0.01) == SPEAKS_HTTP
        finally:
            server.shutdown()
            thread.join()
