"""Failed logins and TLS handshakes of a second, counted for the audit log.

A client that guesses names or passwords a thousand times a second fills neither the link to control
nor the log: equal failures share a line, and the lines a second are limited for each address (an
IPv6 network counts as one) and in total. Failures beyond the limits are counted in one more line,
so that none is left out.
"""

from collections import Counter
from typing import Final

from kbroker.config.client_network import network_of
from kbroker.config.principals import EVERYBODY
from kbroker.ipc.messages import AuditEvent

LINES_OF_A_HOST: Final = 20
LINES_OF_ALL: Final = 500
BEYOND: Final = "more failures of the same second"
SEVERAL_HOSTS: Final = "*"

Key = tuple[str, str, str, str, str]
"""Principal, host, listener, operation, reason."""


class FailedLogins:
    """Runs in: network. Owner: Audit, which takes them once a second."""

    def __init__(self) -> None:
        self._events: dict[Key, AuditEvent] = {}
        self._counts: Counter[Key] = Counter()
        self._lines: Counter[str] = Counter()

    def add(self, event: AuditEvent) -> None:
        """Count a failure. Equal failures are shown with the time and port of the first."""
        key = event.principal, event.host, event.listener, event.operation, event.reason
        if key not in self._events:
            network = network_of(event.host)
            if self._lines[network] >= LINES_OF_A_HOST:
                key = EVERYBODY, network, event.listener, event.operation, BEYOND
            if key not in self._events and len(self._events) >= LINES_OF_ALL:
                key = EVERYBODY, SEVERAL_HOSTS, event.listener, event.operation, BEYOND
            if key not in self._events:
                self._events[key] = event
                self._lines[network] += 1
        self._counts[key] += 1

    def take(self) -> list[AuditEvent]:
        """All failures since the last call."""
        found = []
        for key, first in self._events.items():
            principal, host, listener, operation, reason = key
            port = first.port if reason != BEYOND else 0
            found.append(
                AuditEvent(
                    first.time_ms,
                    "login",
                    principal,
                    host,
                    port,
                    listener,
                    operation,
                    allowed=False,
                    reason=reason,
                    count=self._counts[key],
                )
            )
        self._events.clear()
        self._counts.clear()
        self._lines.clear()
        return found
