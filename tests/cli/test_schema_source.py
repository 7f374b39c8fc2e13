"""The registry of `consume --registry`: its certificate, its login, its refusals."""

import json
import shutil
import socket
import ssl
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from kbroker.cli.console_link import SPEAKS_TLS
from kbroker.cli.failures import CommandFailed, Unreachable, UsageFailed
from kbroker.cli.schema_source import SchemaSource
from tests.certificates import certificate
from tests.cli.page_server import serving
from tests.foreign_listener import UID, listening, needs_root

SCHEMA = json.dumps({"schema": "1"}).encode()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to make certificates with")
def test_a_certificate_is_trusted_by_the_file_of_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate(tmp_path, "web", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "web.crt", tmp_path / "web.key")
    with serving(lambda _path: (200, SCHEMA), context) as url:
        with pytest.raises(UsageFailed, match=r"self.signed certificate; SSL_CERT_FILE=FILE names"):
            SchemaSource(url, 10).schema(1)
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "web.crt"))
        assert SchemaSource(url, 10).schema(1).text == "1"


def test_plain_http_to_a_port_with_tls_is_refused() -> None:
    with (
        serving(lambda _path: (400, SPEAKS_TLS + b"\r\n")) as url,
        pytest.raises(UsageFailed, match="this port speaks https: --registry https://HOST:PORT"),
    ):
        SchemaSource(url, 10).schema(1)


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b'{"message": "no such schema"}', "no such schema"),
        (b"<html>", "Not Found"),
        (b"[" * 50_000, "Not Found"),
    ],
    ids=["message", "page", "nested"],
)
def test_a_refusal_has_the_registrys_reason(body: bytes, shown: str) -> None:
    with (
        serving(lambda _path: (404, body)) as url,
        pytest.raises(CommandFailed, match=f"the registry answers 404 to /schemas/ids/1: {shown}"),
    ):
        SchemaSource(url, 10).schema(1)


REFERENCE = {"name": "n", "subject": "s", "version": 1}


@pytest.mark.parametrize(
    "answer",
    [
        {"schema": "1", "references": [{"subject": "s", "version": 1}]},
        {"schema": "1", "references": [REFERENCE | {"version": "latest"}]},
        {"schema": "1", "references": [REFERENCE | {"version": None}]},
        {"schema": "1", "references": ["n"]},
        {"schema": "1", "references": 1},
        {"schema": {"type": "int"}},
        {"schema": None},
        {"status": "UP"},
    ],
    ids=str,
)
def test_a_document_that_is_no_schema_is_blamed_on_the_registry(answer: object) -> None:
    with (
        serving(lambda _path: (200, json.dumps(answer).encode())) as url,
        pytest.raises(CommandFailed, match="/schemas/ids/1 is not a schema registry"),
    ):
        SchemaSource(url, 10).schema(1)


@pytest.mark.parametrize("body", [b"\xff", b"<html>", b"[" * 100_000, b"[]"], ids=len)
def test_a_body_that_is_no_document_is_blamed_on_the_registry(body: bytes) -> None:
    with (
        serving(lambda _path: (200, body)) as url,
        pytest.raises(CommandFailed, match="/schemas/ids/1 is not a schema registry"),
    ):
        SchemaSource(url, 10).schema(1)


def test_a_registry_that_sends_a_byte_at_a_time_is_left_after_the_timeout() -> None:
    over = threading.Event()

    class Trickle(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            with suppress(OSError):
                while not over.wait(0.02):
                    self.wfile.write(b" ")

        def log_message(self, *_arguments: object) -> None:
            """Quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Trickle) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        end = threading.Timer(5, over.set)
        end.start()
        try:
            with pytest.raises(Unreachable, match="does not answer: timed out"):
                SchemaSource(f"http://127.0.0.1:{server.server_port}", 0.3).schema(1)
            assert not over.is_set()
        finally:
            over.set()
            end.cancel()
            server.shutdown()


def test_a_registry_that_speaks_no_http_is_named_without_its_bytes() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"\x1b[31mred\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(Unreachable, match=r"does not answer: no HTTP is spoken there$"):
            SchemaSource(f"http://127.0.0.1:{server.getsockname()[1]}", 5).schema(1)
        thread.join()


def test_a_registry_that_does_not_answer_is_unreachable_in_plain_words() -> None:
    with pytest.raises(Unreachable, match=r"http://127.0.0.1:1 does not answer: Connection refused"):
        SchemaSource("http://127.0.0.1:1", 10).schema(1)


def test_a_proxy_of_the_environment_gets_no_login(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setattr(urllib.request, "_opener", None)  # made by an earlier request
    with serving(lambda _path: (200, SCHEMA)) as url:
        assert SchemaSource(url, 10).schema(1).text == "1"


@contextmanager
def redirecting(seen: list[tuple[str, str | None]]) -> Iterator[int]:
    """The port of a server that sends each schema to another path, and notes the logins."""

    class Pages(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append((self.path, self.headers.get("Authorization")))
            self.send_response(302 if self.path.startswith("/schemas") else 404)
            self.send_header("Location", "/other")
            self.end_headers()

        def log_message(self, *_arguments: object) -> None:
            """Quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield server.server_port
        finally:
            server.shutdown()


def test_a_login_is_not_sent_to_the_target_of_a_redirect() -> None:
    seen: list[tuple[str, str | None]] = []
    with redirecting(seen) as port, pytest.raises(CommandFailed, match="404"):
        SchemaSource(f"http://ann:secret@127.0.0.1:{port}", 10).schema(1)
    assert seen == [("/schemas/ids/1", "Basic YW5uOnNlY3JldA=="), ("/other", None)]


@needs_root
def test_a_login_is_not_sent_to_another_user_who_listens_there() -> None:
    with listening() as (port, received):
        with pytest.raises(CommandFailed, match=f"http://127.0.0.1:{port}: user {UID} listens"):
            SchemaSource(f"http://ann:secret@127.0.0.1:{port}", 10).schema(1)
        assert received() == b""
