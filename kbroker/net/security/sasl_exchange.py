"""SASL exchanges of a network process: tokens in, tokens out, and at the end an authenticated user
(KIP-12, KIP-84).
"""

import hmac
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from kbroker.ipc.messages import FindScramCredential, ScramCredential
from kbroker.net.security.scram import MECHANISMS, ScramError, ScramServer

FindCredential = Callable[[FindScramCredential], Awaitable[ScramCredential | None]]
Users = Callable[[], Mapping[str, str]]
"""Passwords of PLAIN by user, as they are now."""

PLAIN = "PLAIN"
OAUTHBEARER = "OAUTHBEARER"
SUPPORTED = (PLAIN, *MECHANISMS, OAUTHBEARER)


class Refused(Exception):
    """The login has failed. text: for the client; None for the general error message."""

    def __init__(self, text: str | None) -> None:
        super().__init__(text)
        self.text = text


class Exchange(Protocol):
    """One login under way. user: who it is once it is done."""

    user: str
    done: bool

    def guesses(self, token: bytes) -> str | None:
        """The user whose password this token may be a guess of, None when it can be none."""

    async def step(self, token: bytes) -> bytes:
        """The answer to a token. Raises Refused, LinkClosed."""


class PlainExchange:
    """SASL/PLAIN (RFC 4616): user and password in one message."""

    def __init__(self, users: Users) -> None:
        self._users = users
        self.user = ""
        self.done = False

    def guesses(self, token: bytes) -> str | None:
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
    """SCRAM: control has the credentials."""

    def __init__(self, mechanism: str, find: FindCredential) -> None:
        self._server = ScramServer(mechanism)
        self._find = find
        self._challenged = False
        self.user = ""
        self.done = False

    def guesses(self, token: bytes) -> str | None:  # noqa: ARG002  the exchange knows
        """Only the second message proves anything."""
        return self._server.user if self._challenged else None

    async def step(self, token: bytes) -> bytes:
        """The challenge, then the proof that we know the credential. Raises Refused, LinkClosed."""
        try:
            if not self._challenged:
                self._challenged = True
                user = self._server.first(token)
                return self._server.challenge(
                    await self._find(FindScramCredential(user, self._server.mechanism))
                )
            answer = self._server.final(token)
        except ScramError as error:
            raise Refused(str(error) if error.is_public else None) from None
        self.user = self._server.user
        self.done = True
        return answer


def exchange_of(mechanism: str, users: Users, find: FindCredential) -> Exchange:
    """A fresh login by a supported mechanism."""
    return PlainExchange(users) if mechanism == PLAIN else ScramExchange(mechanism, find)
