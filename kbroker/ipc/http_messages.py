"""Queries of the http process to control; see `messages.py`."""

from msgspec import Struct

from kbroker.ipc.client_messages import ClientUse


class GroupsQuery(Struct, frozen=True, array_like=True, tag=True):
    """Called; replied with a tuple of GroupSummary, all groups, or the last ones after
    GroupsPages."""


class GroupSummary(Struct, frozen=True, array_like=True):
    """One group as metrics show it. kind: classic, consumer, share or streams. offsets: committed,
    by topic and partition. dead_letters: written for it, by the topic of their originals.
    subscribed: topics that its members read, and those that a share group has shared before.
    share_lags: records that a share group has not finished, by topic."""

    group_id: str
    kind: str
    state: str
    members: int
    offsets: dict[str, dict[int, int]]
    dead_letters: dict[str, int] = {}
    subscribed: tuple[str, ...] = ()
    share_lags: dict[str, int] = {}


class GroupsPage(Struct, frozen=True, array_like=True, tag=True):
    """A part of the reply to a GroupsQuery: the reply itself has the last ones."""

    call_id: int
    groups: tuple[GroupSummary, ...]


class ClientsQuery(Struct, frozen=True, array_like=True, tag=True):
    """Called; replied with ClientMetrics."""


class ClientSample(Struct, frozen=True, array_like=True):
    """One series of a client. counter: its value only grows. attributes: those that are no label of
    their own."""

    metric: str
    node: str
    topic: str
    partition: str
    attributes: str
    counter: bool
    value: float


class PushingClient(Struct, frozen=True, array_like=True):
    """A client instance with the series that it has pushed. All texts are printable and short."""

    client_id: str
    instance_id: str
    software_name: str
    software_version: str
    address: str
    samples: tuple[ClientSample, ...]


class ClientMetrics(Struct, frozen=True, array_like=True):
    """Metrics that clients have pushed (KIP-714), and those that the broker measures of them.
    instances: clients that requested their subscription. left_out: series without room."""

    instances: int
    left_out: int
    clients: tuple[PushingClient, ...]
    use: ClientUse = ClientUse()
