"""State that every modern group has: epochs, members and their target assignment."""

from typing import ClassVar, Final, Generic, TypeVar

from kbroker.config.java_hash import string_hash, timeline_order
from kbroker.control.groups.group import Group
from kbroker.control.groups.modern_group.member import ModernMember
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.slices import in_order

NEW_PROTOCOL_FROM: Final = 9
"""OffsetCommit version from which the generation may be a member epoch (KIP-848), and which members
with an epoch must use."""

M = TypeVar("M", bound=ModernMember)
A = TypeVar("A")
"""The type of a member's assignment."""


class ModernGroup(Group, Generic[M, A]):
    """A consumer, share or streams group. Runs in: control. Owner: the GroupTable. Changed by
    replay alone.

    topics_seen: version of the topics for which metadata_hash is known to be right; not in the log.
    Kafka's ModernGroup.
    """

    FIRST_ASSIGNMENT_EPOCH: ClassVar[int] = 1

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.group_epoch = 1
        self.metadata_hash = 0
        self.assignment_epoch = self.FIRST_ASSIGNMENT_EPOCH
        self.assignment_timestamp_ms = 0
        self.members: dict[str, M] = {}
        self.target: dict[str, A] = {}
        self.topics_seen = -1

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def listed_protocol_type(self) -> str:
        return self.TYPE

    def member(self, member_id: str) -> M:
        """Raises UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}."
            )
        return member

    def members_in_order(self) -> list[M]:
        """The members as Kafka's map of them iterates: descriptions show them so."""
        members = dict(self.members)
        return [members[member_id] for member_id in timeline_order(members, string_hash, in_order)]

    def assignment_is_due(self, interval_ms: int, now_ms: int) -> bool:
        """Whether the last target assignment is old enough: a burst of joining members is assigned
        together. One in the future is: the clock has been set back."""
        since_ms = now_ms - self.assignment_timestamp_ms
        return not self.assignment_timestamp_ms or not 0 <= since_ms < interval_ms

    def check_room(self, member_id: str | None, limit: int) -> None:
        """Raises GROUP_MAX_SIZE_REACHED for a new member of a full group, and for None."""
        if len(self.members) >= limit and member_id not in self.members:
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The {self.TYPE} group has reached its maximum capacity of {limit} members.",
            )

    def fenced(self, epoch: int, known: int, more: str = "") -> KafkaError:
        """FENCED_MEMBER_EPOCH for a heartbeat with another epoch than the member's."""
        size = "greater" if epoch > known else "smaller"
        return KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The {self.TYPE} group member has a {size} member epoch ({epoch}) than the one known by the group "
            f"coordinator ({known}){more}. The member must abandon all its partitions and rejoin.",
        )

    def committing_member(
        self, member_id: str, instance_id: str | None, generation_or_epoch: int, transactional: bool
    ) -> M | None:
        """The member that commits; None for a commit from outside, of an administrator or a plain
        producer.

        Raises UNKNOWN_MEMBER_ID.
        """
        if generation_or_epoch < 0 and not self.members:
            return None
        if transactional and generation_or_epoch == -1 and not member_id and instance_id is None:
            return None
        return self.member(member_id)

    def validate_offset_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation_or_epoch: int,
        transactional: bool,
        api_version: int,
    ) -> None:
        """An older epoch may pass here; `validate_partition_commit` then checks each
        partition."""
        member = self.committing_member(member_id, instance_id, generation_or_epoch, transactional)
        if member is None:
            return
        if not transactional and not member.uses_classic and api_version < NEW_PROTOCOL_FROM:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        if generation_or_epoch > member.member_epoch:
            raise stale(member)

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        if member_id is None and member_epoch < 0:
            return
        member = self.member(member_id or "")
        if member_epoch != member.member_epoch:
            raise stale(member)

    def validate_offset_delete(self) -> None:
        pass

    def expiry_base_ms(self, commit_timestamp: int) -> int | None:
        return commit_timestamp

    def validate_delete(self) -> None:
        if self.members:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    # --- changes (replay)

    def put_member(self, member: M) -> None:
        """A new member, or one that has changed."""
        self.members[member.member_id] = member

    def remove_member(self, member_id: str) -> None:
        self.members.pop(member_id, None)

    def put_target(self, member_id: str, assigned: A) -> None:
        """The target assignment of a member."""
        self.target[member_id] = assigned

    def remove_target(self, member_id: str) -> None:
        self.target.pop(member_id, None)


def stale(member: ModernMember) -> KafkaError:
    """The error of a request with another epoch than the member's."""
    return KafkaError(ErrorCode.ILLEGAL_GENERATION if member.uses_classic else ErrorCode.STALE_MEMBER_EPOCH)
