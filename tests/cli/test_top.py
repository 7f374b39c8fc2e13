"""`kbroker top` shows what the console's API says."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from kbroker.cli.app import run
from tests.cli.console_address import console
from tests.peer.kbroker_node import KBroker


@pytest.mark.compat
def test_one_look_shows_the_broker(broker: KBroker, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["top", "--once", "--url", console(broker)]) == 0
    shown = capsys.readouterr().out
    for text in ("ready", "records/s", "Log dirs", "Processes", "network-0", "io-0"):
        assert text in shown


@pytest.mark.compat
def test_one_look_as_json_is_a_sample(broker: KBroker, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["top", "--once", "--json", "--url", console(broker)]) == 0
    assert json.loads(capsys.readouterr().out)["ready"] is True


class AsksForALogin(BaseHTTPRequestHandler):
    """A console of which every page but the login is closed."""

    def do_GET(self) -> None:
        self.send_response(401)
        self.end_headers()
        self.wfile.write(b'{"error": "login", "message": "log in first"}')

    def log_message(self, *_arguments: object) -> None:
        """Quiet."""


def test_a_console_with_a_login_names_the_command_that_needs_none(capsys: pytest.CaptureFixture[str]) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), AsksForALogin) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        assert run(["top", "--once", "--url", f"http://127.0.0.1:{server.server_port}/"]) == 1
        server.shutdown()
    assert "`kbroker status` needs none" in capsys.readouterr().err


@pytest.mark.parametrize(("code", "body"), [(200, b"[]"), (200, b"{}"), (404, b"[1]"), (200, b"<html>")])
def test_another_server_is_no_console(code: int, body: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    class Another(AsksForALogin):
        def do_GET(self) -> None:
            self.send_response(code)
            self.end_headers()
            self.wfile.write(body)

    with ThreadingHTTPServer(("127.0.0.1", 0), Another) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        assert run(["top", "--once", "--url", f"http://127.0.0.1:{server.server_port}/"]) == 1
        server.shutdown()
    assert capsys.readouterr().err.endswith("/: this is no console of a kbroker\n")


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/", "http://127.0.0.1:none/", "http://[::1/"])
def test_a_missing_broker_is_reported_in_one_line(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["top", "--once", "--url", url]) != 0
    assert "127.0.0.1" in (said := capsys.readouterr().err) or "::1" in said
    assert "Traceback" not in said
