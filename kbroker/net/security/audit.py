"""Events of a network process for the audit log: logins, refused requests, samples. Control writes
the lines.

Refusals are counted for a second by client and resource, and the lines of a second are limited for
each principal at an address (an IPv6 network counts as one) and in total. So a client that is
refused a hundred thousand times fills neither the link nor the log, whose oldest file it could else
have removed. Refusals beyond the limits are counted in one more line: none is left out.
"""

from collections.abc import Callable, Iterable
from typing import Final

from kbroker.config import acls
from kbroker.config.broker import BrokerConfig
from kbroker.config.client_network import network_of
from kbroker.config.principals import EVERYBODY, user_principal
from kbroker.ipc.clock import wall_clock_ms
from kbroker.ipc.messages import (
    MORE_REFUSALS,
    REFUSALS_OF_A_CLIENT,
    REFUSALS_OF_ALL,
    AuditEvent,
    AuditEvents,
)
from kbroker.ipc.rate_limit import LineLimits
from kbroker.net.connections.connection import Connection
from kbroker.net.network_tables import NetworkTables
from kbroker.net.rows import Connection as ConnectionRow
from kbroker.net.security.failed_logins import SEVERAL_HOSTS, FailedLogins, RepeatedLogins

MAX_WAITING: Final = 4096
"""Maximum of events that wait for the end of the second; at this number they are sent at once."""
MAX_TEXT: Final = 1000
"""Characters of a user, resource, mechanism or reason that are kept and sent; a line has fewer of
each."""
OPERATIONS: Final = {acls.READ: "Fetch", acls.WRITE: "Produce"}
KINDS: Final = {acls.TRANSACTIONAL_ID: "transactional id "}

Who = tuple[str, str, int, str]
Line = tuple[Who, str, str]
"""The client that was refused, the operation, the resource."""


class Audit:
    """Runs in: network. Owner: Access. send: gives events to control; without an audit log
    nothing is kept."""

    def __init__(
        self, tables: NetworkTables, config: BrokerConfig, connections: dict[int, Connection]
    ) -> None:
        self.on = bool(config.get_optional_str("kbroker.audit.log.dir"))
        self.send: Callable[[AuditEvents], None] = lambda _: None
        self._per_second = config.get_int("kbroker.audit.sample.per.second")
        self._tables = tables
        self._connections = connections
        self._events: list[AuditEvent] = []
        self._refused: LineLimits[Line] = LineLimits(REFUSALS_OF_A_CLIENT, REFUSALS_OF_ALL)
        self._refused_ms: dict[Line, int] = {}
        """When the first refusal of a line was."""
        self._sampled: dict[int, tuple[Connection, int, int]] = {}
        self._failed = FailedLogins()
        self._repeated = RepeatedLogins()
        self._next_row = 0

    def login(self, connection: Connection, mechanism: str, user: str, reason: str) -> None:
        """A login or TLS handshake has succeeded, or has failed for a reason."""
        if self.on:
            host, port = connection.accepted.host, connection.accepted.port
            listener = connection.listener.listener
            event = AuditEvent(
                wall_clock_ms(),
                "login",
                user_principal(user[:MAX_TEXT]),
                host,
                port,
                listener,
                mechanism[:MAX_TEXT],
                not reason,
                reason=reason[:MAX_TEXT],
            )
            if reason:
                self._failed.add(event)
            elif self._repeated.admits(event):
                self._add(event)

    def refused(self, connection: Connection, operation: int, kind: int, name: str, count: int = 1) -> None:
        """A refusal: the client has no permission for an operation on a resource."""
        if not self.on:
            return
        what = OPERATIONS.get(operation, "Produce"), KINDS.get(kind, "") + name[:MAX_TEXT]
        rest = what[0], MORE_REFUSALS
        who = _who(connection)
        principal, host, _, listener = who
        client = principal, network_of(host)
        if (who, *what) not in self._refused_ms and len(self._refused_ms) >= MAX_WAITING:
            self.flush()
        line = self._refused.add(
            (who, *what),
            client,
            ((*client, 0, listener), *rest),
            ((EVERYBODY, SEVERAL_HOSTS, 0, listener), *rest),
            count,
        )
        if line not in self._refused_ms:
            self._refused_ms[line] = wall_clock_ms()

    def tick(self) -> None:
        """Called once a second: send the collected events, and samples of connections that moved
        bytes."""
        if self.on:
            self._events += self._samples()
            self.flush()

    def flush(self) -> None:
        """Send the waiting events."""
        self._events += [
            AuditEvent(self._refused_ms[line], "refusal", *who, operation, False, (name,), count=count)
            for line, count in self._refused.take().items()
            for who, operation, name in (line,)
        ]
        self._refused_ms.clear()
        self._events += self._failed.take()
        self._events += self._repeated.take()
        events, self._events = self._events, []
        if events:
            self.send(AuditEvents(tuple(events)))

    def _add(self, event: AuditEvent) -> None:
        self._events.append(event)
        if len(self._events) >= MAX_WAITING:
            self.flush()

    def _samples(self) -> Iterable[AuditEvent]:
        """The next few connections, in turn, and how many bytes they moved since they were last
        sampled."""
        rows = sorted(self._connections)
        if not rows or not self._per_second:
            return []
        start = next((at for at, row in enumerate(rows) if row >= self._next_row), 0)
        chosen = [rows[(start + step) % len(rows)] for step in range(min(self._per_second, len(rows)))]
        self._next_row = chosen[-1] + 1
        now_ms = wall_clock_ms()
        found = []
        for row in chosen:
            connection = self._connections[row]
            words = self._tables.connections[row]
            bytes_in, bytes_out = int(words[ConnectionRow.BYTES_IN]), int(words[ConnectionRow.BYTES_OUT])
            before = self._sampled.get(row)
            seen_in, seen_out = before[1:] if before is not None and before[0] is connection else (0, 0)
            self._sampled[row] = connection, bytes_in, bytes_out
            if (bytes_in, bytes_out) != (seen_in, seen_out):
                moved = f"{bytes_in - seen_in} bytes received, {bytes_out - seen_out} sent"
                who = _who(connection)
                found.append(AuditEvent(now_ms, "sample", *who, "Data", True, reason=moved))
        self._sampled = {
            row: sample for row, sample in self._sampled.items() if self._connections.get(row) is sample[0]
        }
        return found


def _who(connection: Connection) -> Who:
    accepted = connection.accepted
    return connection.principal, accepted.host, accepted.port, connection.listener.listener
