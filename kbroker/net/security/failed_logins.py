"""Logins and TLS handshakes of a second, counted for the audit log.

A client that guesses names or passwords a thousand times a second fills neither the link to control
nor the log: equal failures share a line, and the lines a second are limited for each address (an
IPv6 network counts as one) and in total. Failures beyond the limits are counted in one more line,
so that none is left out. A user who logs in again and again has a number of lines, too.
"""

from collections import Counter
from typing import Final

from kbroker.config.client_network import network_of
from kbroker.config.principals import EVERYBODY
from kbroker.ipc.messages import AuditEvent
from kbroker.ipc.rate_limit import LineLimits

LINES_OF_A_HOST: Final = 20
LINES_OF_ALL: Final = 500
BEYOND: Final = "more failures of the same second"
SEVERAL_HOSTS: Final = "*"
LINES_OF_A_USER: Final = 20
MORE_LOGINS: Final = "more logins of the same second"

Key = tuple[str, str, str, str, str]
"""Principal, host, listener, operation, reason."""
Login = tuple[str, str, str, str]
"""Principal, network, listener, operation."""


class FailedLogins:
    """Runs in: network. Owner: Audit, which takes them once a second."""

    def __init__(self) -> None:
        self._first: dict[Key, AuditEvent] = {}
        self._lines: LineLimits[Key] = LineLimits(LINES_OF_A_HOST, LINES_OF_ALL)

    def add(self, event: AuditEvent) -> None:
        """Count a failure. Equal failures are shown with the time and port of the first."""
        network, way = network_of(event.host), (event.listener, event.operation)
        line = self._lines.add(
            (event.principal, event.host, *way, event.reason),
            network,
            (EVERYBODY, network, *way, BEYOND),
            (EVERYBODY, SEVERAL_HOSTS, *way, BEYOND),
        )
        self._first.setdefault(line, event)

    def take(self) -> list[AuditEvent]:
        """All failures since the last call."""
        found = []
        for key, count in self._lines.take().items():
            principal, host, listener, operation, reason = key
            first = self._first[key]
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
                    count=count,
                )
            )
        self._first.clear()
        return found


class RepeatedLogins:
    """Successful logins of a user at an address beyond the first ones of a second. Runs in:
    network. Owner: Audit, which takes them once a second."""

    def __init__(self) -> None:
        self._lines: Counter[Login] = Counter()
        self._rest: dict[Login, int] = {}
        """The time of the first login without a line."""

    def admits(self, event: AuditEvent) -> bool:
        """Count a login. Whether it has a line of its own."""
        key = event.principal, network_of(event.host), event.listener, event.operation
        self._lines[key] += 1
        if self._lines[key] <= LINES_OF_A_USER:
            return True
        self._rest.setdefault(key, event.time_ms)
        return False

    def take(self) -> list[AuditEvent]:
        """A line for all logins of a user that have none."""
        found = [
            AuditEvent(
                time_ms,
                "login",
                principal,
                network,
                0,
                listener,
                operation,
                allowed=True,
                reason=MORE_LOGINS,
                count=self._lines[principal, network, listener, operation] - LINES_OF_A_USER,
            )
            for (principal, network, listener, operation), time_ms in self._rest.items()
        ]
        self._lines.clear()
        self._rest.clear()
        return found
