"""SASL OAUTHBEARER (RFC 7628, KIP-255, KIP-768): checks tokens of an issuer with the keys that it
publishes.

PyJWT does the checking. Keys come from `sasl.oauthbearer.jwks.endpoint.url`, by https or from a
file. One thread checks tokens and another one fetches keys: the loop of the network process never
waits, and a token whose key is known does not wait for an issuer that answers slowly.
"""

import asyncio
import json
import logging
import re
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from kbroker.config.broker import BrokerConfig
from kbroker.net.rate_limited_log import RateLimitedLog
from kbroker.net.security.key_address import SCHEMES
from kbroker.net.security.sasl_exchange import Refused

if TYPE_CHECKING:  # at run time imported only if a listener offers this mechanism
    from jwt import PyJWK

log = logging.getLogger(__name__)

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Accepted algorithms: no symmetric ones, for which a public key would count as the secret, and no
unsigned tokens. Keys of other algorithms are not kept: PyJWT checks a token by the algorithm of its
key, whatever the token names."""
MAX_TOKEN_BYTES: Final = 1 << 16
NEW_KEYS_S: Final = 10.0
"""Minimum time between two attempts to fetch an unknown key."""
MAX_END_S: Final = 1 << 40
"""Unix time; the lifetime of a session is reported in milliseconds, as an int64."""
MAX_DOUBLINGS: Final = 32
MAX_SHOWN: Final = 200
"""Characters of a log line about a token; its header may have tens of thousands."""
BLANKS: Final = "".join(map(chr, range(33)))
"""Characters that Java's trim removes at both ends, and so Apache Kafka from the name of a user."""
BAD_TOKEN: Final = '{"status":"invalid_token"}'
_FIRST: Final = re.compile(
    r"n,(?:a=(?P<authzid>[^,\x01]*))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)+)\x01"
)
_TOKEN: Final = re.compile(r"Bearer +(?P<token>[-_=+/.A-Za-z0-9]+)", re.IGNORECASE)
PREFIX: Final = "sasl.oauthbearer."


class BadToken(Exception):
    """A token that is refused; the text is only for the broker's log."""


class UnknownKey(Exception):
    """The token's key is not known; it may be fetched."""


class TokenChecks:
    """One listener's requirements for tokens. Runs in: network. Owner: Logins."""

    def __init__(self, config: BrokerConfig, listener: str) -> None:
        def setting(name: str) -> Any:
            return config.of_listener(listener, PREFIX + name)

        self._url = setting("jwks.endpoint.url")
        self._audience = list(setting("expected.audience")) or None
        self._issuer = setting("expected.issuer")
        self._leeway_s = setting("clock.skew.seconds")
        self._subject = setting("sub.claim.name")
        self._scope = setting("scope.claim.name")
        self._refresh_s = setting("jwks.endpoint.refresh.ms") / 1000
        self._pauses_s = (
            setting("jwks.endpoint.retry.backoff.ms") / 1000,
            setting("jwks.endpoint.retry.backoff.max.ms") / 1000,
        )
        self._failures = 0
        self._keys: dict[object, PyJWK] = {}
        self._fetch_at_s = self._next_check_s = 0.0
        self._thread = ThreadPoolExecutor(1, "oauth")
        self._fetcher = ThreadPoolExecutor(1, "oauth-keys")
        self._lock = threading.Lock()  # for the fields about fetching: both threads use them
        self._fetch: Future[None] | None = None
        self._warn = RateLimitedLog(log, time.monotonic)

    async def check(self, token: str) -> tuple[str, float]:
        """(principal's name, Unix time when the token ends). A token whose key is unknown waits for
        the next keys, others do not. Raises BadToken."""
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, self._claims_of, token)
        except UnknownKey:
            if (fetch := self._fetching()) is not None:
                await asyncio.shield(asyncio.wrap_future(fetch))
        try:
            return await loop.run_in_executor(self._thread, self._claims_of, token)
        except UnknownKey as error:
            raise BadToken(str(error)) from None

    def rejected(self, error: BadToken) -> None:
        """Log why a token was refused."""
        self._warn("a token was rejected: %s", str(error)[:MAX_SHOWN])

    def _claims_of(self, token: str) -> tuple[str, float]:
        """As `check`, with the known keys. Raises BadToken, UnknownKey."""
        import jwt

        options: Any = {
            "require": ["exp", "iat"],
            "verify_aud": self._audience is not None,
            "verify_sub": False,
        }
        try:
            key = self._key(jwt.get_unverified_header(token).get("kid"))
            claims: Mapping[str, Any] = jwt.decode(
                token,
                key,
                ALGORITHMS,
                options,
                audience=self._audience,
                issuer=self._issuer,
                leeway=self._leeway_s,
            )
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError) as error:
            # PyJWT 2.10 lets TypeError pass, for a time that is a list, OverflowError for an
            # infinite one, and 2.12 RecursionError
            raise BadToken(str(error)) from None
        subject = claims.get(self._subject)
        if not isinstance(subject, str) or not subject.strip() or not _is_utf8(subject):
            raise BadToken(f"the claim {self._subject} names no user")
        _check_scopes(self._scope, claims.get(self._scope))
        return subject.strip(BLANKS), min(int(claims["exp"]), MAX_END_S)

    def _key(self, kid: object) -> "PyJWK":
        """The key of an id. Raises UnknownKey."""
        if time.monotonic() >= self._fetch_at_s:
            self._fetching()  # the known keys stay valid meanwhile
        found = self._keys.get(kid)
        if found is None:
            raise UnknownKey(f"no key {kid!r}")
        return found

    def _fetching(self) -> "Future[None] | None":
        """The fetch in progress, or a new one; None if it is too early for one: keys are not
        fetched for every invented id."""
        with self._lock:
            if self._fetch is not None and not self._fetch.done():
                return self._fetch
            now_s = time.monotonic()
            if now_s < self._fetch_at_s and now_s < self._next_check_s:
                return None
            self._fetch = self._fetcher.submit(self._fetch_keys)
            return self._fetch

    def _fetch_keys(self) -> None:
        began_s = time.monotonic()
        try:
            self._keys = self._fetched()
            self._fetch_at_s = began_s + self._refresh_s
            self._failures = 0
        except Exception as error:  # a server may answer anything; the known keys stay valid
            self._fetch_at_s = time.monotonic() + self._pause_s()
            log.warning("cannot get keys from %s: %s", self._url, error)
        self._next_check_s = time.monotonic() + NEW_KEYS_S

    def _pause_s(self) -> float:
        """The time until the keys are fetched again: it doubles with each failure."""
        first_s, max_s = self._pauses_s
        self._failures = min(self._failures + 1, MAX_DOUBLINGS)
        return float(max(0, min(first_s * 2 ** (self._failures - 1), max_s)))

    def _fetched(self) -> "dict[object, PyJWK]":
        import jwt

        from kbroker.net.security.key_source import read_keys

        data = json.loads(read_keys(self._url))
        if not isinstance(data, dict):
            raise ValueError("no set of keys")
        keys = jwt.PyJWKSet.from_dict(data).keys
        return {key.key_id: key for key in keys if key.algorithm_name in ALGORITHMS}


