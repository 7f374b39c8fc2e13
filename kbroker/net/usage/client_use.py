"""The clients of a network process for /metrics: the software of their connections, their bytes,
and throttled requests. Changes are reported once a second to control, which adds up all network
processes.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from heapq import nlargest
from typing import Final

from kbroker.config.broker import BrokerConfig
from kbroker.ipc.client_messages import OTHER, ClientReport, ConnectedClients, SoftwareConnections
from kbroker.net.connections.connection import Connection
from kbroker.net.network_tables import NetworkTables
from kbroker.net.usage.client_bytes import ClientBytes
from kbroker.net.usage.connected_clients import connected_clients
from kbroker.net.usage.quota_use import QuotaUse

UNKNOWN: Final = "unknown"
"""Kafka's name and version of a software that has not named itself."""
MAX_SOFTWARE: Final = 64
"""Names with version and listener in a report; the rest is reported as OTHER."""
MAX_SOFTWARE_LENGTH: Final = 64
"""Characters of a name or version that are kept."""

NOTHING: Final = ClientReport()

Software = tuple[str, str, str]
"""Name, version and listener."""


class ClientUse:
    """Runs in: network. Owner: RequestCounts. send: gives a report to control; nothing is reported
    where nothing serves /metrics."""

    def __init__(self, tables: NetworkTables, config: BrokerConfig) -> None:
        self.send: Callable[[ClientReport], None] = lambda _: None
        self._on = bool(config.get_str("kbroker.http.listen"))
        self._linked = False
        self._bytes = ClientBytes(tables)
        self._software: Counter[Software] = Counter()
        self._changed = False

    def linked(self, up: bool) -> None:
        """Set the link to control, whose first report then has everything; or none."""
        self._linked = up
        self._changed = True

    def opened(self, connection: Connection) -> None:
        """A connection was accepted."""
        self._count(connection, 1)
        self._bytes.opened(connection)

    def named(self, connection: Connection, client_id: str | None) -> None:
        """A request that Python serves has this client id."""
        self._bytes.named(connection, client_id)

    def learned(self, connection: Connection, name: str, version: str) -> None:
        """The client has named its software, in the form that KIP-511 allows."""
        self._count(connection, -1)
        connection.software_name = name[:MAX_SOFTWARE_LENGTH]
        connection.software_version = version[:MAX_SOFTWARE_LENGTH]
        self._count(connection, 1)

    def closed(self, connection: Connection) -> None:
        """A connection was closed."""
        self._count(connection, -1)
        self._bytes.closed(connection)

    async def connected(self, connections: Iterable[Connection]) -> ConnectedClients:
        """The clients of the open connections."""
        return await connected_clients(list(connections), self._bytes.rates)

    def tick(self, quotas: QuotaUse) -> None:
        """Report the changes; called once a second."""
        if not self._on or not self._linked:
            self._bytes.free_unused()
            return
        software = tuple(self._largest()) if self._changed else None
        self._changed = False
        report = ClientReport(software, *quotas.take(), self._bytes.take())
        if report != NOTHING:
            self.send(report)

    def _count(self, connection: Connection, step: int) -> None:
        self._changed = True
        name, version = connection.software_name or UNKNOWN, connection.software_version or UNKNOWN
        key = name, version, connection.listener.listener
        count = self._software.get(key, 0) + step
        if count:
            self._software[key] = count
        else:
            self._software.pop(key, None)

    def _largest(self) -> list[SoftwareConnections]:
        chosen = nlargest(MAX_SOFTWARE, self._software.items(), key=lambda item: item[1])
        others = Counter(self._software)
        for software, _ in chosen:
            del others[software]
        left_out: Counter[str] = Counter()
        for (_, _, listener), count in others.items():
            left_out[listener] += count
        found = [SoftwareConnections(*software, count) for software, count in chosen]
        return found + [SoftwareConnections(OTHER, OTHER, *item) for item in left_out.items()]
