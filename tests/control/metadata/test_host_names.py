"""Names of hosts are resolved until a deadline."""

import asyncio
import socket
import threading

import pytest

from kbroker.control.metadata.host_names import HostNames


def test_names_without_an_address_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(name: str, _: object) -> list[object]:
        if name == "gone":
            raise socket.gaierror
        if name == "odd":
            raise UnicodeError
        return []

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    names = HostNames()
    assert asyncio.run(names.unresolved([])) == frozenset()
    assert asyncio.run(names.unresolved(["gone", "here", "odd"])) == {"gone", "odd"}


def test_a_resolver_that_does_not_answer_delays_requests_briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = threading.Event()
    requested = []

    def resolve(name: str, _: object) -> list[object]:
        requested.append(name)
        assert name == "here" or answer.wait(60)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    names = HostNames(deadline_s=0.2)
    slow = [f"slow{number}" for number in range(1000)]
    try:
        assert asyncio.run(names.unresolved(["here", *slow])) == set(slow)
        assert requested == ["here", "slow0"]
    finally:
        answer.set()
