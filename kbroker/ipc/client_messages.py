"""Reports of network processes about their clients, and control's sums of them for /metrics; see
`messages.py`."""

from typing import Final

from msgspec import Struct

OTHER: Final = "other"
"""The name for all clients without a row of their own in a report or on /metrics."""
MAX_LISTED: Final = 500
"""Clients in a list of connected ones; the others are counted."""


class SoftwareConnections(Struct, frozen=True, array_like=True):
    """Open connections of one client software on one listener."""

    name: str
    version: str
    listener: str
    connections: int


class Throttled(Struct, frozen=True, array_like=True):
    """Requests that were throttled because of one quota, and the total time. user, client_id: of
    those that share it, see `config.client_quotas.Bound`."""

    quota: str
    user: str
    client_id: str
    requests: int
    milliseconds: int


class MovedBytes(Struct, frozen=True, array_like=True):
    """Bytes received from clients with one client id, and sent to them."""

    client_id: str
    received: int
    sent: int


class ClientReport(Struct, frozen=True, array_like=True, tag=True):
    """Changes of the clients of a network process since its last report. Sent.

    software: all open connections; None: as before. clients: users and client ids that have quotas.
    moved: by client id."""

    software: tuple[SoftwareConnections, ...] | None = None
    throttled: tuple[Throttled, ...] = ()
    clients: tuple[tuple[str, str], ...] = ()
    moved: tuple[MovedBytes, ...] = ()


class QuotaUse(Struct, frozen=True, array_like=True):
    """A quota and its use. used: in the quota's unit; None: it is a default, which each client uses
    separately. throttled_requests, throttled_ms: since control started."""

    quota: str
    user: str
    client_id: str
    limit: float
    used: float | None
    throttled_requests: int = 0
    throttled_ms: int = 0


class ClientUse(Struct, frozen=True, array_like=True):
    """The clients of all network processes."""

    software: tuple[SoftwareConnections, ...] = ()
    quotas: tuple[QuotaUse, ...] = ()
    quotas_left_out: int = 0
    moved: tuple[MovedBytes, ...] = ()


class ConnectedQuery(Struct, frozen=True, array_like=True, tag=True):
    """Called by the http process, and by control for it; replied with ConnectedClients."""


class ConnectedClient(Struct, frozen=True, array_like=True):
    """Open connections with the same address, client id, software, principal and listener.
    software_name, software_version: empty if the client has not named it. in_bytes_s, out_bytes_s:
    received from it and sent to it per second, on average of the last seconds."""

    address: str
    client_id: str
    software_name: str
    software_version: str
    principal: str
    listener: str
    connections: int
    in_bytes_s: float
    out_bytes_s: float


class ConnectedClients(Struct, frozen=True, array_like=True):
    """Connected clients, those with the most bytes per second first. left_out: clients beyond
    MAX_LISTED, and their connections."""

    clients: tuple[ConnectedClient, ...] = ()
    left_out: int = 0
    left_out_connections: int = 0
