"""A member of a streams group: its metadata and its tasks."""

from typing import ClassVar, NamedTuple

from msgspec import field

from kbroker.control.groups.modern_group.member import ModernMember, RecordedState
from kbroker.control.groups.streams_group.tasks import NONE_OWNED, OwnedTasks


class MemberState(RecordedState):
    """Progress of a member towards its target assignment; the values begin at 1."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3
    UNKNOWN = 127


class Endpoint(NamedTuple):
    """The endpoint of an application for interactive queries."""

    host: str
    port: int


class StreamsMember(ModernMember, frozen=True):
    """tasks: tasks it may run now. pending_revocation: tasks it must revoke first.

    process_id: members of one process share it; the process is what standby tasks are spread over.
    """

    METADATA: ClassVar[tuple[str, ...]] = (
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

    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rebalance_timeout_ms: int = -1
    topology_epoch: int = 0
    process_id: str = ""
    user_endpoint: Endpoint | None = None
    client_tags: tuple[tuple[str, str], ...] = ()
    tasks: OwnedTasks = field(default_factory=lambda: NONE_OWNED)
    pending_revocation: OwnedTasks = field(default_factory=lambda: NONE_OWNED)

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == epoch
