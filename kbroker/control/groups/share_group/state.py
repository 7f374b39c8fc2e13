"""State of a share group: members, target assignment, and the partitions that are shared."""

# ruff: noqa: ARG002 (what a Group is asked, a share group mostly has no answer to)

from enum import StrEnum
from typing import ClassVar

from kbroker.control.coordinator.machine import Record
from kbroker.control.groups.modern_group.partitions import Partitions
from kbroker.control.groups.modern_group.state import ModernGroup
from kbroker.control.groups.modern_group.subscriptions import NO_NAMES, Subscriptions
from kbroker.control.groups.share_group.member import SharedTopic, ShareMember
from kbroker.control.groups.share_group.records import group_tombstones
from kbroker.control.groups.topic_view import TopicView
from kbroker.protocol.errors import ErrorCode, KafkaError


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
        self.subscriptions = Subscriptions()
        self.initializing: dict[bytes, SharedTopic] = {}
        self.shared: dict[bytes, SharedTopic] = {}
        self.deleting: dict[bytes, str] = {}

    @property
    def state_name(self) -> str:
        return ShareState.STABLE if self.members else ShareState.EMPTY

    def existing_topics(self, view: TopicView, new: ShareMember | None = None, gone: str = "") -> set[str]:
        """The existing topics of all members' subscriptions, once the member of an id is gone and a
        new or changed one is there."""
        names = NO_NAMES if new is None else new.subscribed_topics
        old = self.members.get(gone if new is None else new.member_id)
        if old is None:
            return self.subscriptions.existing(view, (), names)
        if old.subscribed_topics is names:
            return self.subscriptions.existing(view)
        return self.subscriptions.existing(view, (old.subscribed_topics,), names)

    # --- changes (replay)

    def put_member(self, member: ShareMember) -> None:
        old = self.members.get(member.member_id)
        super().put_member(member)
        self.subscriptions.change(
            NO_NAMES if old is None else old.subscribed_topics, member.subscribed_topics
        )

    def remove_member(self, member_id: str) -> None:
        old = self.members.get(member_id)
        super().remove_member(member_id)
        if old is not None:
            self.subscriptions.change(old.subscribed_topics, NO_NAMES)

    def assigned(self) -> dict[bytes, set[int]]:
        """Assigned partitions of all members, by topic id."""
        found: dict[bytes, set[int]] = {}
        for partitions in self.target.values():
            for topic_id, each in partitions.items():
                found.setdefault(topic_id, set()).update(each)
        return found

    # --- offsets and deletion

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscriptions

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
