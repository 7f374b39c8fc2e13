"""Logins of the registry: failed ones are limited by address."""

import base64
from http import HTTPStatus
from typing import Any

import pytest

from kbroker.http.console.broker_link import LinkBroken, LoginRefused
from kbroker.http.registry.server import FAILED_BY_ADDRESS, Registry
from tests.http.registry.desk import ListTopic


class Broker:
    """Knows one user; counts the logins that reach it."""

    def __init__(self) -> None:
        self.logins = 0
        self.is_reachable = True

    def caller(self, login: tuple[str, str] | None) -> Any:
        broker = self

        class Caller:
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


def status(registry: Registry, password: str, peer: str = "a") -> HTTPStatus:
    login = "Basic " + base64.b64encode(f"ann:{password}".encode()).decode()
    return registry.answer("GET", "/subjects", login, b"", peer)[0]


def test_failed_logins_of_an_address_are_limited(registry: Registry, broker: Broker) -> None:
    found = [status(registry, f"wrong {number}") for number in range(FAILED_BY_ADDRESS + 10)]
    assert found == [HTTPStatus.UNAUTHORIZED] * FAILED_BY_ADDRESS + [HTTPStatus.TOO_MANY_REQUESTS] * 10
    assert broker.logins == FAILED_BY_ADDRESS
    assert status(registry, "right") is HTTPStatus.TOO_MANY_REQUESTS
    assert status(registry, "right", "b") is HTTPStatus.OK
    assert status(registry, "right") is HTTPStatus.OK, "a known login needs no attempt"


def test_logins_that_succeed_or_find_no_broker_are_not_counted(registry: Registry, broker: Broker) -> None:
    broker.is_reachable = False
    for _ in range(FAILED_BY_ADDRESS * 2):
        assert status(registry, "right") is HTTPStatus.SERVICE_UNAVAILABLE
    broker.is_reachable = True
    for _ in range(FAILED_BY_ADDRESS * 2):
        assert status(registry, "right") is HTTPStatus.OK
    assert broker.logins == FAILED_BY_ADDRESS * 2 + 1
