"""Logins of the registry: failed ones are limited by address."""

import base64
import http.client
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

import pytest

from kbroker.http.console.broker_link import LinkBroken, LoginRefused
from kbroker.http.registry.failure import Failure
from kbroker.http.registry.server import (
    FAILED_BY_ADDRESS,
    MAX_BODY_BYTES,
    MAX_FREE_BODY_BYTES,
    Registry,
    RegistryServer,
)
from tests.http.registry.desk import Desk, ListTopic


class Broker:
    """Knows one user; counts the logins that reach it."""

    def __init__(self) -> None:
        self.logins = 0
        self.is_reachable = True

    def caller(self, login: tuple[str, str] | None, _: str) -> Any:
        broker = self

        class Caller:
            is_outdated = False

            def log_in(self) -> None:
                broker.logins += 1
                if not broker.is_reachable:
                    raise LinkBroken("gone")
                if login != ("ann", "right"):
                    raise LoginRefused("no")

            def close(self) -> None:
                pass

        return Caller()


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
def registry(broker: Broker) -> Registry:
    made = Registry(broker.caller, "cluster", True)
    made.topic = ListTopic()
    return made


def basic(password: str) -> str:
    """An Authorization header of the user."""
    return "Basic " + base64.b64encode(f"ann:{password}".encode()).decode()


def status(registry: Registry, password: str, peer: str = "a") -> HTTPStatus:
    return registry.answer("GET", "/subjects", basic(password), b"", peer)[0]


def test_failed_logins_of_an_address_are_limited(registry: Registry, broker: Broker) -> None:
    found = [status(registry, f"wrong {number}") for number in range(FAILED_BY_ADDRESS + 10)]
    assert found == [HTTPStatus.UNAUTHORIZED] * FAILED_BY_ADDRESS + [HTTPStatus.TOO_MANY_REQUESTS] * 10
    assert broker.logins == FAILED_BY_ADDRESS
    assert status(registry, "right") is HTTPStatus.TOO_MANY_REQUESTS
    assert status(registry, "right", "b") is HTTPStatus.OK
    assert status(registry, "right") is HTTPStatus.TOO_MANY_REQUESTS, "known at another address only"
    assert {status(registry, "wrong", "b") for _ in range(FAILED_BY_ADDRESS)} == {HTTPStatus.UNAUTHORIZED}
    assert status(registry, "wrong", "b") is HTTPStatus.TOO_MANY_REQUESTS
    assert status(registry, "right", "b") is HTTPStatus.OK, "a known login needs no attempt"


def test_a_body_is_parsed_after_the_login(registry: Registry) -> None:
    found = registry.answer("POST", "/subjects/s/versions", "", b"no JSON")
    assert found[0] is HTTPStatus.UNAUTHORIZED


def test_logins_that_succeed_or_find_no_broker_are_not_counted(registry: Registry, broker: Broker) -> None:
    broker.is_reachable = False
    for _ in range(FAILED_BY_ADDRESS * 2):
        assert status(registry, "right") is HTTPStatus.SERVICE_UNAVAILABLE
    broker.is_reachable = True
    for _ in range(FAILED_BY_ADDRESS * 2):
        assert status(registry, "right") is HTTPStatus.OK
    assert broker.logins == FAILED_BY_ADDRESS * 2 + 1


