"""State of a share group: members, target assignment, and the partitions that are shared."""

# ruff: noqa: ARG002 (a share group answers most methods of Group without their arguments)

from collections.abc import Collection
from enum import StrEnum
from typing import ClassVar

from msgspec.structs import replace

from kbroker.control.coordinator.machine import Record
from kbroker.control.groups.modern_group.partitions import Partitions
from kbroker.control.groups.modern_group.state import ModernGroup
from kbroker.control.groups.modern_group.subscriptions import NO_NAMES, Subscriptions
from kbroker.control.groups.share_group.member import SharedTopic, ShareMember
from kbroker.control.groups.share_group.records import group_tombstones
from kbroker.control.groups.topic_view import TopicView
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.slices import paced


class ShareState(StrEnum):
    """States, named as clients see them."""

    EMPTY = "Empty"
    STABLE = "Stable"


class ShareGroup(ModernGroup[ShareMember, Partitions]):
    """Runs in: control. Owner: the GroupTable. Changed only by replay (Kafka's ShareGroup).

    has_states: whether partitions have been shared since the group was made: the record of their
    states is in the log.
    states_seen: version of the topics for which all subscribed partitions have share states, or get
    them; not in the log.
    """

    TYPE: ClassVar[str] = "share"

    FIRST_ASSIGNMENT_EPOCH: ClassVar[int] = 0

    EXPIRES: ClassVar[bool] = False

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.subscriptions = Subscriptions()
        self.initializing: dict[bytes, SharedTopic] = {}
        self.shared: dict[bytes, SharedTopic] = {}
        self.deleting: dict[bytes, str] = {}
        self.has_states = False
        self.states_seen = -1
        self._lacks: tuple[int, int, bool] | None = None

    @property
    def state_name(self) -> str:
        return ShareState.STABLE if self.members else ShareState.EMPTY

    def existing_topics(self, view: TopicView, new: ShareMember) -> set[str]:
        """The existing topics of all members' subscriptions, once a new or changed member is
        there."""
        return self.subscriptions.existing(view, self._names_of(new.member_id), (new.subscribed_topics,))

    def hash_with(self, view: TopicView, new: ShareMember | None = None, gone: str = "") -> int:
        """The hash of the existing topics of all members' subscriptions, once the member of an id
        is gone or a new or changed one is there."""
        if new is None:
            return self.subscriptions.hash(view, self._names_of(gone))
        return self.subscriptions.hash(view, self._names_of(new.member_id), (new.subscribed_topics,))

    def _names_of(self, member_id: str) -> tuple[frozenset[str], ...]:
        member = self.members.get(member_id)
        return () if member is None else (member.subscribed_topics,)

    # --- changes (replay)

    def put_member(self, member: ShareMember) -> None:
        old = self.members.get(member.member_id)
        names = self.subscriptions.shared(member.subscribed_topics)
        if names is not member.subscribed_topics:
            member = replace(member, subscribed_topics=names)
        super().put_member(member)
        self.subscriptions.change(
            NO_NAMES if old is None else old.subscribed_topics, member.subscribed_topics
        )

    def remove_member(self, member_id: str) -> None:
        old = self.members.get(member_id)
        super().remove_member(member_id)
        if old is not None:
            self.subscriptions.change(old.subscribed_topics, NO_NAMES)

    def put_target(self, member_id: str, assigned: Partitions) -> None:
        super().put_target(member_id, assigned)
        self._lacks = None

    def remove_target(self, member_id: str) -> None:
        super().remove_target(member_id)
        self._lacks = None

    def put_states(
        self,
        initializing: dict[bytes, SharedTopic],
        shared: dict[bytes, SharedTopic],
        deleting: dict[bytes, str],
    ) -> None:
        """The partitions whose share states are being written, are there, or are being deleted."""
        self.initializing, self.shared, self.deleting = initializing, shared, deleting
        self.has_states = True
        self._lacks = None
        self.states_seen = -1

    def lacks_shared(self, view: TopicView) -> bool:
        """Whether subscribed topics have shared partitions that are not assigned. Kept until an
        assignment, what is shared, or a topic changes: each heartbeat asks. A deleted topic lacks
        nothing: it is never assigned."""
        version = view.version
        if self._lacks is None or self._lacks[:2] != (self.subscriptions.changes, version):
            assigned = self._assigned()
            lacks = any(
                topic.name in self.subscriptions
                and topic.partitions != assigned.get(topic_id, set())
                and view.id_of(topic.name) == topic_id
                for topic_id, topic in paced(self.shared.items())
            )
            self._lacks = self.subscriptions.changes, version, lacks
        return self._lacks[2]

    def _assigned(self) -> dict[bytes, set[int]]:
        """Assigned partitions of all members, by topic id."""
        found: dict[bytes, set[int]] = {}
        for partitions in paced(self.target.values()):
            for topic_id, each in paced(partitions.items()):
                found.setdefault(topic_id, set()).update(each)
        return found

    # --- offsets and deletion

    def topics_read(self) -> Collection[str]:
        return self.subscriptions

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
