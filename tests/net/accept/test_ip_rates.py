"""The acceptor gets the rates of addresses when one of them has changed."""

import asyncio
import socket

import pytest

from kbroker.config.client_quotas import CONNECTION_CREATION_RATE, IP, PRODUCER_BYTE_RATE, USER, QuotaTable
from kbroker.net.accept import news
from kbroker.net.accept.news import IpRates

SENT: list[dict[str, float]] = []


@pytest.fixture
def rates(monkeypatch: pytest.MonkeyPatch) -> IpRates:
    def send(_: object, given: dict[str, float]) -> bool:
        SENT.append(given)
        return True

    SENT.clear()
    monkeypatch.setattr(news, "send_rates", send)
    return IpRates(socket.socket())


def of(*hosts: str | None, rate: float | None = 1.0) -> QuotaTable:
    values = {} if rate is None else {CONNECTION_CREATION_RATE: rate}
    return QuotaTable({((IP, host),): values for host in hosts})


async def changed(rates: IpRates, table: QuotaTable, full: bool = False) -> None:
    rates.change(table, full)
    for _ in range(5):
        await asyncio.sleep(0)


def test_changes_add_up(rates: IpRates, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", None)  # addresses are not resolved

    async def run() -> None:
        await changed(rates, of("10.0.0.1", "10.0.0.2"), full=True)
        await changed(rates, QuotaTable({((USER, "u"),): {PRODUCER_BYTE_RATE: 1.0}}))
        await changed(rates, of(None, rate=7.0))
        await changed(rates, of("10.0.0.1", rate=None))
        await changed(rates, of("::1"), full=True)

    asyncio.run(run())
    assert SENT == [
        {"10.0.0.1": 1.0, "10.0.0.2": 1.0},
        {"10.0.0.1": 1.0, "10.0.0.2": 1.0, "": 7.0},
        {"10.0.0.2": 1.0, "": 7.0},
        {"::1": 1.0},
    ]
