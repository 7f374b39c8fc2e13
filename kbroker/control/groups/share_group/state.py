"""State of a share group: members, target assignment, and the partitions that are shared."""

# ruff: noqa: ARG002 (what a Group is asked, a share group mostly has no answer to)

from enum import StrEnum
from typing import ClassVar

from kbroker.control.groups.consumer_group.member import Partitions
from kbroker.control.groups.group import Group
from kbroker.control.groups.share_group.member import SharedTopic, ShareMember
from kbroker.control.groups.share_group.records import group_tombstones
from kbroker.control.machine import Record
from kbroker.protocol.errors import ErrorCode, KafkaError


class ShareState(StrEnum):
    """States, named as clients see them."""

    EMPTY = "Empty"
    STABLE = "Stable"


class ShareGroup(Group):
    """Runs in: control. Owner: the GroupTable. Changed by replay alone (Kafka's ShareGroup).

    topics_seen: version of the topics for which metadata_hash was last compared; not in the log.
    """

    TYPE: ClassVar[str] = "share"

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.group_epoch = 1
        self.metadata_hash = 0
        self.assignment_epoch = 0
        self.assignment_timestamp_ms = 0
        self.members: dict[str, ShareMember] = {}
        self.target: dict[str, Partitions] = {}
        self.initializing: dict[bytes, SharedTopic] = {}
        self.shared: dict[bytes, SharedTopic] = {}
        self.deleting: dict[bytes, str] = {}
        self.topics_seen = -1

    @property
    def state_name(self) -> str:
        return ShareState.STABLE if self.members else ShareState.EMPTY

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def listed_protocol_type(self) -> str:
        return "share"

    def member(self, member_id: str) -> ShareMember:
        """Raises UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}."
            )
        return member

    def assigned(self) -> dict[bytes, set[int]]:
        """Partitions that somebody shall read, by topic id."""
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
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {self.group_id} is not a consumer group.")

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {self.group_id} is not a consumer group.")

    def validate_offset_delete(self) -> None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {self.group_id} is not a consumer group.")

    def validate_delete(self) -> None:
        if self.members:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def expiry_base_ms(self, commit_timestamp: int) -> int | None:
        return None

    def tombstones(self) -> list[Record]:
        return group_tombstones(self.group_id, self.members)
