"""Samples of clients: what they have pushed of their own metrics."""

from kbroker.http.families import Families
from kbroker.http.series import KeptLabels
from kbroker.ipc.http_messages import ClientMetrics

VALUE, TOTAL = "kbroker_client_metric_value", "kbroker_client_metric_total"


class ClientRows:
    """Runs in: http. Control bounds the number of series, and the length of their texts."""

    def __init__(self) -> None:
        self._clients, self._gauges, self._counters = (KeptLabels() for _ in range(3))

    def add(self, families: Families, pushed: ClientMetrics) -> None:
        """Every client, and every series that it has pushed."""
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
