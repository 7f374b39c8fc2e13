"""Logins by HTTP Basic: /metrics for users of the broker only, probes for everyone."""

import http.client
import socket
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from kbroker.config.broker import BrokerConfig
from kbroker.http.basic_logins import MAX_LOGINS, BasicLogins, NotLoggedIn, metrics_logins
from kbroker.http.console.broker_link import LinkBroken, LoginRefused
from kbroker.http.console.sessions import TRIES, Attempts
from kbroker.http.server import MetricsServer
from kbroker.supervisor.unsupported import unsupported
from tests.http.scene import Scene


class Broker:
    """Knows one user; counts the logins that reach it."""

    def __init__(self) -> None:
        self.password: str | None = "right"
        self.logins: list[tuple[str, str] | None] = []
        self.peers: list[str] = []
        self.closed = 0

    def caller(self, login: tuple[str, str] | None, peer: str) -> Any:
        broker = self

        class Caller:
            is_outdated = False

            def log_in(self) -> None:
                broker.logins.append(login)
                broker.peers.append(peer)
                if broker.password is None:
                    raise LinkBroken("gone")
                if login != ("ann", broker.password):
                    raise LoginRefused("no")

            def close(self) -> None:
                broker.closed += 1

        return Caller()


def header(password: str, user: str = "ann") -> str:
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()


def refusal(logins: BasicLogins, authorization: str) -> HTTPStatus:
    with pytest.raises(NotLoggedIn) as refused:
        logins.caller(authorization, "192.0.2.1")
    return refused.value.status


def made() -> tuple[Broker, BasicLogins]:
    broker = Broker()
    return broker, BasicLogins(broker.caller, Attempts(lambda: 0.0))


@pytest.mark.parametrize("authorization", ["", "Bearer x", "Basic", "Basic !", "Basic \xff", "Basic /w=="])
def test_without_a_name_and_a_password_the_broker_is_not_asked(authorization: str) -> None:
    broker, logins = made()
    assert refusal(logins, authorization) is HTTPStatus.UNAUTHORIZED
    assert not broker.logins


def test_a_login_is_repeated_when_the_credential_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    broker, logins = made()
    first = logins.caller(header("right"), "192.0.2.1")
    assert logins.caller(header("right"), "192.0.2.1") is first
    monkeypatch.setattr(first, "is_outdated", True)
    assert logins.caller(header("right"), "192.0.2.1") is not first
    assert (len(broker.logins), broker.closed) == (2, 1)


def test_a_login_is_one_of_its_address() -> None:
    """The ACLs of a user may depend on it."""
    broker, logins = made()
    first = logins.caller(header("right"), "192.0.2.1")
    assert logins.caller(header("right"), "192.0.2.2") is not first
    assert logins.caller(header("right"), "192.0.2.1") is first
    assert broker.peers == ["192.0.2.1", "192.0.2.2"]


def test_a_bounded_number_of_logins_is_kept() -> None:
    broker, logins = made()
    for number in range(MAX_LOGINS + 2):
        logins.caller(header("right"), f"192.0.2.{number}")
    assert broker.closed == 2
    logins.caller(header("right"), "192.0.2.2")
    assert len(broker.logins) == MAX_LOGINS + 2


def test_failed_logins_are_limited_and_an_unreachable_broker_does_not_count() -> None:
    broker, logins = made()
    broker.password = None
    assert {refusal(logins, header("x")) for _ in range(2 * TRIES)} == {HTTPStatus.SERVICE_UNAVAILABLE}
    broker.password = "right"
    found = [refusal(logins, header("wrong")) for _ in range(TRIES + 1)]
    assert found == [HTTPStatus.UNAUTHORIZED] * TRIES + [HTTPStatus.TOO_MANY_REQUESTS]


@contextmanager
def served(folder: Path, listener: socket.socket) -> Iterator[Broker]:
    """/metrics with logins on this socket."""
    scene, broker = Scene(folder), Broker()
    logins = BasicLogins(broker.caller, Attempts())
    server = MetricsServer(listener, scene.collector, scene.health, logins=logins)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield broker
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    listener = socket.create_server(("127.0.0.1", 0))
    with served(tmp_path, listener):
        yield listener.getsockname()[1]


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="no IPv6")
def test_an_ipv4_client_of_an_ipv6_port_has_its_own_address(tmp_path: Path) -> None:
    """ACLs for a host, and guesses on the broker's other ports, name it so."""
    listener = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    with served(tmp_path, listener) as broker:
        link = http.client.HTTPConnection("127.0.0.1", listener.getsockname()[1], timeout=60)
        link.request("GET", "/metrics", headers={"Authorization": header("right")})
        assert link.getresponse().status == 200
        link.close()
    assert broker.peers == ["127.0.0.1"]


def test_metrics_need_the_login_and_probes_do_not(port: int) -> None:
    def answer(path: str, **headers: str) -> tuple[int, str | None, bytes]:
        link = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        link.request("GET", path, headers=headers)
        found = link.getresponse()
        body = found.read()
        link.close()
        return found.status, found.getheader("WWW-Authenticate"), body

    assert answer("/healthz")[0] == 200
    for headers in ({}, {"Authorization": header("wrong")}):
        status, asks, body = answer("/metrics", **headers)
        assert (status, asks) == (401, 'Basic realm="kbroker"')
        assert b"kbroker_" not in body
    status, _, body = answer("/metrics", Authorization=header("right"))
    assert status == 200
    assert b"kbroker_" in body


def test_the_setting_needs_a_listener_with_scram(tmp_path: Path) -> None:
    login = {"kbroker.metrics.login": "true", "log.dirs": "/d"}
    scram = {"listeners": "SASL_PLAINTEXT://:0", "security.inter.broker.protocol": "SASL_PLAINTEXT"}
    scram["sasl.enabled.mechanisms"] = "SCRAM-SHA-256"
    assert unsupported(BrokerConfig.load(login | scram)[0]) == []
    for wrong in (
        login,
        login | scram | {"listeners": "PLAINTEXT://:0", "security.inter.broker.protocol": ""},
    ):
        wrong.pop("security.inter.broker.protocol", None)
        (problem,) = unsupported(BrokerConfig.load(wrong)[0])
        assert problem.startswith("kbroker.metrics.login: ")
    scene = Scene(tmp_path)
    control: Any = scene.view
    assert metrics_logins(scene.context, control) is None
