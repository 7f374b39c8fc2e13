"""Requests and reports of network processes about logins: credentials, guesses of passwords, the
audit log."""

import logging
import time
from typing import Any, Final

from kbroker.control.audit.log import AuditLog, write_events
from kbroker.control.broker import Broker
from kbroker.control.guesses import Guesses
from kbroker.control.token_credentials import TokenCredentials
from kbroker.ipc.background import Background
from kbroker.ipc.link import AsyncLink
from kbroker.ipc.login_messages import (
    AttemptLogin,
    FindScramCredential,
    FindTokenCredential,
    LoginSucceeded,
)
from kbroker.ipc.messages import AuditEvents

log = logging.getLogger(__name__)

MESSAGES: Final = (FindScramCredential, FindTokenCredential, AttemptLogin, LoginSucceeded, AuditEvents)


class Logins:
    """Runs in: control. Owner: the process's main."""

    def __init__(self, broker: Broker, audit: AuditLog | None) -> None:
        self._broker = broker
        self._audit = audit
        self._guesses = Guesses.of(broker.config)
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
            link.reply(call_id, self._guesses.attempt(body.host, body.user, time.monotonic_ns()))
        elif isinstance(body, LoginSucceeded):
            self._guesses.succeeded(body.host, body.user, time.monotonic_ns())
        else:
            write_events(self._audit, body.events)

    async def _find_token(self, link: AsyncLink, call_id: int, message: FindTokenCredential) -> None:
        link.reply(call_id, await self._tokens.find(message.token_id, message.mechanism, self._broker.now_ms))
