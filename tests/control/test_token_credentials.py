"""Credentials of delegation tokens: made once, of the HMAC, for tokens in force alone."""

import asyncio
import base64
import hashlib
import hmac

import pytest

from kbroker.config.broker import BrokerConfig
from kbroker.control.decoys import Decoys
from kbroker.control.logins import TokenCredentials
from kbroker.control.metadata.delegation_tokens import DelegationToken, DelegationTokens
from kbroker.ipc.login_messages import TokenCredential

TOKEN = DelegationToken("id", "User:ann:e", "User:admin", (), 10, 100, 50)
CONFIG = BrokerConfig.load({"log.dirs": "/d", "delegation.token.secret.key": "s3cret"})[0]


@pytest.fixture
def tokens() -> DelegationTokens:
    return DelegationTokens(CONFIG, [TOKEN])


def credentials(tokens: DelegationTokens) -> TokenCredentials:
    return TokenCredentials(tokens, Decoys(b"secret", {}))


def find(made: TokenCredentials, token_id: str, mechanism: int, now_ms: int = 20) -> TokenCredential | None:
    """None for a token that is not in force: such a credential lets no client in."""
    found = asyncio.run(made.find(token_id, mechanism, lambda: now_ms))
    return found if found.owner else None


@pytest.mark.parametrize(("mechanism", "hash_name"), [(1, "sha256"), (2, "sha512")])
def test_the_credential_is_that_of_the_hmac_as_a_password(
    tokens: DelegationTokens, mechanism: int, hash_name: str
) -> None:
    found = find(credentials(tokens), "id", mechanism)
    assert found is not None
    salt, stored_key, server_key, iterations = found.credential
    password = base64.b64encode(hmac.new(b"s3cret", b"id", hashlib.sha512).digest())
    salted = hashlib.pbkdf2_hmac(hash_name, password, salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", hash_name)
    assert stored_key == hashlib.new(hash_name, client_key).digest()
    assert server_key == hmac.digest(salted, b"Server Key", hash_name)
    assert (found.owner, found.expiry_ms, iterations) == ("ann:e", 50, 4096)


def test_a_credential_is_made_once(tokens: DelegationTokens) -> None:
    made = credentials(tokens)
    first = find(made, "id", 1)
    tokens.put(TOKEN._replace(expiry_ms=60))
    again = find(made, "id", 1)
    assert first is not None
    assert again == first._replace(expiry_ms=60)


def test_a_token_that_is_not_in_force_has_none(tokens: DelegationTokens) -> None:
    made = credentials(tokens)
    assert find(made, "id", 1) is not None
    assert find(made, "id", 1, 51) is None
    assert find(made, "other", 1) is None
    assert find(made, "id", 3) is None
    tokens.remove("id")
    assert find(made, "id", 1) is None


def test_a_token_that_ends_while_its_credential_is_made_has_none(tokens: DelegationTokens) -> None:
    times = iter((20, 51))
    found = asyncio.run(credentials(tokens).find("id", 1, lambda: next(times)))
    assert found == TokenCredential(Decoys(b"secret", {}).token("id", 1), "", 0)


def test_few_credentials_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kbroker.control.logins.MAX_KEPT", 2)
    many = DelegationTokens(CONFIG, [TOKEN._replace(token_id=str(number)) for number in range(3)])
    made = credentials(many)
    first = [find(made, str(number), 1) for number in range(3)]
    assert find(made, "2", 1) == first[2]
    assert find(made, "0", 1) == first[0]
    assert list(made._kept) == [("2", 1), ("0", 1)]


def test_the_salt_of_a_token_stays_the_same_whether_it_is_in_force_or_not(tokens: DelegationTokens) -> None:
    salts = set()
    for now_ms in (20, 51):
        for _ in ("one run", "the next run"):
            found = asyncio.run(credentials(tokens).find("id", 1, lambda: now_ms))  # noqa: B023
            salts.add((found.credential.salt, found.credential.iterations))
    assert len(salts) == 1
