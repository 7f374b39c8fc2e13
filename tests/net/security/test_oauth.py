"""Tokens: the users that they log in, and the tokens that are refused."""

import asyncio
import base64
import json
import threading
import time
from pathlib import Path
from typing import Any

import jwt
import pytest

from kbroker.config.broker import BrokerConfig
from kbroker.net.rate_limited_log import BURST, RateLimitedLog
from kbroker.net.security.oauth import (
    BadToken,
    OAuthExchange,
    TokenChecks,
    first_message,
    log,
    why_unusable,
)
from kbroker.net.security.sasl_exchange import Refused
from tests.net.security.oauth_tokens import KEY, OTHER, claims, jwks, made, token


@pytest.fixture
def checks(tmp_path: Path) -> TokenChecks:
    jwks(tmp_path / "jwks.json", k=KEY)
    return made(tmp_path)


def test_a_good_token_names_its_user_and_its_end(checks: TokenChecks) -> None:
    end = int(time.time()) + 100
    assert claims(checks, token(exp=end)) == ("alice", end)
    assert claims(checks, token(aud=["else", "other"]))[0] == "alice"
    assert claims(checks, token(exp=int(time.time()) - 2))[0] == "alice"  # within the skew


@pytest.mark.parametrize("name", [" alice", "alice\t", "\x00 alice\n"])
def test_blanks_around_a_name_make_no_other_user(checks: TokenChecks, name: str) -> None:
    """As in Apache Kafka: before, ACLs of alice, and denials, did not apply to such a token."""
    assert claims(checks, token(sub=name))[0] == "alice"


@pytest.mark.parametrize(
    "wrong",
    [
        {"key": OTHER}, {"kid": "none"}, {"exp": None}, {"iat": None}, {"exp": 1}, {"iat": 1 << 40}, {"nbf": 1 << 40},
        {"aud": "mine"}, {"aud": None}, {"iss": "https://mallory"}, {"iss": None}, {"sub": None}, {"sub": " "},
        {"sub": 7}, {"sub": "a\ud800"}, {"key": "0123456789abcdef0123456789abcdef", "algorithm": "HS256"},
        {"key": None, "algorithm": "none"},
    ],
)  # fmt: skip
def test_a_login_with_a_bad_token_is_refused(checks: TokenChecks, wrong: dict[str, Any]) -> None:
    with pytest.raises(BadToken):
        claims(checks, token(**wrong))


@pytest.mark.parametrize("text", ["", "x", "a.b.c", "e30.e30.", "." * 1000])
def test_a_login_without_a_valid_token_is_refused(checks: TokenChecks, text: str) -> None:
    with pytest.raises(BadToken):
        claims(checks, text)


