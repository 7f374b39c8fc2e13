"""Samples of clients: their software, their bytes, and metrics that they have pushed."""

from collections.abc import Iterable

from kbroker.http.families import Families
from kbroker.http.series import KeptLabels
from kbroker.ipc.client_messages import MovedBytes, SoftwareConnections
from kbroker.ipc.http_messages import ClientMetrics

VALUE, TOTAL = "kbroker_client_metric_value", "kbroker_client_metric_total"
OTHER = "other"
ALWAYS = ("unknown", OTHER)
"""Names and versions of client software that have series from the start."""


class ClientRows:
    """Runs in: http. Control limits the number of series and the length of their texts. listeners:
    their names."""

    def __init__(self, listeners: Iterable[str]) -> None:
        self._clients, self._gauges, self._counters = (KeptLabels() for _ in range(3))
        self._software, self._moved = KeptLabels(), KeptLabels()
        self._no_connections = {(name, name, listener): 0 for listener in listeners for name in ALWAYS}

    def add(self, families: Families, pushed: ClientMetrics) -> None:
        """Add every client and every series that it has pushed."""
        self._connections(families, pushed.use.software)
        self._bytes(families, pushed.use.moved)
        families.add("kbroker_client_instances", (), pushed.instances)
        families.add("kbroker_client_metrics_left_out", (), pushed.left_out)
        names = [
            (one.client_id, one.instance_id, one.software_name, one.software_version, one.address)
            for one in pushed.clients
        ]
        families.add_all("kbroker_client_info", self._clients.of(names), [1] * len(names))
        for name, kept in ((VALUE, self._gauges), (TOTAL, self._counters)):
            rows = {
                (
                    one.client_id,
                    one.instance_id,
                    s.metric,
                    s.node,
                    s.topic,
                    s.partition,
                    s.attributes,
                ): s.value
                for one in pushed.clients
                for s in one.samples
                if s.counter is (name == TOTAL)
            }
            families.add_all(name, kept.of(list(rows)), rows.values())

    def _connections(self, families: Families, software: Iterable[SoftwareConnections]) -> None:
        found = {(one.name, one.version, one.listener): one.connections for one in software}
        rows = self._no_connections | found
        families.add_all("kbroker_connections_by_software", self._software.of(list(rows)), rows.values())

    def _bytes(self, families: Families, moved: Iterable[MovedBytes]) -> None:
        rows = {OTHER: (0, 0)} | {one.client_id: (one.received, one.sent) for one in moved}
        labels = self._moved.of([(name,) for name in rows])
        received, sent = zip(*rows.values(), strict=True)
        families.add_all("kbroker_client_received_bytes_total", labels, received)
        families.add_all("kbroker_client_sent_bytes_total", labels, sent)
