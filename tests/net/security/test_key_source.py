"""Where keys of an issuer come from, and what is not taken from there."""

import http.server
import io
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kbroker.net.security import key_source
from kbroker.net.security.key_source import MAX_KEY_BYTES, read_keys
from tests.certificates import certificate


class Issuer(http.server.BaseHTTPRequestHandler):
    """/keys: some bytes; /large: more than is taken; /to?URL: a redirect."""

    def do_GET(self) -> None:
        path, _, target = self.path.partition("?")
        if path == "/to":
            self.send_response(302)
            self.send_header("Location", target)
            self.end_headers()
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}" if path == "/keys" else b" " * (MAX_KEY_BYTES + 1))

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def issuer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An https address whose certificate is trusted here."""
    certificate(tmp_path, "issuer", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "issuer.crt"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "issuer.crt", tmp_path / "issuer.key")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Issuer) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"https://localhost:{server.server_port}"
        server.shutdown()


def test_keys_come_by_https_and_by_redirects_of_the_same_host(issuer: str) -> None:
    assert read_keys(f"{issuer}/keys") == b"{}"
    assert read_keys(f"{issuer}/to?/keys") == b"{}"


@pytest.mark.parametrize(
    "target",
    [
        "http://localhost:{port}/keys",
        "https://127.0.0.1:{port}/keys",
        "https://localhost:1/keys",
        "file:///etc/hosts",
    ],
)
def test_no_redirect_leads_elsewhere(issuer: str, target: str) -> None:
    port = issuer.rpartition(":")[2]
    with pytest.raises(OSError, match=r"refused|not allowed"):
        read_keys(f"{issuer}/to?{target.format(port=port)}")


def test_an_answer_without_end_is_not_read_to_its_end(issuer: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="more than 1048576 bytes"):
        read_keys(f"{issuer}/large")
    (tmp_path / "keys").write_bytes(b" " * (MAX_KEY_BYTES + 1))
    with pytest.raises(ValueError, match="more than"):
        read_keys(f"file://{tmp_path}/keys")
    (tmp_path / "keys").write_bytes(b"{}")
    assert read_keys(f"file://{tmp_path}/keys") == b"{}"


def test_keys_of_the_largest_size_are_read(tmp_path: Path) -> None:
    (tmp_path / "keys").write_bytes(b" " * MAX_KEY_BYTES)
    assert len(read_keys(f"file://{tmp_path}/keys")) == MAX_KEY_BYTES


def test_an_answer_that_comes_just_in_time_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter([0.0, key_source.FETCH_S])
    monkeypatch.setattr("time.monotonic", lambda: next(ticks))
    assert key_source._bounded(io.BytesIO(b"{}")) == b"{}"


def test_an_answer_that_drips_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter([0.0, key_source.FETCH_S + 1])
    monkeypatch.setattr("time.monotonic", lambda: next(ticks))
    with pytest.raises(TimeoutError):
        key_source._bounded(io.BytesIO(b"{}"))


def test_other_schemes_are_not_read() -> None:
    with pytest.raises(ValueError, match="is needed"):
        read_keys("http://localhost/keys")