def test_a_header_that_is_nested_too_deeply_is_a_bad_token(
    checks: TokenChecks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Older versions of PyJWT do not catch the error of the JSON parser."""

    def deep(_token: str) -> None:
        raise RecursionError("maximum recursion depth exceeded")

    monkeypatch.setattr(jwt, "get_unverified_header", deep)
    with pytest.raises(BadToken, match="recursion"):
        claims(checks, token())


@pytest.mark.parametrize("claim", ["exp", "iat", "nbf"])
def test_a_time_of_another_type_is_a_bad_token(
    checks: TokenChecks, monkeypatch: pytest.MonkeyPatch, claim: str
) -> None:
    """PyJWT 2.10 does not catch the error of int()."""
    decode = jwt.decode

    def converted(text: str, *args: Any, **options: Any) -> Any:
        int(decode(text, options={"verify_signature": False})[claim])
        return decode(text, *args, **options)

    monkeypatch.setattr(jwt, "decode", converted)
    with pytest.raises(BadToken):
        claims(checks, token(**{claim: []}))


@pytest.mark.parametrize("claim", ["exp", "iat", "nbf"])
def test_an_infinite_time_is_a_bad_token(checks: TokenChecks, claim: str) -> None:
    """JSON may have 1e999."""
    with pytest.raises(BadToken):
        claims(checks, token(**{claim: float("inf")}))


@pytest.mark.parametrize("end", [10**400, 1e300, 1 << 62, "99999999999999999999"])
def test_a_token_whose_end_is_far_off_ends_in_time_for_an_int64(checks: TokenChecks, end: object) -> None:
    user, ends_s = claims(checks, token(exp=end))
    assert user == "alice"
    exchange = OAuthExchange(checks)
    exchange.ends_s = ends_s
    assert 0 < exchange.left_ms() < 1 << 63


def test_the_name_may_be_in_another_claim(tmp_path: Path, checks: TokenChecks) -> None:
    other = made(tmp_path, **{"sub.claim.name": "email"})
    assert claims(other, token(email="a@b"))[0] == "a@b"
    with pytest.raises(BadToken):
        claims(other, token())


def test_a_published_secret_is_no_key(tmp_path: Path) -> None:
    """Some versions of PyJWT check a token by the algorithm of its key, although the token names
    another one that is allowed: before, a reader of such a set of keys could sign tokens."""
    secret = base64.urlsafe_b64encode(b"s" * 32).decode().rstrip("=")
    found = {"keys": [{"kty": "oct", "kid": "s", "k": secret}, {"kty": "oct", "k": secret, "alg": "HS512"}]}
    (tmp_path / "jwks.json").write_text(json.dumps(found))
    with pytest.raises(BadToken, match="no key"):
        claims(made(tmp_path), token(b"s" * 32, "s", "HS256"))
    jwks(tmp_path / "jwks.json", k=KEY)
    assert set(made(tmp_path)._fetched()) == {"k"}


def test_a_new_key_is_found_and_made_up_ones_do_not_fetch_each_time(
    tmp_path: Path, checks: TokenChecks, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims(checks, token())
    fetched: list[float] = []
    real = checks._fetched
    monkeypatch.setattr(checks, "_fetched", lambda: (fetched.append(0), real())[1])
    for number in range(50):
        with pytest.raises(BadToken):
            claims(checks, token(kid=f"made-up-{number}"))
    assert fetched == []
    jwks(tmp_path / "jwks.json", n=OTHER)
    checks._next_check_s = 0
    assert claims(checks, token(OTHER, "n"))[0] == "alice"
    assert len(fetched) == 1
    (tmp_path / "jwks.json").unlink()
    checks._fetch_at_s = 0
    assert (
        claims(checks, token(OTHER, "n"))[0] == "alice"
    )  # while an issuer is away its known keys stay valid


def test_keys_are_fetched_again_after_pauses_that_double(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1000.0]
    monkeypatch.setattr("kbroker.net.security.oauth.time.monotonic", lambda: clock[0])
    checks = made(
        tmp_path, **{"jwks.endpoint.retry.backoff.ms": "200", "jwks.endpoint.retry.backoff.max.ms": "700"}
    )
    pauses = []
    for _ in range(4):
        with pytest.raises(BadToken):
            claims(checks, token())
        pauses.append(round(checks._fetch_at_s - clock[0], 3))
        clock[0] = checks._fetch_at_s
    assert pauses == [0.2, 0.4, 0.7, 0.7]
    jwks(tmp_path / "jwks.json", k=KEY)
    assert claims(checks, token())[0] == "alice"
    assert checks._fetch_at_s == clock[0] + 3600
    (tmp_path / "jwks.json").unlink()
    clock[0] = checks._fetch_at_s
    claims(checks, token())
    assert checks._fetch_at_s == pytest.approx(clock[0] + 0.2)


def test_a_login_with_a_known_key_does_not_wait_for_a_slow_issuer(
    checks: TokenChecks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One client with invented key ids held the logins of all others, for ten seconds of each
    ten."""
    claims(checks, token())
    answered, fetches = threading.Event(), []
    monkeypatch.setattr(checks, "_fetched", lambda: (fetches.append(0), answered.wait(60), {})[2])

    async def run() -> None:
        checks._next_check_s = 0
        invented = [asyncio.ensure_future(checks.check(token(kid=f"made-up-{n}"))) for n in range(50)]
        assert (await checks.check(token()))[0] == "alice"
        checks._fetch_at_s = 0  # nor for the keys that replace the known ones
        assert (await checks.check(token()))[0] == "alice"
        assert not any(each.done() for each in invented)
        answered.set()
        found = await asyncio.gather(*invented, return_exceptions=True)
        assert {type(each) for each in found} == {BadToken}

    asyncio.run(run())
    assert len(fetches) <= 2


def test_the_log_shows_the_start_of_few_refusals(
    checks: TokenChecks, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients without a login filled the disk: each token may have a key id of 48 kB."""
    monkeypatch.setattr(checks, "_warn", RateLimitedLog(log, lambda: 0.0))

    async def run() -> None:
        for _ in range(3 * BURST):
            bad = OAuthExchange(checks)
            assert await bad.step(client_first(token(kid="k" * 40_000))) == b'{"status":"invalid_token"}'

    asyncio.run(run())
    lines = [record.getMessage() for record in caplog.records if "rejected" in record.getMessage()]
    assert len(lines) == BURST
    assert max(map(len, lines)) < 300


@pytest.mark.parametrize("scope", [["a", "b"], "a b", [], None, 7])
def test_scopes_need_not_be_there(checks: TokenChecks, scope: object) -> None:
    assert claims(checks, token(scope=scope))[0] == "alice"


@pytest.mark.parametrize("scope", ["", " ", ["a", "a "], ["a", ""], ["a", 7]])
def test_a_login_with_blank_or_repeated_scopes_is_refused(
    tmp_path: Path, checks: TokenChecks, scope: object
) -> None:
    with pytest.raises(BadToken, match="scope value must"):
        claims(checks, token(scope=scope))
    other = made(tmp_path, **{"scope.claim.name": "scp"})
    assert claims(other, token(scope=scope))[0] == "alice"
    with pytest.raises(BadToken, match="scp value must"):
        claims(other, token(scp=scope))


def client_first(text: str, authzid: str = "") -> bytes:
    return f"n,{authzid},\x01auth=Bearer {text}\x01\x01".encode()


def test_a_login_by_token_succeeds_or_names_its_error(checks: TokenChecks) -> None:
    async def run() -> None:
        good = OAuthExchange(checks)
        assert await good.step(client_first(token(), "a=alice")) == b""
        assert (good.done, good.user) == (True, "alice")
        assert 50_000 < good.left_ms() <= 60_000
        bad = OAuthExchange(checks)
        assert await bad.step(client_first(token(OTHER))) == b'{"status":"invalid_token"}'
        assert not bad.done
        with pytest.raises(Refused):
            await bad.step(client_first(token()))
        with pytest.raises(Refused, match="different from the token's principal name"):
            await OAuthExchange(checks).step(client_first(token(), "a=bob"))
        with pytest.raises(Refused):
            await OAuthExchange(checks).step(b"nonsense")

    asyncio.run(run())


def test_first_messages_are_read_with_extensions_and_nothing_else_is() -> None:
    assert first_message(b"n,,\x01auth=Bearer a.b.c\x01\x01") == ("", "a.b.c")
    assert first_message(b"n,a=me,\x01auth=bearer a.b.c\x01traceId=1 2\x01\x01") == ("me", "a.b.c")
    for wrong in (
        b"", b"n,,", b"n,,\x01\x01", b"n,,\x01auth=Basic x\x01\x01", b"y,,\x01auth=Bearer a\x01\x01", b"\xff",
        b"n,,\x01auth=Bearer a\x01", b"n,,\x01auth=Bearer " + b"a" * (1 << 17) + b"\x01\x01",
    ):  # fmt: skip
        with pytest.raises(ValueError):
            first_message(wrong)


@pytest.mark.parametrize("url", ["", "http://issuer/keys", "ftp://x", "file://host/x"])
def test_a_listener_without_an_address_of_keys_is_refused(url: str) -> None:
    settings = {"log.dirs": "/d"} | ({"sasl.oauthbearer.jwks.endpoint.url": url} if url else {})
    assert why_unusable(BrokerConfig(settings), "SASL") is not None
    good = BrokerConfig({"log.dirs": "/d", "sasl.oauthbearer.jwks.endpoint.url": "file:///x"})
    assert why_unusable(good, "SASL") is None
