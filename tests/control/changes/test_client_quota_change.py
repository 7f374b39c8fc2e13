"""A change of quotas costs its own size, has a bound, and waits for no resolver of names while
others wait for it."""

import asyncio
import socket
import threading
from pathlib import Path

import pytest

from kbroker.config.client_quotas import CONSUMER_BYTE_RATE, IP, PRODUCER_BYTE_RATE, USER, QuotaTable
from kbroker.control.broker import Broker
from kbroker.control.changes.client_quota_change import (
    ENTITIES_AT_ONCE,
    QuotaAlteration,
    alter_client_quotas,
)
from kbroker.control.store.change import MAX_CHANGES
from kbroker.ipc.messages import Image
from kbroker.protocol.errors import ErrorCode, KafkaError
from tests.control.fakes import world

RATE = "connection_creation_rate"


def of_users(first: int, count: int, value: float | None = 1.0) -> list[QuotaAlteration]:
    users = range(first, first + count)
    return [QuotaAlteration(((USER, f"u{number}"),), [(PRODUCER_BYTE_RATE, value)]) for number in users]


def of_host(name: str) -> QuotaAlteration:
    return QuotaAlteration(((IP, name),), [(RATE, 5.0)])


def images_of(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> list[Image]:
    found: list[Image] = []

    async def announce(image: Image) -> None:
        found.append(image)

    monkeypatch.setattr(broker.links, "announce", announce)
    return found


def test_processes_are_sent_the_entities_that_have_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with world(tmp_path) as made:
        sent = images_of(made.broker, monkeypatch)
        for alterations in (of_users(0, 1000), of_users(7, 1, 2.0), of_users(8, 1, None)):
            results = asyncio.run(alter_client_quotas(made.broker, alterations, False))
            assert {why for _, why in results.items()} == {None}
        sizes = [len(image.quotas.quotas) for image in sent if image.quotas]
        assert max(sizes) <= ENTITIES_AT_ONCE
        assert sum(sizes[:-2]) == 1000
        assert sizes[-2:] == [1, 1]
        kept = QuotaTable({})
        for image in sent:
            assert image.quotas is not None
            kept.merge(image.quotas)
        assert kept.quotas == made.broker.quotas.quotas
        assert kept.quotas[((USER, "u7"),)] == {PRODUCER_BYTE_RATE: 2.0}
        assert len(kept.quotas) == 999


def test_a_change_leaves_an_entitys_other_quotas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In control, in the processes, and in the store; a request that only validates leaves all."""
    entity = ((USER, "u"),)
    steps: list[tuple[list[tuple[str, float | None]], dict[str, float]]] = [
        (
            [(PRODUCER_BYTE_RATE, 1.0), (CONSUMER_BYTE_RATE, 2.0)],
            {PRODUCER_BYTE_RATE: 1, CONSUMER_BYTE_RATE: 2},
        ),
        ([(PRODUCER_BYTE_RATE, 3.0)], {PRODUCER_BYTE_RATE: 3, CONSUMER_BYTE_RATE: 2}),
        ([(CONSUMER_BYTE_RATE, None)], {PRODUCER_BYTE_RATE: 3}),
    ]
    with world(tmp_path) as made:
        sent = images_of(made.broker, monkeypatch)
        for operations, left in steps:
            before = dict(made.broker.quotas.quotas)
            for validate_only, expected in ((True, before), (False, {entity: left})):
                alterations = [QuotaAlteration(entity, operations)]
                asyncio.run(alter_client_quotas(made.broker, alterations, validate_only))
                assert made.broker.quotas.quotas == expected
            assert sent[-1].quotas is not None
            assert sent[-1].quotas.quotas == {entity: left}
        assert len(sent) == len(steps)
        made.reboot()
        assert made.broker.quotas.quotas == {entity: left}


def test_a_request_has_a_bound(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        many = of_users(0, MAX_CHANGES + 1)
        with pytest.raises(KafkaError) as refused:
            asyncio.run(alter_client_quotas(made.broker, many, False))
        assert refused.value.code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert not made.broker.quotas.quotas
        asyncio.run(alter_client_quotas(made.broker, many, True))
        asyncio.run(alter_client_quotas(made.broker, many[1:], False))
        assert len(made.broker.quotas.quotas) == MAX_CHANGES


def test_addresses_are_not_resolved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", None)
    with world(tmp_path) as made:
        names = ("10.0.0.1", "::1", "fe80::1")
        results = asyncio.run(alter_client_quotas(made.broker, [of_host(name) for name in names], False))
        assert [why for _, why in results.items()] == [None] * 3


def test_other_changes_do_not_wait_for_a_resolver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answered = threading.Event()

    def resolve(*_: object) -> None:
        assert answered.wait(60)
        raise socket.gaierror

    monkeypatch.setattr(socket, "getaddrinfo", resolve)

    async def both(broker: Broker) -> list[str | None]:
        slow = asyncio.create_task(alter_client_quotas(broker, [of_host("slow.example")], False))
        await asyncio.sleep(0)
        await alter_client_quotas(broker, of_users(0, 1), False)
        assert not slow.done()
        answered.set()
        return [why for _, why in (await slow).items()]

    with world(tmp_path) as made:
        assert asyncio.run(both(made.broker)) == ["slow.example is not a valid IP or resolvable host."]
        assert list(made.broker.quotas.quotas) == [((USER, "u0"),)]
