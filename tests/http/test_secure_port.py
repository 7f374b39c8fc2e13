"""A running broker whose http port has TLS and a login for /metrics."""

import http.client
import json
import re
import shutil
import time
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from kbroker.cli.app import run
from tests.conftest import BrokerFactory
from tests.http.tls_store import connection, put, settings
from tests.peer.kbroker_node import KBroker

pytestmark = [
    pytest.mark.compat,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to make certificates with"),
]
PASSWORD = "secret"


class Port:
    """The http port of a broker with `store`."""

    def __init__(self, node: KBroker, store: Path) -> None:
        found = re.findall(r"kbroker ready.*? metrics=https://127\.0\.0\.1:(\d+)/metrics", node.logs(20000))
        assert found, node.logs()
        self.port = int(found[-1])
        self.store = store
        self.admin = AdminClient({"bootstrap.servers": node.bootstrap.partition(",")[0]})

    def ask(
        self, method: str, path: str, body: str = "", **headers: str
    ) -> tuple[int, http.client.HTTPMessage]:
        link = connection(self.port, self.store)
        link.request(method, path, body or None, headers)
        answer = link.getresponse()
        answer.read()
        link.close()
        return answer.status, answer.headers

    def presented(self) -> object:
        """The certificate that a new connection gets; None if it is not trusted."""
        link = connection(self.port, self.store)
        try:
            link.connect()
        except OSError:
            return None
        try:
            return link.sock.getpeercert(True)
        finally:
            link.close()


def basic(user: str) -> str:
    return "Basic " + b64encode(f"{user}:{PASSWORD}".encode()).decode()


@pytest.fixture
def port(broker_factory: BrokerFactory, tmp_path: Path) -> Port:
    """Of a broker with the users ann and bob, once it is ready."""
    store = put(tmp_path / "web.pem")
    node = broker_factory(
        {
            "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
            "sasl.enabled.mechanisms": "SCRAM-SHA-256",
            "kbroker.http.listen": "0.0.0.0:0",
            "kbroker.metrics.login": "true",
            **settings(store),
        }
    )
    made = Port(node, store)
    credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    for user in ("ann", "bob"):
        change = UserScramCredentialUpsertion(user, credential, PASSWORD.encode())
        made.admin.alter_user_scram_credentials([change])[user].result(120)
    until(lambda: made.ask("GET", "/readyz")[0] == 200)
    return made


def until(condition: Callable[[], bool], timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_metrics_and_console_are_for_users_over_tls(
    port: Port, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert port.ask("GET", "/healthz")[0] == 200
    assert port.ask("GET", "/metrics")[0] == 401
    assert port.ask("GET", "/metrics", Authorization=basic("ann"))[0] == 200
    assert port.ask("GET", "/metrics", Authorization=basic("eve"))[0] == 401

    headers = {"Content-Type": "application/json", "Origin": f"https://127.0.0.1:{port.port}"}
    login = json.dumps({"user": "bob", "password": PASSWORD})
    status, answered = port.ask("POST", "/api/login", login, **headers)
    assert status == 200
    assert answered["Set-Cookie"].endswith("; Secure")

    monkeypatch.setenv("SSL_CERT_FILE", str(port.store.with_suffix(".crt")))
    run(["status", "--url", f"https://ann:{PASSWORD}@127.0.0.1:{port.port}/", "--json"])
    assert json.loads(capsys.readouterr().out)["version"]
    assert run(["status", "--url", f"http://127.0.0.1:{port.port}/"]) == 2
    assert "this port speaks https" in capsys.readouterr().err

    change = UserScramCredentialDeletion("bob", ScramMechanism.SCRAM_SHA_256)
    port.admin.alter_user_scram_credentials([change])["bob"].result(120)
    assert port.ask("GET", "/metrics", Authorization=basic("bob"))[0] == 401


def test_the_confined_process_takes_a_renewed_certificate(port: Port) -> None:
    old = port.presented()
    assert old is not None
    put(port.store)
    until(lambda: port.presented() not in (None, old))
