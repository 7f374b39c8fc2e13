"""SASL exchanges of a network process: tokens in, tokens out, and at the end an authenticated user
(KIP-12, KIP-84, KIP-48).
"""

import hmac
from collections.abc import Callable, Mapping
from typing import Protocol

from kbroker.ipc.clock import wall_clock_ms
from kbroker.ipc.login_messages import FindScramCredential, FindTokenCredential, TokenCredential
from kbroker.ipc.messages import SCRAM_MECHANISMS, ScramCredential
from kbroker.net.security.scram import ScramError, ScramServer

Users = Callable[[], Mapping[str, str]]
"""Passwords of PLAIN by user, as they are now."""

PLAIN = "PLAIN"
OAUTHBEARER = "OAUTHBEARER"
SUPPORTED = (PLAIN, *SCRAM_MECHANISMS, OAUTHBEARER)


class Refused(Exception):
    """The login has failed. text: for the client; None for the general error message."""

    def __init__(self, text: str | None) -> None:
        super().__init__(text)
        self.text = text


class Credentials(Protocol):
    """The credentials with which SCRAM checks a proof, from control."""

    async def find_credential(self, message: FindScramCredential) -> ScramCredential:
        """The SCRAM credential of a user. Raises LinkClosed."""

    async def find_token(self, message: FindTokenCredential) -> TokenCredential:
        """The credential of a delegation token. Raises LinkClosed."""


class Exchange(Protocol):
    """One login in progress. user: the authenticated user, at its end."""

    user: str
    done: bool

    @property
    def token_authenticated(self) -> bool:
        """Whether the client logs in by a delegation token."""

    def left_ms(self) -> int | None:
        """Remaining lifetime of the client's credential; None if it does not expire."""

    def guessed_user(self, token: bytes) -> str | None:
        """The user whose password this token may guess, None when it cannot be a guess."""

    async def step(self, token: bytes) -> bytes:
        """The answer to a token. Raises Refused, LinkClosed."""


class PlainExchange:
    """SASL/PLAIN (RFC 4616): user and password in one message."""

    def __init__(self, users: Users) -> None:
        self._users = users
        self.user = ""
        self.done = False
        self.token_authenticated = False

    def left_ms(self) -> None:
        """A password does not expire."""

    def guessed_user(self, token: bytes) -> str | None:
        """The user of the one message."""
        parts = token.decode(errors="replace").split("\0", 3)
        return parts[1] if len(parts) == 3 else None

    async def step(self, token: bytes) -> bytes:
        """Empty when the password is right. Raises Refused."""
        parts = token.decode(errors="replace").split("\0", 3)
        if len(parts) != 3:
            raise Refused(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        authzid, user, password = parts
        if not user:
            raise Refused("Authentication failed: username not specified")
        if not password:
            raise Refused("Authentication failed: password not specified")
        known = self._users().get(user)
        right = hmac.compare_digest((known or "").encode(), password.encode())
        if known is None or not right:
            raise Refused("Authentication failed: Invalid username or password")
        if authzid and authzid != user:
            raise Refused(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.user = user
        self.done = True
        return b""


class ScramExchange:
    """SCRAM, by a password or by a delegation token."""

    def __init__(self, mechanism: str, credentials: Credentials) -> None:
        self._server = ScramServer(mechanism)
        self._credentials = credentials
        self._token: TokenCredential | None = None
        self._challenged = False
        self.user = ""
        self.done = False

    @property
    def token_authenticated(self) -> bool:
        """Whether the user name is the id of a token."""
        return self._server.by_token

    def left_ms(self) -> int | None:
        """The lifetime of the token; a password does not expire."""
        return None if self._token is None else max(1, self._token.expiry_ms - wall_clock_ms())

    def guessed_user(self, token: bytes) -> str | None:  # noqa: ARG002  the exchange knows
        """The user, if the next message contains a proof: the second one of SCRAM."""
        return self._server.user if self._challenged else None

    async def step(self, token: bytes) -> bytes:
        """The challenge, then the proof that we know the credential. Raises Refused, LinkClosed."""
        try:
            if not self._challenged:
                self._challenged = True
                return self._server.challenge(await self._credential(self._server.first(token)))
            answer = self._server.final(token)
        except ScramError as error:
            raise Refused(str(error) if error.is_public else None) from None
        if self._token is not None and self._token.expiry_ms < wall_clock_ms():
            raise Refused(None)
        self.user = self._server.user if self._token is None else self._token.owner
        self.done = True
        return answer

    async def _credential(self, user: str) -> ScramCredential:
        mechanism = self._server.mechanism
        if not self._server.by_token:
            return await self._credentials.find_credential(FindScramCredential(user, mechanism))
        self._token = await self._credentials.find_token(FindTokenCredential(user, mechanism))
        return self._token.credential


def exchange_of(mechanism: str, users: Users, credentials: Credentials) -> Exchange:
    """A new exchange of a supported mechanism."""
    return PlainExchange(users) if mechanism == PLAIN else ScramExchange(mechanism, credentials)
