"""State of a share group: members, target assignment, and the partitions that are shared."""

# ruff: noqa: ARG002 (what a Group is asked, a share group mostly has no answer to)

from collections.abc import Iterable
from enum import StrEnum
from typing import ClassVar

from kbroker.control.coordinator.machine import Record
from kbroker.control.groups.modern_group.partitions import Partitions
from kbroker.control.groups.modern_group.state import ModernGroup
from kbroker.control.groups.share_group.member import SharedTopic, ShareMember
from kbroker.control.groups.share_group.records import group_tombstones
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.slices import paced


class ShareState(StrEnum):
    """States, named as clients see them."""

    EMPTY = "Empty"
    STABLE = "Stable"


class ShareGroup(ModernGroup[ShareMember, Partitions]):
    """Runs in: control. Owner: the GroupTable. Changed by replay alone (Kafka's ShareGroup)."""

    TYPE: ClassVar[str] = "share"

    FIRST_ASSIGNMENT_EPOCH: ClassVar[int] = 0

    EXPIRES: ClassVar[bool] = False

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.initializing: dict[bytes, SharedTopic] = {}
        self.shared: dict[bytes, SharedTopic] = {}
        self.deleting: dict[bytes, str] = {}

    @property
    def state_name(self) -> str:
        return ShareState.STABLE if self.members else ShareState.EMPTY

    @staticmethod
    def topics_with(members: Iterable[ShareMember]) -> set[str]:
        """Topics that members subscribe to."""
        return {topic for member in members for topic in paced(member.subscribed_topics)}

    def assigned(self) -> dict[bytes, set[int]]:
        """Assigned partitions of all members, by topic id."""
        found: dict[bytes, set[int]] = {}
        for partitions in self.target.values():
            for topic_id, each in partitions.items():
                found.setdefault(topic_id, set()).update(each)
        return found

    # --- offsets and deletion

    def is_subscribed_to(self, topic: str) -> bool:
        return any(topic in member.subscribed_topics for member in self.members.values())

    def validate_offset_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation_or_epoch: int,
        transactional: bool,
        api_version: int,
    ) -> None:
        """Share groups have no committed offsets."""
        raise _no_offsets(self.group_id)

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        raise _no_offsets(self.group_id)

    def validate_offset_delete(self) -> None:
        raise _no_offsets(self.group_id)

    def expiry_base_ms(self, commit_timestamp: int) -> int | None:
        return None

    def tombstones(self) -> list[Record]:
        return group_tombstones(self.group_id, self.members)


def _no_offsets(group_id: str) -> KafkaError:
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
