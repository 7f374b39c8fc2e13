"""Requests and reports of network processes and the http process about logins: credentials, guesses
of passwords, the audit log."""

import asyncio
import base64
import hashlib
import logging
import time
from collections.abc import Callable
from typing import Any, Final

from kbroker.config.principals import name_of
from kbroker.control.audit.log import AuditLog
from kbroker.control.broker import Broker
from kbroker.control.changes.scram_change import MIN_ITERATIONS, credential
from kbroker.control.decoys import HASHES, Decoys
from kbroker.control.login_limits import NS, LoginLimits
from kbroker.control.metadata.delegation_tokens import DelegationToken, DelegationTokens
from kbroker.ipc.background import Background
from kbroker.ipc.link import AsyncLink
from kbroker.ipc.login_messages import (
    AttemptLogin,
    FindScramCredential,
    FindTokenCredential,
    LoginForClient,
    LoginSucceeded,
    LoginTurn,
    TokenCredential,
)
from kbroker.ipc.messages import AuditEvents, ScramCredential

log = logging.getLogger(__name__)

MESSAGES: Final = (
    FindScramCredential,
    FindTokenCredential,
    AttemptLogin,
    LoginSucceeded,
    LoginForClient,
    AuditEvents,
)
MAX_KEPT: Final = 4096
"""Maximum of credentials of tokens that are kept."""
MAX_RELAYED: Final = 1024
RELAYED_NS: Final = 30 * NS
"""The http process logs in within this time after it has announced a login."""


class Logins:
    """Runs in: control. Owner: the process's main."""

    def __init__(self, broker: Broker, audit: AuditLog | None) -> None:
        self._broker = broker
        self._audit = audit
        self._limits = LoginLimits.of(broker.config)
        self._relayed = RelayedLogins()
        self._tokens = TokenCredentials(broker.tokens, broker.decoys)
        self._background = Background(log, "the credential of a delegation token could not be made")

    def serve(self, link: AsyncLink, call_id: int, body: Any) -> None:
        """Serve one of MESSAGES."""
        if isinstance(body, FindScramCredential):
            decoy = self._broker.decoys.user(body.user, body.mechanism)  # made for existing users, too
            link.reply(call_id, self._broker.scram.get((body.user, body.mechanism), decoy))
        elif isinstance(body, FindTokenCredential):
            self._background.start(self._find_token(link, call_id, body))
        elif isinstance(body, AttemptLogin):
            now_ns = time.monotonic_ns()
            host = self._relayed.take(body, now_ns)
            link.reply(call_id, LoginTurn(self._limits.attempt(host, body.user, now_ns), host))
        elif isinstance(body, LoginSucceeded):
            self._limits.succeeded(body.host, body.user, time.monotonic_ns())
        elif isinstance(body, LoginForClient):
            self._relayed.put(body, time.monotonic_ns())
            link.reply(call_id, self._mechanism(body))
        elif self._audit is not None:
            self._audit.take(body.events)

    def _mechanism(self, message: LoginForClient) -> int:
        """The first mechanism for which the user has a credential."""
        decoy = self._broker.decoys.mechanism(message.user, message.mechanisms)  # as above
        stored = self._broker.scram
        return next((each for each in message.mechanisms if (message.user, each) in stored), decoy)

    async def _find_token(self, link: AsyncLink, call_id: int, message: FindTokenCredential) -> None:
        link.reply(call_id, await self._tokens.find(message.token_id, message.mechanism, self._broker.now_ms))


class RelayedLogins:
    """Logins of the http process for its own clients, until a network process asks about them.
    Other processes of this host cannot announce any, and each counts once and for its user, so
    that another connection with the same port, later or to another address of the listener, is not
    taken for it. Runs in: control. Owner: Logins."""

    def __init__(self) -> None:
        self._clients: dict[tuple[str, str, int], tuple[str, str, int]] = {}
        """User, address of the client and time of the announcement, by connection; the oldest
        first."""

    def put(self, message: LoginForClient, now_ns: int) -> None:
        """A login has been announced."""
        connection = message.listener, message.host, message.port
        self._clients.pop(connection, None)
        while len(self._clients) >= MAX_RELAYED:
            del self._clients[next(iter(self._clients))]
        self._clients[connection] = message.user, message.client, now_ns

    def take(self, message: AttemptLogin, now_ns: int) -> str:
        """The address for which an attempt counts."""
        connection = message.listener, message.host, message.port
        user, client, announced_ns = self._clients.get(connection, (None, message.host, now_ns))
        if user != message.user:
            return message.host
        del self._clients[connection]
        return client if now_ns - announced_ns <= RELAYED_NS else message.host


class TokenCredentials:
    """SCRAM credentials of delegation tokens, made from their HMACs when a client first logs in by
    each (KIP-48). Runs in: control. Owner: Logins. A token's credential stays the same while it is
    kept."""

    def __init__(self, tokens: DelegationTokens, decoys: Decoys) -> None:
        self._tokens = tokens
        self._decoys = decoys
        self._kept: dict[tuple[str, int], ScramCredential] = {}

    async def find(self, token_id: str, mechanism: int, now_ms: Callable[[], int]) -> TokenCredential:
        """The credential that checks a login by a token; a decoy for a token that is not valid
        now."""
        decoy = self._decoys.token(token_id, mechanism)
        if mechanism not in HASHES or self._in_force(token_id, now_ms()) is None:
            return TokenCredential(decoy, "", 0)
        found = self._kept.get((token_id, mechanism))
        if found is None:
            password = base64.b64encode(self._tokens.hmac_of(token_id))
            found = await asyncio.to_thread(made_credential, HASHES[mechanism], password, decoy.salt)
            found = self._keep((token_id, mechanism), found)
        token = self._in_force(token_id, now_ms())  # it may have ended meanwhile
        if token is None:
            return TokenCredential(decoy, "", 0)
        return TokenCredential(found, name_of(token.owner), token.expiry_ms)

    def _in_force(self, token_id: str, now_ms: int) -> DelegationToken | None:
        token = self._tokens.get(token_id)
        return None if token is None or token.has_expired(now_ms) else token

    def _keep(self, key: tuple[str, int], made: ScramCredential) -> ScramCredential:
        """The credential, or that of another login which was made meanwhile."""
        while len(self._kept) >= MAX_KEPT:
            del self._kept[next(iter(self._kept))]
        return self._kept.setdefault(key, made)


def made_credential(hash_name: str, password: bytes, salt: bytes) -> ScramCredential:
    """The credential of a password. It takes milliseconds, in which other threads run."""
    salted = hashlib.pbkdf2_hmac(hash_name, password, salt, MIN_ITERATIONS)
    return credential(hash_name, salt, salted, MIN_ITERATIONS)