def _is_utf8(text: str) -> bool:
    """Whether a text has no half of a surrogate pair, which JSON can hold, but no message here: all
    events of the audit log in one message with it would be lost."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_scopes(claim: str, value: object) -> None:
    """A text is one scope, a list has several: none blank, none twice (ClaimValidationUtils).
    Raises BadToken."""
    scopes = value if isinstance(value, list) else [value] if isinstance(value, str) else []
    seen: set[str] = set()
    for scope in scopes:
        text = scope.strip() if isinstance(scope, str) else ""
        if not text:
            raise BadToken(f"{claim} value must be non-empty")
        if text in seen:
            raise BadToken(f"{claim} value must not contain duplicates - {text} already present")
        seen.add(text)


def why_unusable(config: BrokerConfig, listener: str) -> str | None:
    """The reason why a listener cannot offer this mechanism, None when it can."""
    url = config.of_listener(listener, f"{PREFIX}jwks.endpoint.url")
    if not isinstance(url, str) or not url.startswith(SCHEMES):
        return f"{PREFIX}jwks.endpoint.url must be set to an address of {' or '.join(SCHEMES)}"
    return None


class OAuthExchange:
    """One login: a token, and after a bad token the client's empty message that RFC 7628
    requires."""

    def __init__(self, checks: TokenChecks) -> None:
        self._checks = checks
        self._refused = False
        self.user = ""
        self.done = False
        self.token_authenticated = False
        self.ends_s = 0.0

    def guessed_user(self, token: bytes) -> str | None:  # noqa: ARG002  signatures cannot be guessed
        """None: a token is no guess at a password."""
        return None

    async def step(self, token: bytes) -> bytes:
        """Empty for a good token; for a bad token the reason in JSON, after which the login fails.
        Raises Refused."""
        if self._refused:
            raise Refused(BAD_TOKEN)
        try:
            authzid, found = first_message(token)
        except ValueError:
            raise Refused(None) from None
        try:
            user, ends_s = await self._checks.check(found)
        except BadToken as error:
            self._checks.rejected(error)
            self._refused = True
            return BAD_TOKEN.encode()
        if authzid and authzid != user:
            raise Refused(
                f"Authentication failed: Client requested an authorization id ({authzid}) that is different from the "
                f"token's principal name ({user})"
            )
        self.user, self.ends_s, self.done = user, ends_s, True
        return b""

    def left_ms(self) -> int:
        """Remaining lifetime of the token."""
        return max(1, int((self.ends_s - time.time()) * 1000))


def first_message(message: bytes) -> tuple[str, str]:
    """(authorization id, token) of a client's first message. Raises ValueError."""
    if len(message) > MAX_TOKEN_BYTES:
        raise ValueError("too long")
    match = _FIRST.fullmatch(message.decode())
    if match is None:
        raise ValueError("not a message of OAUTHBEARER")
    pairs = dict(pair.split("=", 1) for pair in match["pairs"].split("\x01") if pair)
    token = _TOKEN.fullmatch(pairs.get("auth", ""))
    if token is None:
        raise ValueError("no bearer token")
    return match["authzid"] or "", token["token"]
