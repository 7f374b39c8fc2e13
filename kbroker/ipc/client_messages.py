"""What network processes report to control of their clients, and what control makes of it for
/metrics; see `messages.py`."""

from msgspec import Struct


class SoftwareConnections(Struct, frozen=True, array_like=True):
    """Open connections of one client software on one listener."""

    name: str
    version: str
    listener: str
    connections: int


class ClientReport(Struct, frozen=True, array_like=True, tag=True):
    """What has changed with the clients of a network process since its last report. Sent.

    software: all open connections; None: as before."""

    software: tuple[SoftwareConnections, ...] | None = None


class ClientUse(Struct, frozen=True, array_like=True):
    """The clients of all network processes."""

    software: tuple[SoftwareConnections, ...] = ()