def test_a_login_whose_credential_has_changed_is_repeated_at_once(
    registry: Registry, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same password with another salt or other iterations."""
    assert status(registry, "right") is HTTPStatus.OK
    (kept,) = registry._logins._known.values()
    refresh: Callable[[Any], Any] = registry.topic.refresh

    def refused(caller: Any) -> Any:
        if caller is kept:
            monkeypatch.setattr(caller, "is_outdated", True)
            raise Failure(HTTPStatus.UNAUTHORIZED, 401, "log in again")
        return refresh(caller)

    monkeypatch.setattr(registry.topic, "refresh", refused)
    assert [status(registry, "right") for _ in range(2)] == [HTTPStatus.OK] * 2
    assert broker.logins == 2


@pytest.mark.parametrize("given", ["Basic é", "Basic a", "Basic \x80", "Basic /w==", "Basic " + "A" * 60_001])
def test_a_malformed_login_is_refused_without_an_error_in_the_log(
    registry: Registry, broker: Broker, given: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert registry.answer("GET", "/subjects", given, b"")[0] is HTTPStatus.UNAUTHORIZED
    assert broker.logins == 0
    assert not caplog.records


@contextmanager
def serving(registry: Registry) -> Iterator[tuple[str, int]]:
    """The address of a server."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = RegistryServer(listener, registry)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield ("127.0.0.1", listener.getsockname()[1])
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_pages_of_other_sites_cannot_change_the_registry() -> None:
    """A browser sends a POST with a body of plain text for any page, and with what it knows of
    logins."""
    desk = Desk()
    with serving(desk.registry) as address:
        for headers, status in (
            ({"Origin": "http://evil.example", "Content-Type": "text/plain"}, HTTPStatus.FORBIDDEN),
            ({"Origin": "http://evil.example", "Host": "evil.example"}, HTTPStatus.FORBIDDEN),
            ({"User-Agent": "Mozilla/5.0", "Host": "evil.example"}, HTTPStatus.FORBIDDEN),
            ({"Host": "registry"}, HTTPStatus.OK),
        ):
            link = http.client.HTTPConnection(*address, timeout=30)
            link.request("PUT", "/config", '{"compatibility": "NONE"}', headers)
            assert link.getresponse().status == status
            link.close()
            assert desk("GET", "/config")[1]["compatibilityLevel"] == (
                "NONE" if status == 200 else "BACKWARD"
            )


def first_line(link: socket.socket) -> str:
    """The first line of the next answer."""
    with link.makefile("rb") as answer:
        return answer.readline().decode().strip()


def head(length: int, *headers: str) -> bytes:
    """Of a request whose body has this length."""
    lines = ["POST /subjects/s HTTP/1.1", "Host: registry", f"Content-Length: {length}", *headers, "", ""]
    return "\r\n".join(lines).encode()


@pytest.mark.parametrize("expects", [(), ("Expect: 100-continue",)])
@pytest.mark.parametrize(
    ("headers", "logins"),
    [((), 0), ((f"Authorization: {basic('wrong')}",), 1), (("Origin: http://evil",), 0)],
)
def test_a_large_body_is_not_read_before_the_login(
    registry: Registry, broker: Broker, headers: tuple[str, ...], logins: int, expects: tuple[str, ...]
) -> None:
    """64 connections could hold half a gigabyte. The answer does not wait for the body."""
    with serving(registry) as address, socket.create_connection(address, timeout=60) as link:
        link.sendall(head(MAX_BODY_BYTES, *headers, *expects))
        refused = "403 Forbidden" if headers[:1] == ("Origin: http://evil",) else "401 Unauthorized"
        assert first_line(link) == f"HTTP/1.1 {refused}"
    assert broker.logins == logins


@pytest.mark.parametrize("length", [MAX_FREE_BODY_BYTES, MAX_BODY_BYTES])
def test_a_body_of_a_user_is_read(registry: Registry, broker: Broker, length: int) -> None:
    login = f"Authorization: {basic('right')}"
    with serving(registry) as address, socket.create_connection(address, timeout=60) as link:
        link.sendall(head(length, login, "Expect: 100-continue"))
        assert first_line(link) == "HTTP/1.1 100 Continue"
        link.sendall(b" " * length)
        assert first_line(link) == "HTTP/1.1 400 Bad Request"
    assert broker.logins == 1


def test_a_small_body_is_read_before_the_login(registry: Registry) -> None:
    """Its connection is used again."""
    with serving(registry) as address, socket.create_connection(address, timeout=60) as link:
        for _ in range(2):
            link.sendall(head(MAX_FREE_BODY_BYTES) + b" " * MAX_FREE_BODY_BYTES)
            answer = http.client.HTTPResponse(link)
            answer.begin()
            answer.read()
            assert answer.status == HTTPStatus.UNAUTHORIZED
