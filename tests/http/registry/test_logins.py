"""Logins of the registry: failed ones are limited by address."""

import base64
import http.client
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http import HTTPStatus
from typing import Any

import pytest

from kbroker.http.console.broker_link import LinkBroken, LoginRefused
from kbroker.http.console.turns import AT_A_TIME, OF_A_USER
from kbroker.http.registry import server as module
from kbroker.http.registry.failure import Failure
from kbroker.http.registry.server import (
    FAILED_BY_ADDRESS,
    MAX_BODY_BYTES,
    MAX_FREE_BODY_BYTES,
    Registry,
    RegistryServer,
)
from kbroker.http.registry.topic_records import SchemaRow
from tests.http.registry.desk import Desk, ListTopic


class Broker:
    """Knows two users; counts the logins that reach it."""

    def __init__(self) -> None:
        self.logins = 0
        self.is_reachable = True

    def caller(self, login: tuple[str, str] | None, _: str) -> Any:
        broker = self

        class Caller:
            is_outdated = False
            user = login[0] if login else None

            def log_in(self) -> None:
                broker.logins += 1
                if not broker.is_reachable:
                    raise LinkBroken("gone")
                if login not in (("ann", "right"), ("bob", "right")):
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


def basic(password: str, user: str = "ann") -> str:
    """An Authorization header of a user."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


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


def test_an_answer_with_503_names_the_time_of_the_next_attempt(registry: Registry, broker: Broker) -> None:
    with serving(registry) as address:
        for broker.is_reachable, status, seconds in ((False, 503, "1"), (True, 200, None)):
            link = http.client.HTTPConnection(*address, timeout=60)
            link.request("GET", "/subjects", headers={"Authorization": basic("right")})
            answer = link.getresponse()
            assert (answer.status, answer.getheader("Retry-After")) == (status, seconds)
            link.close()


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


def get(path: str, *headers: str) -> bytes:
    """A request without a body."""
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: registry", *headers, "", ""]).encode()


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


def wait_for(condition: Callable[[], bool]) -> None:
    """Until it is true."""
    ends_s = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < ends_s
        time.sleep(0.01)


@contextmanager
def half_bodies(address: tuple[str, int], *users: str) -> Iterator[list[socket.socket]]:
    """Connections of users whose large body is admitted, and never complete."""
    with ExitStack() as links:
        opened = []
        for user in users:
            link = links.enter_context(socket.create_connection(address, timeout=60))
            link.sendall(
                head(MAX_BODY_BYTES, f"Authorization: {basic('right', user)}", "Expect: 100-continue")
            )
            assert first_line(link) == "HTTP/1.1 100 Continue"
            opened.append(link)
        yield opened


def asked(address: tuple[str, int], sent: bytes) -> str:
    """The first line of the answer."""
    with socket.create_connection(address, timeout=60) as link:
        link.sendall(sent)
        return first_line(link)


def test_few_large_bodies_of_a_user_are_in_memory_at_a_time(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """64 connections of one user could hold half a gigabyte."""
    monkeypatch.setattr(module, "WAIT_S", 0.0)
    ann, bob = (f"Authorization: {basic('right', user)}" for user in ("ann", "bob"))
    with serving(registry) as address, half_bodies(address, *["ann"] * OF_A_USER) as links:
        refused = "HTTP/1.1 503 Service Unavailable"
        assert asked(address, head(MAX_BODY_BYTES, ann)) == refused
        assert asked(address, get("/schemas?limit=1", ann)) == refused
        assert asked(address, get("/contexts/./schemas/", ann)) == refused
        assert asked(address, get("/subjects", ann)) == "HTTP/1.1 200 OK"
        assert asked(address, head(2, ann) + b"{}") == "HTTP/1.1 404 Not Found", "a small body"
        assert asked(address, get("/schemas", bob)) == "HTTP/1.1 200 OK"
        for link in links:
            link.close()
        wait_for(lambda: not registry._large._taken)
        assert asked(address, get("/schemas", ann)) == "HTTP/1.1 200 OK"
        with half_bodies(address, *["bob"] * OF_A_USER) as others:
            others[0].sendall(b" " * MAX_BODY_BYTES)
            assert first_line(others[0]) == "HTTP/1.1 400 Bad Request"
            wait_for(lambda: registry._large._taken["bob"] == OF_A_USER - 1)


def test_large_bodies_of_clients_without_a_login_are_bounded_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAIT_S", 0.0)
    with serving(Desk().registry) as address, half_bodies(address, *["ann"] * AT_A_TIME):
        assert asked(address, head(MAX_BODY_BYTES)) == "HTTP/1.1 503 Service Unavailable"
        assert asked(address, get("/subjects")) == "HTTP/1.1 200 OK"


def test_a_slow_reader_of_all_schemas_does_not_keep_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight of them would exclude all others, for as long as they read a little now and then."""
    monkeypatch.setattr(module, "ANSWER_S", 1.0)
    rows = [SchemaRow(f"s{number}", 1, number, "x" * 1_000_000) for number in range(1, 21)]
    registry = Desk([(row.key(), row.value()) for row in rows]).registry
    with serving(registry) as address, socket.create_connection(address, timeout=60) as link:
        link.sendall(get("/schemas"))
        assert first_line(link) == "HTTP/1.1 200 OK"
        ends_s = time.monotonic() + 30
        while registry._large._taken:
            assert time.monotonic() < ends_s
            link.recv(1000)
            time.sleep(0.01)
        monkeypatch.undo()
        with socket.create_connection(address, timeout=60) as other:
            other.sendall(get("/schemas", "Connection: close"))
            answer = http.client.HTTPResponse(other)
            answer.begin()
            assert len(answer.read()) > 20_000_000


def test_a_small_body_is_read_before_the_login(registry: Registry) -> None:
    """Its connection is used again."""
    with serving(registry) as address, socket.create_connection(address, timeout=60) as link:
        for _ in range(2):
            link.sendall(head(MAX_FREE_BODY_BYTES) + b" " * MAX_FREE_BODY_BYTES)
            answer = http.client.HTTPResponse(link)
            answer.begin()
            answer.read()
            assert answer.status == HTTPStatus.UNAUTHORIZED
