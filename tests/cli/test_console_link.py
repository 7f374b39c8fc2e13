"""Commands log in to a console that requires it, with a user of a file, of the URL or of the
environment."""

import json
import os
import re
import socket
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
from kbroker.config.http_login import LOGIN, basic
from tests.cli.conftest import Shell
from tests.cli.console_address import console
from tests.conftest import BrokerFactory
from tests.foreign_listener import UID, listening, needs_root

PASSWORD = 's "e:cr@t'
COMMANDS = [("clients", "list", "--json"), ("top", "--once", "--json")]
SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    "kbroker.http.listen": "0.0.0.0:0",  # there a console needs a login
    "kbroker.metrics.login": "true",
}


class Console(ThreadingHTTPServer):
    """A console that requires a login. Sessions end by a logout, and when the test clears them.

    proxy: the header that a proxy before it requires."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Pages)
        self.sessions: dict[str, str] = {}
        self.logins = 0
        self.user = "ann"
        self.proxy = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"


class Pages(BaseHTTPRequestHandler):
    server: Console

    def parse_request(self) -> bool:
        if not super().parse_request():
            return False
        if self.server.proxy and self.headers["Authorization"] != self.server.proxy:
            self.send_error(401)
            return False
        return True

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
        elif body == {"user": self.server.user, "password": PASSWORD}:
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


def client(
    folder: Path, password: str = PASSWORD, user: str = "ann", protocol: str = "SASL_PLAINTEXT"
) -> Path:
    file = folder / "client.properties"
    file.write_text(f"security.protocol={protocol}\nsasl.username={user}\nsasl.password={password}\n")
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


@pytest.mark.parametrize("command", ["status", "top --once", "clients list"])
@pytest.mark.parametrize("banner", [b"SSH-2.0-OpenSSH_9.2\r\n", b"\x1b[31mred\n", b"HTTP/9.9 200 OK\r\n\r\n"])
def test_a_program_that_speaks_no_http_is_named_in_one_line(
    shell: Shell, command: str, banner: bytes
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(banner)

        thread = threading.Thread(target=serve)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        said = shell(*command.split(), "--url", url, code=3).stderr
        thread.join()
    assert said.startswith(f"kbroker: {url}: no HTTP is spoken there; is the broker running")
    assert said.count("\n") == 1


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


def test_a_proxy_before_the_console_gets_the_login_with_each_request(
    shell: Shell, strict: Console, tmp_path: Path
) -> None:
    strict.proxy = basic(f"ann:{PASSWORD}")["Authorization"]
    for command in COMMANDS:
        shell(*command, "--url", strict.url, "--command-config", client(tmp_path))
    assert (strict.logins, strict.sessions) == (len(COMMANDS), {})


def test_a_login_without_a_password_is_refused_and_not_shown(
    shell: Shell, strict: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_url = strict.url.replace("://", "://s3cret@")
    for command in (*COMMANDS, ("status",)):
        done = shell(*command, "--url", in_url, code=2)
        assert done.stderr == f"kbroker: --url {strict.url}: expected NAME:PASSWORD before the @\n"
    monkeypatch.setenv(LOGIN, "s3cret")
    for command in (*COMMANDS, ("status",)):
        done = shell(*command, "--url", strict.url, code=2)
        assert done.stderr == f"kbroker: {LOGIN}: expected NAME:PASSWORD\n"


def test_a_name_with_a_colon_logs_in_where_http_basic_is_not_needed(
    shell: Shell, strict: Console, tmp_path: Path
) -> None:
    strict.user = "team:ann"
    in_file = ("--url", strict.url, "--command-config", client(tmp_path, user=strict.user))
    in_url = ("--url", strict.url.replace("://", "://team%3Aann:s%20%22e:cr%40t@"))
    for logins, login in enumerate((in_file, in_url), 1):
        shell("clients", "list", *login)
        assert strict.logins == logins
        refused = shell("status", *login, code=2).stderr
        assert refused == "kbroker: user 'team:ann': HTTP Basic cannot carry a name with a colon\n"


@pytest.mark.parametrize("host", ["broker.invalid", "192.0.2.1", "[2001:db8::1]"])
@pytest.mark.parametrize("command", [*COMMANDS, ("status",)])
def test_the_password_of_a_client_with_tls_leaves_the_host_only_by_https(
    shell: Shell, tmp_path: Path, command: tuple[str, ...], host: str
) -> None:
    file = client(tmp_path, protocol="SASL_SSL")
    done = shell(*command, "--url", f"http://{host}:9404/", "--command-config", file, code=2)
    assert re.search("sends the password .*=SASL_SSL in the clear: --url https://", done.stderr)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_the_password_of_a_client_with_tls_may_be_sent_to_this_host(
    shell: Shell, strict: Console, tmp_path: Path, host: str
) -> None:
    with ConsoleLink(f"http://{host}:9404/", client(tmp_path, protocol="SASL_SSL")):
        pass
    shell("clients", "list", "--url", strict.url, "--command-config", client(tmp_path, protocol="SASL_SSL"))


@pytest.mark.compat
def test_a_broker_that_requires_logins_shows_what_its_user_may_see(
    shell: Shell, broker_factory: BrokerFactory, tmp_path: Path
) -> None:
    node = broker_factory(SETTINGS)
    credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    change = UserScramCredentialUpsertion("ann", credential, PASSWORD.encode())
    admin = AdminClient({"bootstrap.servers": node.bootstrap.partition(",")[0]})
    for done in admin.alter_user_scram_credentials([change]).values():
        done.result(120)
    url = console(node).replace("0.0.0.0", "127.0.0.1")
    login = ("--url", url, "--command-config", client(tmp_path))
    assert "ready" in shell("status", *login, code={0, 1}).text
    assert shell("top", "--once", "--json", *login).json["ready"]
    found = shell("clients", "list", "--json", *login).json
    assert "User:ann" in {row["principal"] for row in found}
    wrong = ("--url", url, "--command-config", client(tmp_path, "guess"))
    for command in (("status",), *COMMANDS):
        assert "unknown user or wrong password" in shell(*command, *wrong, code=1).stderr


@needs_root
@pytest.mark.parametrize("command", [*COMMANDS, ("status",)])
def test_no_password_goes_to_another_user_who_listens_while_the_broker_is_down(
    shell: Shell, tmp_path: Path, command: tuple[str, ...]
) -> None:
    with listening() as (port, received):
        url = f"http://127.0.0.1:{port}/"
        failed = shell(*command, "--url", url, "--command-config", client(tmp_path), code=1)
        assert failed.stderr.count("\n") == 1
        assert (
            f"{url}: user {UID} listens at 127.0.0.1 port {port}: the password is not sent" in failed.stderr
        )
        assert received() == b""


@needs_root
def test_the_owner_of_the_file_with_the_password_is_trusted(strict: Console, tmp_path: Path) -> None:
    """Who can read the file anyway."""
    with listening() as (port, received):
        os.chown(file := client(tmp_path), UID, UID)
        link = ConsoleLink(f"http://127.0.0.1:{port}/", file)
        link._connection().request("GET", "/", headers=link._basic)
        assert b"Authorization" in received()
