"""The reports of network processes about their clients, and their sums for /metrics."""

from collections.abc import Callable

from kbroker.control.broker import Broker
from kbroker.control.clients.quotas import QuotaReports
from kbroker.control.clients.software import added_up
from kbroker.control.clients.top_clients import TopClients
from kbroker.ipc.client_messages import ClientReport, ClientUse, SoftwareConnections
from kbroker.ipc.clock import monotonic_ms


class ClientReports:
    """Runs in: control. Owner: Services. Connections are counted by link: those of a network
    process end with it."""

    def __init__(self, broker: Broker, clock_ms: Callable[[], int] = monotonic_ms) -> None:
        self._clock_ms = clock_ms
        self._software: dict[object, tuple[SoftwareConnections, ...]] = {}
        self._quotas = QuotaReports(broker)
        self._top = TopClients()

    def take(self, link: object, report: ClientReport) -> None:
        """A network process reports what has changed."""
        if report.software is not None:
            self._software[link] = report.software
        self._quotas.take(report)
        for moved in report.moved:
            self._top.add(moved, self._clock_ms())

    def lost(self, link: object) -> None:
        """The process, or its link, is gone."""
        self._software.pop(link, None)

    def use(self) -> ClientUse:
        """The values that /metrics shows."""
        software = added_up(self._software.values())
        return ClientUse(software, *self._quotas.use(self._clock_ms()), self._top.all())
