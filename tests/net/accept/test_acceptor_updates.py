"""The acceptor gets its dynamic settings and the rates of addresses, each once they have
changed."""

import asyncio
import socket
import time

import pytest

from kbroker.config.broker import BrokerConfig
from kbroker.config.client_quotas import CONNECTION_CREATION_RATE, IP, PRODUCER_BYTE_RATE, USER, QuotaTable
from kbroker.ipc import fds
from kbroker.net.accept import acceptor_updates
from kbroker.net.accept.acceptor_updates import AcceptorSettings, IpRates
from kbroker.net.accept.connection_limits import parse_overrides
from tests.callbacks import slowness

SENT: list[tuple[dict[str, float | None], bool]] = []
MAX_MS = 8.0


@pytest.fixture
def rates(monkeypatch: pytest.MonkeyPatch) -> IpRates:
    def send(_: object, given: dict[str, float | None], first: bool) -> bool:
        SENT.append((given, first))
        return True

    SENT.clear()
    monkeypatch.setattr(acceptor_updates, "send_rates", send)
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
        ({"10.0.0.1": 1.0, "10.0.0.2": 1.0}, True),
        ({"": 7.0}, False),
        ({"10.0.0.1": None}, False),
        ({"::1": 1.0}, True),
    ]


def test_a_change_beside_very_many_rates_costs_its_own_size(rates: IpRates) -> None:
    """No turn of the loop takes long, whatever the number of addresses."""
    hosts = [f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}" for n in range(20_000)]
    took = []

    async def run() -> None:
        rates.change(of(*hosts), full=True)
        while sum(len(given) for given, _ in SENT) < len(hosts):
            began = time.thread_time()
            await asyncio.sleep(0)
            took.append((time.thread_time() - began) * 1000)
        SENT.clear()
        await changed(rates, of(hosts[7], rate=5.0))

    asyncio.run(run())
    assert [({hosts[7]: 5.0}, False)] == SENT
    assert sorted(took)[len(took) * 9 // 10] < MAX_MS * slowness(), took[-9:]


def test_all_that_is_unsent_gives_way_to_a_full_table(rates: IpRates) -> None:
    async def run() -> None:
        rates.change(of("10.0.0.1"), full=False)
        rates.change(of("10.0.0.2", "10.0.0.3"), full=True)
        await changed(rates, of("10.0.0.3", rate=None))

    asyncio.run(run())
    assert SENT == [({"10.0.0.2": 1.0, "10.0.0.3": None}, True)]


def test_the_acceptor_gets_the_addresses_of_hosts_with_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would wait for the resolver, and take no connection meanwhile."""
    known = {"server": ["10.0.0.2", "2001:db8::1", "10.0.0.2"]}

    def resolve(host: str, *_more: object, **_options: object) -> list[tuple[object, ...]]:
        if host not in known:
            raise socket.gaierror
        return [(0, 0, 0, "", (address, 0)) for address in known[host]]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    acceptor, process = fds.pair()
    acceptor.setblocking(True)
    name = "max.connections.per.ip.overrides"

    async def story() -> None:
        reported = AcceptorSettings(process)
        reported.change({name: "server:7, gone:8,[0:0:0:0:0:0:0:1]:3", "max.connections": "5"})
        assert reported._task is not None
        await reported._task

    with acceptor, process:
        asyncio.run(story())
        sent = "10.0.0.2:7,[2001:db8::1]:7,gone:8,[::1]:3"
        assert fds.receive_closed(acceptor) == fds.Settings({name: sent, "max.connections": "5"})
    config = BrokerConfig({"log.dirs": "/d"}).with_dynamic(cluster={}, own={name: sent})
    assert parse_overrides(config.get_str(name), resolve=False) == {
        "10.0.0.2": 7,
        "2001:db8::1": 7,
        "gone": 8,
        "::1": 3,
    }


def test_names_that_take_long_delay_no_other_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def resolve(host: str, *_more: object, **_options: object) -> list[tuple[object, ...]]:
        asked.append(host)
        raise socket.gaierror

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(acceptor_updates, "RESOLVED_IN_S", 0.0)
    acceptor, process = fds.pair()
    limits = {"max.connections.per.ip.overrides": "a:1,b:2", "max.connections": "5"}

    async def story() -> None:
        reported = AcceptorSettings(process)
        reported.change(limits)
        assert reported._task is not None
        await reported._task

    with acceptor, process:
        asyncio.run(story())
        assert fds.receive_closed(acceptor) == fds.Settings(limits)
    assert asked == []


def test_addresses_fit_into_a_message(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def resolve(host: str, *_more: object, **_options: object) -> list[tuple[object, ...]]:
        return [(0, 0, 0, "", (f"2001:db8::{number:x}", 0)) for number in range(100)]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    text = asyncio.run(acceptor_updates._with_addresses(",".join(f"h{number}:1" for number in range(100))))
    assert 40_000 < len(text) <= acceptor_updates.MAX_TEXT_BYTES < fds.MESSAGE_BYTES
    assert "too many addresses" in caplog.text


def test_only_its_own_settings_and_only_changes_are_sent() -> None:
    acceptor, process = fds.pair()

    async def story() -> None:
        reported = AcceptorSettings(process)
        reported.change({"compression.type": "lz4"})
        await asyncio.sleep(0)
        assert fds.receive_closed(acceptor) == fds.Settings({})  # a process that died may have sent limits
        reported.change({"compression.type": "zstd"})
        await asyncio.sleep(0)
        assert fds.receive_closed(acceptor) is None
        limits = {"max.connections": "5", "listener.name.plaintext.max.connections": "3"}
        reported.change({"compression.type": "lz4", **limits})
        await asyncio.sleep(0)
        assert fds.receive_closed(acceptor) == fds.Settings(limits)
        reported.change({"compression.type": "gzip", **limits})
        await asyncio.sleep(0)
        assert fds.receive_closed(acceptor) is None
        reported.change({})
        await asyncio.sleep(0)
        assert fds.receive_closed(acceptor) == fds.Settings({})

    with acceptor, process:
        asyncio.run(story())
