"""A member of a streams group: who it is, and how far its tasks have come."""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple

from kbroker.control.groups.streams_group.tasks import NONE_OWNED, OwnedTasks

LEAVE_EPOCH: Final = -1
"""Member epoch by which a member leaves."""
STATIC_LEAVE_EPOCH: Final = -2
"""The same for a static member; the protocol has them, Kafka 4.3 refuses them."""


class MemberState(IntEnum):
    """Values as in the record; those of streams groups begin at 1."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3
    UNKNOWN = 127


class Endpoint(NamedTuple):
    """Where an application answers interactive queries."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class StreamsMember:
    """Immutable: a heartbeat makes a changed copy, which the records then bring into the group.

    tasks: what it may work on now. pending_revocation: what it must give up before it may go on.
    process_id: members of one process share it; the process is what standby tasks are spread over.
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
    topology_epoch: int = 0
    process_id: str = ""
    user_endpoint: Endpoint | None = None
    client_tags: tuple[tuple[str, str], ...] = ()
    tasks: OwnedTasks = field(default_factory=lambda: NONE_OWNED)
    pending_revocation: OwnedTasks = field(default_factory=lambda: NONE_OWNED)

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == epoch

    def same_metadata(self, other: "StreamsMember") -> bool:
        """Whether what the member metadata record holds is the same."""
        return all(getattr(self, name) == getattr(other, name) for name in _METADATA)


_METADATA = (
    "instance_id",
    "rack_id",
    "client_id",
    "client_host",
    "rebalance_timeout_ms",
    "topology_epoch",
    "process_id",
    "user_endpoint",
    "client_tags",
)
