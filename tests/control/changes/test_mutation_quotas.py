"""Quotas of changes of topics: who is refused, who is only throttled, and for how long."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kbroker.config.client_quotas import CLIENT_ID, CONTROLLER_MUTATION_RATE, Bound, QuotaTable, entity_of
from kbroker.config.principals import MAX_NAME
from kbroker.control.changes import mutation_quotas
from kbroker.control.changes.mutation_quotas import MutationQuota, MutationQuotas
from kbroker.control.clients.quotas import QuotaReports
from kbroker.control.requests import RequestTime
from kbroker.ipc.rate_limit import MAX_MS
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from tests.api.in_process import client_request
from tests.control.fakes import World, world

STRICT_FROM = 6
SLOW = 1e-4
"""Partitions of a second: no test is long enough for one."""
SECONDS = 11
"""Samples of a second each whose credits may be spent at once."""


@pytest.fixture
def made(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path) as one:
        yield one


def limit(made: World, rate: float | None) -> None:
    values = {} if rate is None else {CONTROLLER_MUTATION_RATE: rate}
    made.broker.quotas = QuotaTable({entity_of([(CLIENT_ID, "raw")]): values})


def quota(quotas: MutationQuotas, version: int) -> MutationQuota:
    return quotas.of_client(client_request(ApiKey.CREATE_TOPICS, version, b""), STRICT_FROM)


def test_a_client_may_spend_its_credits_and_is_refused_until_they_are_back(made: World) -> None:
    limit(made, SLOW)
    quotas = MutationQuotas(made.broker)
    first = quota(quotas, STRICT_FROM)
    first.record(1)  # more than all of its credits
    assert first.throttle_ms == 0
    second = quota(quotas, STRICT_FROM)
    with pytest.raises(KafkaError) as refused:
        second.record(1)
    assert refused.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    expected_ms = 1000 * (1 - SLOW * SECONDS) / SLOW
    assert 0.9 * expected_ms < second.throttle_ms <= expected_ms + 1
    with pytest.raises(KafkaError):
        second.record(1)
    assert second.throttle_ms <= expected_ms + 1, "what was refused is not counted"


def test_a_client_that_does_not_know_the_error_is_throttled_and_served(made: World) -> None:
    limit(made, SLOW)
    quotas = MutationQuotas(made.broker)
    old = quota(quotas, STRICT_FROM - 1)
    old.record(1)
    once_ms = old.throttle_ms
    assert once_ms > 0
    old.record(1)
    assert old.throttle_ms > 1.9 * once_ms
    assert old.throttle_ms <= MAX_MS
    with pytest.raises(KafkaError):
        quota(quotas, STRICT_FROM).record(1)


def test_a_new_limit_holds_for_what_was_spent_before(made: World) -> None:
    limit(made, SLOW)
    quotas = MutationQuotas(made.broker)
    old = quota(quotas, STRICT_FROM - 1)
    old.record(1)
    before_ms = old.throttle_ms
    limit(made, 10 * SLOW)
    again = quota(quotas, STRICT_FROM)
    with pytest.raises(KafkaError):
        again.record(1)
    assert again.throttle_ms < before_ms / 9
    limit(made, 1000.0)
    bound = made.broker.quotas.bound(CONTROLLER_MUTATION_RATE, "", "raw")
    assert bound is not None
    assert quotas.bucket(bound, 1e9).tokens == 1000 * SECONDS


def test_without_a_quota_nothing_is_counted(made: World) -> None:
    limit(made, None)
    quotas = MutationQuotas(made.broker)
    for version in (STRICT_FROM - 1, STRICT_FROM):
        one = quota(quotas, version)
        one.record(1_000_000)
        assert one.throttle_ms == 0


@pytest.mark.parametrize("version", [STRICT_FROM - 1, STRICT_FROM])
def test_a_client_is_held_back_below_zero_credits_and_not_at_zero(
    made: World, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 5.0)
    limit(made, 1.0)
    quotas = MutationQuotas(made.broker)
    one = quota(quotas, version)
    one.record(SECONDS)
    assert one.throttle_ms == 0
    one.record(2)
    assert one.throttle_ms == (0 if version >= STRICT_FROM else 2000)
    if version >= STRICT_FROM:
        with pytest.raises(KafkaError):
            one.record(1)
        assert one.throttle_ms == 2000


def test_of_too_many_clients_those_with_debts_are_remembered(
    made: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mutation_quotas, "REMEMBERED", 3)
    quotas = MutationQuotas(made.broker)
    for name, taken in (("debtor", SECONDS + 1), ("even", SECONDS), ("idle", 0)):
        quotas.bucket(Bound(1.0, "", name), 5.0).take(taken)
    assert len(quotas._buckets) == 3
    quotas.bucket(Bound(1.0, "", "new"), 5.0)
    assert list(quotas._buckets) == [("", "debtor"), ("", "new")]
    assert quotas.bucket(Bound(1.0, "", "debtor"), 5.0).tokens == -1


def test_debtors_with_ever_new_client_ids_are_bounded(made: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutation_quotas, "REMEMBERED", 10)
    quotas = MutationQuotas(made.broker)
    for number in range(100):
        quotas.bucket(Bound(1.0, "", f"client-{number}"), 5.0).take(SECONDS + 1)
        assert len(quotas._buckets) <= 10
    assert quotas.bucket(Bound(1.0, "", "client-99"), 5.0).tokens == -1


def test_debts_that_are_paid_are_forgotten(made: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutation_quotas, "REMEMBERED", 3)
    quotas = MutationQuotas(made.broker)
    for number in range(3):
        quotas.bucket(Bound(1.0, "", f"client-{number}"), 5.0).take(SECONDS + 1)
    quotas.bucket(Bound(1.0, "", "new"), 7.0)
    assert list(quotas._buckets) == [("", "new")]


def test_long_client_ids_are_kept_by_their_hash(made: World) -> None:
    quotas = MutationQuotas(made.broker)
    for end in "ab":
        quotas.bucket(Bound(1.0, "", "x" * 32_000 + end), 5.0).take(SECONDS + ord(end))
    assert quotas.bucket(Bound(1.0, "", "x" * 32_000 + "a"), 5.0).tokens == -ord("a")
    assert max(len(client_id) for _, client_id in quotas._buckets) <= MAX_NAME


def test_the_credits_and_all_rates_have_the_windows_of_their_settings(tmp_path: Path) -> None:
    """Every process counts in the same windows, of which the rates of a client are the sums."""
    settings = {
        "controller.quota.window.num": "5",
        "controller.quota.window.size.seconds": "7",
        "quota.window.size.seconds": "3",
    }
    with world(tmp_path, settings) as one:
        quotas = MutationQuotas(one.broker)
        assert quotas.bucket(Bound(2.0, "", "c"), 0.0).capacity == 2.0 * 5 * 7
        for counts in (quotas, RequestTime(one.broker), QuotaReports(one.broker)):
            assert counts._sensors.window_ms == 3000
