"""Commands log in to a console that requires it, with a user of a file, of the URL or of the
environment."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from kbroker.cli.console_link import ConsoleLink
from kbroker.config.http_login import LOGIN
from tests.cli.conftest import Shell
from tests.cli.console_address import console
from tests.conftest import BrokerFactory

PASSWORD = 's "e:cr@t'
COMMANDS = [("clients", "list", "--json"), ("top", "--once", "--json")]
SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    "kbroker.http.listen": "0.0.0.0:0",  # there a console needs a login
    "kbroker.metrics.login": "true",
}


class Console(ThreadingHTTPServer):
    """A console that requires a login. Sessions end by a logout, and when the test clears them."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Pages)
        self.sessions: dict[str, str] = {}
        self.logins = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"


class Pages(BaseHTTPRequestHandler):
    server: Console

    def do_GET(self) -> None:
        if self.headers["Cookie"] in self.server.sessions:
            self.answer(200, {"sample": {}, "clients": [], "left_out": 0})
        else:
            self.answer(401, {"error": "login", "message": "log in first"})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert self.headers["Origin"] == f"http://{self.headers['Host']}" == self.server.url[:-1]
        assert self.headers["Content-Type"] == "application/json"
        if self.path == "/api/logout":
            assert self.server.sessions.pop(self.headers["Cookie"]) == self.headers["X-CSRF-Token"]
            self.answer(200, {})
        elif body == {"user": "ann", "password": PASSWORD}:
            self.server.logins += 1
            cookie = f"kbroker_session={self.server.logins}"
            self.server.sessions[cookie] = "token"
            self.answer(200, {"csrf": "token"}, f"{cookie}; Path=/; HttpOnly")
        else:
            self.answer(401, {"error": "login", "message": "unknown user or wrong password"})

    def answer(self, status: int, body: object, cookie: str = "") -> None:
        self.send_response(status)
        if cookie:
            self.send_header("Set-Cookie", cookie)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_arguments: object) -> None:
        """Quiet."""


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> Iterator[Console]:
    """A console that requires a login; the environment has none."""
    monkeypatch.delenv(LOGIN, raising=False)
    with Console() as found:
        threading.Thread(target=found.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield found
        finally:
            found.shutdown()


def client(folder: Path, password: str = PASSWORD) -> Path:
    file = folder / "client.properties"
    file.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.username=ann\nsasl.password={password}\n")
    return file


@pytest.mark.parametrize("command", COMMANDS)
def test_the_user_of_a_file_logs_in_and_out(
    shell: Shell, strict: Console, tmp_path: Path, command: tuple[str, ...]
) -> None:
    shell(*command, "--url", strict.url, "--command-config", client(tmp_path))
    assert (strict.logins, strict.sessions) == (1, {})


@pytest.mark.parametrize("place", ["environment", "url"])
def test_the_user_of_the_environment_or_the_url_logs_in(
    shell: Shell, strict: Console, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    url = strict.url
    if place == "url":
        url = url.replace("://", "://ann:s%20%22e:cr%40t@")
    else:
        monkeypatch.setenv(LOGIN, f"ann:{PASSWORD}")
    shell("clients", "list", "--url", url)
    assert (strict.logins, strict.sessions) == (1, {})


def test_a_session_that_has_ended_is_renewed(strict: Console, tmp_path: Path) -> None:
    """As by a broker that restarts."""
    with ConsoleLink(strict.url, client(tmp_path)) as link:
        for _ in range(2):
            link.get_json("/api/overview", "sample")
        assert strict.logins == 1
        strict.sessions.clear()
        link.get_json("/api/overview", "sample")
        assert strict.logins == 2


@pytest.mark.parametrize("command", COMMANDS)
def test_a_login_that_is_missing_or_wrong_is_named(
    shell: Shell, strict: Console, tmp_path: Path, command: tuple[str, ...]
) -> None:
    missing = shell(*command, "--url", strict.url, code=1).stderr
    assert (
        f"a login is required: give --command-config FILE with sasl.username and sasl.password, or set {LOGIN}="
        in missing
    )
    wrong = shell(*command, "--url", strict.url, "--command-config", client(tmp_path, "guess"), code=1).stderr
    assert wrong.endswith("login of 'ann': unknown user or wrong password\n")
    assert "guess" not in wrong


def test_a_file_that_names_no_user_and_two_users_are_refused(shell: Shell, tmp_path: Path) -> None:
    nobody = tmp_path / "plain.properties"
    nobody.write_text("security.protocol=PLAINTEXT\n")
    for command in (*COMMANDS, ("status",)):
        done = shell(*command, "--command-config", nobody, code=2)
        assert (
            done.stderr
            == f"kbroker: --command-config {nobody}: no sasl.username and sasl.password in this file\n"
        )
        both = shell(*command, "--url", "http://a:b@h/", "--command-config", client(tmp_path), code=2)
        assert "--url and --command-config name a user each" in both.stderr


@pytest.mark.compat
def test_a_broker_that_requires_logins_shows_what_its_user_may_see(
    shell: Shell, broker_factory: BrokerFactory, tmp_path: Path
) -> None:
    node = broker_factory(SETTINGS)
    credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    change = UserScramCredentialUpsertion("ann", credential, PASSWORD.encode())
    admin = AdminClient({"bootstrap.servers": node.bootstrap.partition(",")[0]})
    for done in admin.alter_user_scram_credentials([change]).values():
        done.result(60)
    url = console(node).replace("0.0.0.0", "127.0.0.1")
    login = ("--url", url, "--command-config", client(tmp_path))
    assert "ready" in shell("status", *login, code={0, 1}).text
    assert shell("top", "--once", "--json", *login).json["ready"]
    found = shell("clients", "list", "--json", *login).json
    assert "User:ann" in {row["principal"] for row in found}
    wrong = ("--url", url, "--command-config", client(tmp_path, "guess"))
    for command in (("status",), *COMMANDS):
        assert "unknown user or wrong password" in shell(*command, *wrong, code=1).stderr
