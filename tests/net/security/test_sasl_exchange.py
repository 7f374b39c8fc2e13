"""SCRAM logins by delegation tokens: the client becomes the token's owner, as long as the token
lasts. Logins by PLAIN."""

import asyncio
import hashlib
import hmac
from typing import Any

import pytest

from kbroker.ipc.clock import wall_clock_ms
from kbroker.ipc.login_messages import FindScramCredential, FindTokenCredential, TokenCredential
from kbroker.ipc.messages import ScramCredential
from kbroker.net.security.sasl_exchange import PlainExchange, Refused, ScramExchange
from tests.net.security.scram_client import PASSWORD, client_final, credential

HOUR_MS = 3_600_000
NO_USER = ScramCredential(b"salt", bytes(32), bytes(32), 4096)


class Known:
    """Control: one user and one token, of the same name and password."""

    def __init__(self, expiry_ms: int) -> None:
        self.requests: list[object] = []
        self.expiry_ms = expiry_ms

    async def find_credential(self, request: FindScramCredential) -> ScramCredential:
        self.requests.append(request)
        return credential() if request.user == "it" else NO_USER

    async def find_token(self, request: FindTokenCredential) -> TokenCredential:
        self.requests.append(request)
        if request.token_id == "it":
            return TokenCredential(credential(), "owner", self.expiry_ms)
        return TokenCredential(NO_USER, "", 0)


def login(exchange: ScramExchange, name: str, extensions: str, password: bytes = PASSWORD) -> None:
    """Raises Refused."""

    async def talk() -> None:
        bare = f"n={name},r=x{extensions}"
        challenge = await exchange.step(f"n,,{bare}".encode())
        message, expected = client_final(challenge, password, "sha256", bare)
        assert await exchange.step(message) == expected

    asyncio.run(talk())


def test_a_client_with_a_token_becomes_its_owner() -> None:
    known = Known(wall_clock_ms() + HOUR_MS)
    exchange = ScramExchange("SCRAM-SHA-256", known)
    login(exchange, "it", ",tokenauth=true")
    assert (exchange.done, exchange.user, exchange.token_authenticated) == (True, "owner", True)
    assert known.requests == [FindTokenCredential("it", 1)]
    left_ms = exchange.left_ms()
    assert left_ms is not None
    assert HOUR_MS - 60_000 < left_ms <= HOUR_MS


@pytest.mark.parametrize(
    "extensions", ["", ",tokenauth=false", ",tokenauth=true,tokenauth=no", ",other=true"]
)
def test_without_the_extension_the_name_is_a_users(extensions: str) -> None:
    known = Known(0)
    exchange = ScramExchange("SCRAM-SHA-256", known)
    login(exchange, "it", extensions)
    assert (exchange.user, exchange.token_authenticated, exchange.left_ms()) == ("it", False, None)
    assert known.requests == [FindScramCredential("it", 1)]


@pytest.mark.parametrize(("name", "password"), [("it", b"wrong"), ("unknown", PASSWORD)])
def test_a_wrong_hmac_and_an_unknown_token_are_challenged_and_refused(name: str, password: bytes) -> None:
    exchange = ScramExchange("SCRAM-SHA-256", Known(wall_clock_ms() + HOUR_MS))
    with pytest.raises(Refused) as refused:
        login(exchange, name, ",tokenauth=True", password)
    assert refused.value.text is None
    assert exchange.guessed_user(b"") == name
    assert not exchange.done


def test_a_token_that_has_expired_since_the_challenge_is_refused() -> None:
    exchange = ScramExchange("SCRAM-SHA-256", Known(wall_clock_ms() - 1))
    with pytest.raises(Refused):
        login(exchange, "it", ",tokenauth=true")
    assert not exchange.done


def plain(token: bytes) -> PlainExchange:
    """Where only alice has a password. Raises Refused."""
    exchange = PlainExchange(lambda: {"alice": "secret"})
    try:
        assert asyncio.run(exchange.step(token)) == b""
    except Refused:
        assert (exchange.done, exchange.user) == (False, "")
        raise
    return exchange


def test_an_unknown_user_of_plain_costs_the_same_work_as_a_wrong_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Counted, not timed: the same steps, each over the password that the client sent."""
    steps: list[tuple[str, int]] = []
    compare, derive = hmac.compare_digest, hashlib.pbkdf2_hmac

    def compared(expected: bytes, given: bytes) -> bool:
        steps.append(("compare", len(given)))
        return compare(expected, given)

    def derived(*args: Any) -> bytes:
        steps.append(("PBKDF2", args[3]))
        return derive(*args)

    monkeypatch.setattr(hmac, "compare_digest", compared)
    monkeypatch.setattr(hashlib, "pbkdf2_hmac", derived)
    works = []
    for user in (b"alice", b"bobby"):
        with pytest.raises(Refused):
            plain(b"\0" + user + b"\0wrong-password")
        works.append(list(steps))
        steps.clear()
    assert works[0] == works[1] == [("compare", len("wrong-password"))]


@pytest.mark.parametrize("token", [b"\0alice\0secret", b"alice\0alice\0secret"])
def test_the_right_password_is_of_its_user(token: bytes) -> None:
    exchange = plain(token)
    assert (exchange.done, exchange.user) == (True, "alice")
    assert exchange.guessed_user(token) == "alice"


@pytest.mark.parametrize(
    ("token", "text"),
    [
        (b"\0alice\0wrong", "Invalid username or password"),
        (b"\0alice\0secret2", "Invalid username or password"),
        (b"\0bob\0secret", "Invalid username or password"),
        (b"\0bob\0 ", "Invalid username or password"),
        (b"\0alice\0", "password not specified"),
        (b"\0bob\0", "password not specified"),
        (b"\0\0secret", "username not specified"),
        (b"bob\0alice\0secret", "an authorization id that is different from username"),
        (b"alice\0secret", "expected 3 tokens, got 2"),
        (b"\0alice\0secret\0", "expected 3 tokens, got 4"),
    ],
)
def test_any_other_plain_message_is_refused_with_kafkas_text(token: bytes, text: str) -> None:
    with pytest.raises(Refused) as refused:
        plain(token)
    assert refused.value.text is not None
    assert refused.value.text.endswith(text)
