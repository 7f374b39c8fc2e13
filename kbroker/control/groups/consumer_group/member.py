"""A member of a consumer group: its subscription, and the progress of its assignment."""

from typing import ClassVar

from msgspec import Struct, field
from msgspec.structs import replace

from kbroker.control.groups.classic_member import Protocols
from kbroker.control.groups.modern_group.member import ModernMember, RecordedState
from kbroker.control.groups.modern_group.partitions import NO_PARTITIONS, EpochPartitions


class MemberState(RecordedState):
    """Progress of a member towards its target assignment."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


class ClassicMetadata(Struct, frozen=True):
    """Metadata of a member that still uses the classic protocol."""

    session_timeout_ms: int
    protocols: Protocols


class ConsumerMember(ModernMember, frozen=True):
    """assigned: partitions it may read now. pending_revocation: partitions it must revoke first."""

    METADATA: ClassVar[tuple[str, ...]] = (
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

    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
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
        """The member in a new epoch; the previous one stays valid for a repeated heartbeat."""
        return replace(self, member_epoch=epoch, previous_member_epoch=self.member_epoch)

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == epoch
