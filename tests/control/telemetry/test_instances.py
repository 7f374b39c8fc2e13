"""Client instances: when each may come, and when it is forgotten."""

from collections.abc import Mapping
from typing import Any

import pytest

from kbroker.config.client_metrics import CLIENT_METRICS
from kbroker.control.telemetry import instances
from kbroker.control.telemetry.instances import (
    EXPIRY_MS,
    INTERVALS,
    NEVER,
    SWEEP_MS,
    ClientInstance,
    ClientSubscription,
    Instances,
)
from kbroker.protocol.crc32c import crc32c

INTERVAL_MS = 5000


class Subscribed:
    """A subscription to metrics at an interval, which matches one client."""

    def __init__(self, client: str, metrics: tuple[str, ...], interval_ms: int) -> None:
        self.client, self.metrics, self.interval_ms = client, metrics, interval_ms

    def matches(self, client: Mapping[str, str]) -> bool:
        return client["client_id"] == self.client


def union(*subscribed: Subscribed) -> ClientSubscription:
    """Of a client "c"."""
    named: Any = {str(number): each for number, each in enumerate(subscribed)}
    return ClientSubscription.of(named, {"client_id": "c"})


def instance(name: str = "a", connection_id: int = 1) -> ClientInstance:
    subscription = ClientSubscription(("m",), INTERVAL_MS)
    return ClientInstance(name.encode() * 16, {}, connection_id, subscription, version=1)


@pytest.fixture
def gone() -> list[str]:
    return []


@pytest.fixture
def table(gone: list[str]) -> Instances:
    return Instances(lambda instance_id: gone.append(instance_id[:1].decode()))


def test_a_client_pushes_what_any_of_its_subscriptions_names_as_often_as_the_most_frequent() -> None:
    default_ms = CLIENT_METRICS["interval.ms"].default_value()
    assert isinstance(default_ms, int)
    assert union() == ClientSubscription((), default_ms)
    other = Subscribed("d", ("*",), 100)
    assert union(other, Subscribed("c", ("b", "a"), 9000), Subscribed("c", ("c", "a"), 8000)) == (
        ClientSubscription(("a", "b", "c"), 8000)
    )
    assert union(Subscribed("c", ("b", "*"), 9000)) == ClientSubscription(("*",), 9000)


def test_the_id_of_a_subscription_is_a_checksum_mixed_with_the_clients_id() -> None:
    subscription = ClientSubscription(("a", "b"), 8000)
    checksum = crc32c(b"[a, b]8000")
    signed = checksum - (1 << 32) if checksum >> 31 else checksum
    assert subscription.subscription_id(bytes(16)) == signed
    mixed = subscription.subscription_id(bytes.fromhex("00000001000000020000000480000008"))
    assert mixed & 0xFFFFFFFF == checksum ^ 0x8000000F
    assert -(1 << 31) <= mixed < 1 << 31


def test_a_client_may_ask_again_after_its_interval() -> None:
    one = instance()
    assert one.may_get(0)
    assert not one.may_get(INTERVAL_MS - 1)
    assert one.may_get(INTERVAL_MS)
    assert not one.may_get(2 * INTERVAL_MS - 1)
    one.last_push_ms = 2 * INTERVAL_MS
    assert not one.may_get(2 * INTERVAL_MS + 1)
    assert one.last_get_ms == INTERVAL_MS


def test_a_client_may_push_at_once_after_its_question_and_then_after_its_interval() -> None:
    one = instance()
    assert one.may_get(0)
    assert one.may_push(1)
    assert not one.may_push(INTERVAL_MS)
    assert one.may_push(INTERVAL_MS + 1)
    assert not one.may_push(2 * INTERVAL_MS)
    assert one.last_push_ms == INTERVAL_MS + 1


def test_a_client_that_never_asked_may_push() -> None:
    one = instance()
    assert (one.last_get_ms, one.last_push_ms) == (NEVER, NEVER)
    assert one.may_push(0)


@pytest.mark.parametrize(
    ("interval_ms", "kept_ms"), [(INTERVAL_MS, EXPIRY_MS), (30_000, INTERVALS * 30_000), (20_000, EXPIRY_MS)]
)
def test_an_instance_is_forgotten_after_some_intervals_of_silence(
    table: Instances, gone: list[str], interval_ms: int, kept_ms: int
) -> None:
    one = ClientInstance(b"a" * 16, {}, 1, ClientSubscription((), interval_ms), version=1)
    table.put(one)
    table.used(one, 1000)
    table.sweep(999 + kept_ms)
    assert len(table) == 1
    table.sweep(999 + kept_ms + SWEEP_MS)
    assert (len(table), gone) == (0, ["a"])


def test_instances_are_checked_now_and_then(table: Instances, gone: list[str]) -> None:
    table.sweep(0)
    one = instance()
    table.put(one)
    one.expires_ms = 1
    table.sweep(SWEEP_MS - 1)
    assert gone == []
    table.sweep(SWEEP_MS)
    assert gone == ["a"]


def test_a_replaced_instance_is_not_gone(table: Instances, gone: list[str]) -> None:
    table.put(instance(connection_id=1))
    later = instance(connection_id=2)
    table.put(later)
    assert (len(table), gone) == (1, [])
    table.closed(1)
    assert table.get(later.instance_id) is later
    table.closed(2)
    assert (len(table), gone) == (0, ["a"])


def test_a_connection_has_one_client(table: Instances, gone: list[str]) -> None:
    table.put(instance("a", 1))
    table.put(instance("b", 1))
    assert (len(table), gone) == (1, ["a"])
    table.closed(7)
    table.remove(b"c" * 16)
    assert (len(table), gone) == (1, ["a"])


def test_the_instance_that_was_used_longest_ago_makes_room(
    table: Instances, gone: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instances, "MAX_INSTANCES", 2)
    for number, name in enumerate("ab"):
        table.put(instance(name, number))
    assert table.get(b"a" * 16) is not None
    table.put(instance("c", 2))
    assert gone == ["b"]
    table.put(instance("a", 3))
    assert (len(table), gone) == (2, ["b"])
