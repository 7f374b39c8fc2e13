"""The reports of network processes about their clients, and what /metrics is given of them."""

from kbroker.control.clients.software import added_up
from kbroker.ipc.client_messages import ClientReport, ClientUse, SoftwareConnections


class ClientReports:
    """Runs in: control. Owner: Services. A report is known by its link: what a network process had
    open is gone with it."""

    def __init__(self) -> None:
        self._software: dict[object, tuple[SoftwareConnections, ...]] = {}

    def take(self, link: object, report: ClientReport) -> None:
        """A network process reports what has changed."""
        if report.software is not None:
            self._software[link] = report.software

    def lost(self, link: object) -> None:
        """The process, or its link, is gone."""
        self._software.pop(link, None)

    def use(self) -> ClientUse:
        """What /metrics shows."""
        return ClientUse(added_up(self._software.values()))
