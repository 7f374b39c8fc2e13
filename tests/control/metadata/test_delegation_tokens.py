"""Delegation tokens in memory: found by id and by HMAC, counted by requester, useless without the
secret."""

import hashlib
import hmac
from collections.abc import Mapping

from kbroker.config.broker import BrokerConfig
from kbroker.control.metadata.delegation_tokens import SECRET, DelegationToken, DelegationTokens

TOKEN = DelegationToken("id", "User:ann", "User:admin", ("User:bob", "User:cid"), 10, 100, 50)


def tokens(settings: Mapping[str, str], *stored: DelegationToken) -> DelegationTokens:
    return DelegationTokens(BrokerConfig.load({"log.dirs": "/d", **settings})[0], stored)


def test_the_hmac_is_that_of_the_id_keyed_with_the_secret() -> None:
    found = tokens({SECRET: "s3cret"}, TOKEN)
    expected = hmac.new(b"s3cret", b"id", hashlib.sha512).digest()
    assert found.hmac_of("id") == expected
    assert found.of_hmac(expected) == found.get("id") == TOKEN
    assert found.of_hmac(expected[:-1]) is None
    assert tokens({SECRET: "other"}, TOKEN).of_hmac(expected) is None


def test_without_a_secret_no_token_is_of_any_use() -> None:
    for settings in ({}, {SECRET: ""}):
        found = tokens(settings, TOKEN)
        assert not found.enabled
        assert found.get("id") is None
        assert list(found) == [TOKEN], "it is still in the store"


def test_a_changed_token_replaces_the_old_one_and_a_removed_one_leaves_nothing() -> None:
    found = tokens({SECRET: "s3cret"}, TOKEN)
    found.put(TOKEN._replace(expiry_ms=60))
    assert [token.expiry_ms for token in found] == [60]
    assert found.requested_by("User:admin") == 1
    found.remove("id")
    found.remove("id")
    assert found.of_hmac(found.hmac_of("id")) is None
    assert found.requested_by("User:admin") == 0


def test_a_token_has_expired_after_the_earlier_one_of_its_times() -> None:
    assert not TOKEN.has_expired(50)
    assert TOKEN.has_expired(51)
    assert TOKEN._replace(expiry_ms=200).has_expired(101)


def test_owner_and_renewers_manage_a_token_and_its_requester_only_sees_it() -> None:
    assert [
        name for name in ("ann", "admin", "bob", "cid", "dan") if TOKEN.is_managed_by(f"User:{name}")
    ] == [
        "ann",
        "bob",
        "cid",
    ]
    assert TOKEN.is_shown_to("User:admin")
    assert not TOKEN.is_shown_to("User:dan")


def test_each_time_of_tokens_is_that_of_its_setting() -> None:
    found = tokens(
        {
            "delegation.token.max.lifetime.ms": "30",
            "delegation.token.expiry.time.ms": "20",
            "delegation.token.expiry.check.interval.ms": "10",
        }
    )
    assert (found.max_lifetime_ms, found.renewal_ms, found.check_interval_ms) == (30, 20, 10)
