"""The reports of network processes about their clients, and their sums for /metrics."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import Final

from kbroker.control.broker import Broker
from kbroker.control.clients.quotas import QuotaReports
from kbroker.control.clients.top_clients import TopClients
from kbroker.ipc.client_messages import OTHER, ClientReport, ClientUse, SoftwareConnections
from kbroker.ipc.clock import monotonic_ms

MAX_SHOWN: Final = 20


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
        """The process or its link has ended."""
        self._software.pop(link, None)

    def use(self) -> ClientUse:
        """The values that /metrics shows."""
        software = added_up(self._software.values())
        return ClientUse(software, *self._quotas.use(self._clock_ms()), self._top.all())


def added_up(
    reports: Collection[Iterable[SoftwareConnections]], max_shown: int = MAX_SHOWN
) -> tuple[SoftwareConnections, ...]:
    """Connections by name, version and listener. Names with a version beyond the `max_shown` that
    have the most connections are OTHER."""
    total: Counter[tuple[str, str]] = Counter()
    for one in (each for report in reports for each in report):
        total[one.name, one.version] += one.connections
    total.pop((OTHER, OTHER), None)
    shown = {software for software, _ in total.most_common(max_shown)}
    found: Counter[tuple[str, str, str]] = Counter()
    for one in (each for report in reports for each in report):
        software = (one.name, one.version) if (one.name, one.version) in shown else (OTHER, OTHER)
        found[*software, one.listener] += one.connections
    return tuple(SoftwareConnections(*key, count) for key, count in sorted(found.items()))
