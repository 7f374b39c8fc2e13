"""The address that clients get for a listener without a host."""

import socket
from collections.abc import Iterator
from typing import NoReturn

import pytest

from kbroker.config.listeners import Endpoint, SecurityProtocol
from kbroker.control.metadata import endpoint


@pytest.fixture(autouse=True)
def forget_name() -> Iterator[None]:
    endpoint.own_name.cache_clear()
    yield
    endpoint.own_name.cache_clear()


def shown(host: str) -> str:
    return endpoint.advertised_endpoint(Endpoint("PLAINTEXT", SecurityProtocol.PLAINTEXT, host, 0), 9092).host


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::"])
def test_all_addresses_are_advertised_as_the_name_of_the_host(
    host: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(socket, "getfqdn", lambda: "localhost")
    assert shown(host) == "localhost"
    assert caplog.messages == []


def test_a_name_that_has_no_address_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def unknown(*_: object) -> NoReturn:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getfqdn", lambda: "nowhere")
    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert [shown(""), shown("0.0.0.0"), shown("10.0.0.7")] == ["nowhere", "nowhere", "10.0.0.7"]
    (line,) = caplog.messages
    assert "name nowhere as the broker's address, but it has no address here" in line
    assert line.endswith("set advertised.listeners to a name or an address that they can reach")
