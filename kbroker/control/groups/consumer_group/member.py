"""A member of a consumer group: what it subscribes to, and how far its assignment has come."""

from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from types import MappingProxyType
from typing import Final
from uuid import uuid4

from kbroker.control.groups.classic_member import Protocols

Partitions = Mapping[bytes, frozenset[int]]
"""Topic id -> partitions, of a target assignment or of what a member owns. No empty sets."""

EpochPartitions = Mapping[bytes, Mapping[int, int]]
"""Topic id -> partition -> epoch in which the member got it (KIP-1251). No empty mappings."""

NO_PARTITIONS: Final[EpochPartitions] = MappingProxyType({})

LEAVE_EPOCH: Final = -1
"""Member epoch by which a member leaves."""
STATIC_LEAVE_EPOCH: Final = -2
"""Member epoch by which a static member leaves for a while."""


class MemberState(IntEnum):
    """Values as in the record."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


@dataclass(frozen=True, slots=True)
class ClassicMetadata:
    """What is kept of a member that still speaks the classic protocol."""

    session_timeout_ms: int
    protocols: Protocols


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """Immutable: a heartbeat makes a changed copy, which the records then bring into the group.

    assigned: what it may read now. pending_revocation: what it must give up before it may go on.
    """

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    subscribed_topics: frozenset[str] = frozenset()
    regex: str = ""
    server_assignor: str | None = None
    classic: ClassicMetadata | None = None
    assigned: EpochPartitions = field(default_factory=lambda: NO_PARTITIONS)
    pending_revocation: EpochPartitions = field(default_factory=lambda: NO_PARTITIONS)

    @property
    def uses_classic(self) -> bool:
        return self.classic is not None

    def with_epoch(self, epoch: int) -> "ConsumerMember":
        """Moved to an epoch; the one before stays valid for a repeated heartbeat."""
        return replace(self, member_epoch=epoch, previous_member_epoch=self.member_epoch)

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == epoch

    def same_subscription(self, other: "ConsumerMember") -> bool:
        """Whether what the member metadata record holds is the same."""
        return all(getattr(self, name) == getattr(other, name) for name in _METADATA)


_METADATA = (
    "instance_id",
    "rack_id",
    "client_id",
    "client_host",
    "rebalance_timeout_ms",
    "subscribed_topics",
    "regex",
    "server_assignor",
    "classic",
)


def new_member_id() -> str:
    """A member id in the form of Kafka's Uuid: 22 characters, not beginning with a dash."""
    while (made := urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return made


def plain(partitions: EpochPartitions) -> dict[bytes, frozenset[int]]:
    """Without the epochs."""
    return {topic_id: frozenset(epochs) for topic_id, epochs in partitions.items()}
