"""Delegation tokens are created, renewed, expired and removed by Kafka's rules, and are in the
store before they are in force."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kbroker.config.setting import LONG_MAX
from kbroker.control.changes.token_change import (
    MAX_PRINCIPALS_CHARACTERS,
    create_token,
    expire_token,
    remove_expired,
    renew_token,
)
from kbroker.control.metadata.delegation_tokens import DelegationToken
from kbroker.protocol.errors import ErrorCode, KafkaError
from tests.control.fakes import World, world

NOW = 1_000_000
SETTINGS = {
    "delegation.token.secret.key": "s3cret",
    "delegation.token.max.lifetime.ms": "10000",
    "delegation.token.expiry.time.ms": "1000",
}
ANN, BOB, ADMIN = "User:ann", "User:bob", "User:admin"


class Clock:
    """The broker's wall clock. now_ms: what it shows."""

    now_ms = NOW


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def made(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with world(tmp_path, SETTINGS) as one:
        monkeypatch.setattr(type(one.broker), "now_ms", lambda _: clock.now_ms)
        yield one


def create(made: World, lifetime_ms: int = -1, renewers: tuple[str, ...] = (BOB,)) -> DelegationToken:
    return asyncio.run(create_token(made.broker, ANN, ADMIN, renewers, lifetime_ms))


def hmac_of(made: World, token: DelegationToken) -> bytes:
    return made.broker.tokens.hmac_of(token.token_id)


def renew(made: World, token: DelegationToken, period_ms: int, principal: str = ANN) -> int:
    return asyncio.run(renew_token(made.broker, principal, hmac_of(made, token), period_ms))


def expire(made: World, token: DelegationToken, period_ms: int, principal: str = ANN) -> int:
    return asyncio.run(expire_token(made.broker, principal, hmac_of(made, token), period_ms))


@pytest.mark.parametrize(
    ("lifetime_ms", "max_ms", "expiry_ms"),
    [
        (-1, NOW + 10_000, NOW + 1000),
        (0, NOW + 10_000, NOW + 1000),
        (LONG_MAX, NOW + 10_000, NOW + 1000),
        (500, NOW + 500, NOW + 500),
        (5000, NOW + 5000, NOW + 1000),
    ],
)
def test_the_times_of_a_new_token_are_within_the_brokers_limits(
    made: World, lifetime_ms: int, max_ms: int, expiry_ms: int
) -> None:
    token = create(made, lifetime_ms)
    assert (token.issued_ms, token.max_ms, token.expiry_ms) == (NOW, max_ms, expiry_ms)
    assert (token.owner, token.requester, token.renewers) == (ANN, ADMIN, (BOB,))
    assert len(token.token_id) == 22


def test_a_token_is_in_force_again_after_a_restart(made: World) -> None:
    token = create(made)
    renewed = token._replace(expiry_ms=NOW + 700)
    renew(made, token, 700)
    gone = create(made)
    expire(made, gone, -1)
    broker = made.reboot()
    assert list(broker.tokens) == [renewed]
    assert broker.tokens.of_hmac(hmac_of(made, token)) == renewed
    database = Path(made.dirs[0], "kbroker.db").read_bytes()
    assert token.token_id.encode() in database
    assert hmac_of(made, token) not in database
    assert b"s3cret" not in database


def test_a_renewal_is_within_the_brokers_period_and_the_tokens_life(made: World, clock: Clock) -> None:
    token = create(made)
    assert renew(made, token, 400) == NOW + 400
    assert renew(made, token, 5000) == NOW + 1000
    assert renew(made, token, -1, BOB) == NOW + 1000
    for clock.now_ms in range(NOW, NOW + 9500, 900):
        last = renew(made, token, 0)
    assert last == NOW + 9000 + 1000 == token.max_ms


def test_an_expiry_is_within_the_tokens_life_and_a_negative_one_ends_it(made: World) -> None:
    token = create(made)
    assert expire(made, token, LONG_MAX, BOB) == NOW + 10_000
    assert expire(made, token, 30) == NOW + 30
    assert expire(made, token, -7) == NOW
    assert list(made.broker.tokens) == []


@pytest.mark.parametrize("change", [renew, expire])
def test_only_owner_and_renewers_change_a_token_that_is_in_force(
    made: World, clock: Clock, change: Callable[..., int]
) -> None:
    def error(token: DelegationToken, principal: str) -> ErrorCode:
        with pytest.raises(KafkaError) as refused:
            change(made, token, 500, principal)
        return refused.value.code

    token = create(made)
    for stranger in (ADMIN, "User:dan", "Group:ann"):
        assert error(token, stranger) is ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert error(token._replace(token_id="other"), ANN) is ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    clock.now_ms += 1001
    assert error(token, BOB) is ErrorCode.DELEGATION_TOKEN_EXPIRED


def test_an_expired_token_can_still_be_ended(made: World, clock: Clock) -> None:
    token = create(made)
    clock.now_ms += 1001
    with pytest.raises(KafkaError) as refused:
        expire(made, token, -1, "User:dan")
    assert refused.value.code is ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert expire(made, token, -1) == NOW + 1001
    assert list(made.broker.tokens) == []


def test_without_a_secret_every_change_is_refused(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        for change in (
            create_token(made.broker, ANN, ANN, (), -1),
            renew_token(made.broker, ANN, b"h", -1),
            expire_token(made.broker, ANN, b"h", -1),
        ):
            with pytest.raises(KafkaError) as refused:
                asyncio.run(change)
            assert refused.value.code is ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


def test_expired_tokens_are_removed_from_the_store_too(made: World) -> None:
    kept, first, second = create(made), create(made, 10), create(made, 20)
    asyncio.run(remove_expired(made.broker, NOW + 20))
    assert set(made.broker.tokens) == {kept, second}
    asyncio.run(remove_expired(made.broker, NOW + 21))
    assert set(made.broker.stores.first.load().tokens) == {kept.token_id}
    assert first.token_id != second.token_id


def test_the_tokens_of_a_client_are_bounded(made: World, monkeypatch: pytest.MonkeyPatch) -> None:
    long = "User:" + "x" * (MAX_PRINCIPALS_CHARACTERS // 4)
    with pytest.raises(KafkaError) as refused:
        create(made, renewers=(long,) * 4)
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    monkeypatch.setattr("kbroker.control.changes.token_change.MAX_TOKENS_OF_REQUESTER", 2)
    create(made, 10)
    create(made)
    with pytest.raises(KafkaError) as refused:
        create(made)
    assert refused.value.code is ErrorCode.POLICY_VIOLATION
    asyncio.run(remove_expired(made.broker, NOW + 11))
    create(made)
