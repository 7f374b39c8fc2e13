"""What network processes ask and report about logins: credentials, guesses of passwords, the audit
log."""

import time
from typing import Any, Final

from kbroker.control.audit.events import written
from kbroker.control.audit.log import AuditLog
from kbroker.control.broker import Broker
from kbroker.control.guesses import Guesses
from kbroker.ipc.link import AsyncLink
from kbroker.ipc.messages import AttemptLogin, AuditEvents, FindScramCredential, LoginSucceeded

MESSAGES: Final = (FindScramCredential, AttemptLogin, LoginSucceeded, AuditEvents)


class Logins:
    """Runs in: control. Owner: the process's main."""

    def __init__(self, broker: Broker, audit: AuditLog | None) -> None:
        self._broker = broker
        self._audit = audit
        self._guesses = Guesses.of(broker.config)

    def serve(self, link: AsyncLink, call_id: int, body: Any) -> None:
        """Serve one of MESSAGES."""
        if isinstance(body, FindScramCredential):
            link.reply(call_id, self._broker.scram.get((body.user, body.mechanism)))
        elif isinstance(body, AttemptLogin):
            link.reply(call_id, self._guesses.attempt(body.host, body.user, time.monotonic_ns()))
        elif isinstance(body, LoginSucceeded):
            self._guesses.succeeded(body.host, body.user, time.monotonic_ns())
        else:
            written(self._audit, body.events)
