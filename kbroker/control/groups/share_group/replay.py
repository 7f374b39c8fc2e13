"""Rebuilding share groups from their records, and following our own appends: the only way they change."""

from dataclasses import replace

from kbroker.control.groups.classic_group import ClassicGroup
from kbroker.control.groups.group_replay import GroupReplay
from kbroker.control.groups.share_group.member import SharedTopic, ShareMember
from kbroker.control.groups.share_group.state import ShareGroup
from kbroker.control.groups.table import GroupTable
from kbroker.protocol.coordinator_records import share_group_current_member_assignment as current
from kbroker.protocol.coordinator_records import share_group_state_partition_metadata as shared
from kbroker.protocol.coordinator_records import share_group_target_assignment_member as target
from kbroker.protocol.coordinator_records import share_group_target_assignment_metadata as target_epoch
from kbroker.protocol.coordinator_records.share_group_member_metadata import (
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
)
from kbroker.protocol.coordinator_records.share_group_metadata import (
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
)


class ShareReplay:
    """Runs in: control. Owner: the GroupShard."""

    def __init__(self, table: GroupTable, replay: GroupReplay) -> None:
        self._table = table
        replay.handle(ShareGroupMetadataKey, self._group)
        replay.handle(ShareGroupMemberMetadataKey, self._member)
        replay.handle(target_epoch.ShareGroupTargetAssignmentMetadataKey, self._target_epoch)
        replay.handle(target.ShareGroupTargetAssignmentMemberKey, self._target)
        replay.handle(current.ShareGroupCurrentMemberAssignmentKey, self._assignment)
        replay.handle(shared.ShareGroupStatePartitionMetadataKey, self._shared)

    def _find(self, group_id: str, create: bool) -> ShareGroup | None:
        group = self._table.groups.get(group_id)
        if isinstance(group, ShareGroup):
            return group
        replaceable = group is None or (isinstance(group, ClassicGroup) and group.is_empty)
        if not create or not replaceable:
            return None
        made = ShareGroup(group_id)
        self._table.groups[group_id] = made
        return made

    def _group(self, _: int, key: ShareGroupMetadataKey, value: ShareGroupMetadataValue | None) -> None:
        group = self._find(key.group_id, value is not None)
        if group is None:
            return
        if value is None:
            del self._table.groups[key.group_id]
            return
        group.group_epoch = value.epoch
        group.metadata_hash = value.metadata_hash

    def _member(
        self, _: int, key: ShareGroupMemberMetadataKey, value: ShareGroupMemberMetadataValue | None
    ) -> None:
        group = self._find(key.group_id, value is not None)
        if group is None:
            return
        if value is None:
            group.members.pop(key.member_id, None)
            return
        member = group.members.get(key.member_id) or ShareMember(key.member_id)
        group.members[key.member_id] = replace(
            member,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            subscribed_topics=frozenset(value.subscribed_topic_names),
        )

    def _target_epoch(
        self,
        _: int,
        key: target_epoch.ShareGroupTargetAssignmentMetadataKey,
        value: target_epoch.ShareGroupTargetAssignmentMetadataValue | None,
    ) -> None:
        group = self._find(key.group_id, value is not None)
        if group is not None:
            group.assignment_epoch = -1 if value is None else value.assignment_epoch
            group.assignment_timestamp_ms = 0 if value is None else value.assignment_timestamp

    def _target(
        self,
        _: int,
        key: target.ShareGroupTargetAssignmentMemberKey,
        value: target.ShareGroupTargetAssignmentMemberValue | None,
    ) -> None:
        group = self._find(key.group_id, value is not None)
        if group is None:
            return
        if value is None:
            group.target.pop(key.member_id, None)
        else:
            group.target[key.member_id] = {
                topic.topic_id: frozenset(topic.partitions)
                for topic in value.topic_partitions
                if topic.partitions
            }

    def _assignment(
        self,
        _: int,
        key: current.ShareGroupCurrentMemberAssignmentKey,
        value: current.ShareGroupCurrentMemberAssignmentValue | None,
    ) -> None:
        group = self._find(key.group_id, value is not None)
        if group is None:
            return
        member = group.members.get(key.member_id)
        if value is None:
            if member is not None:
                group.members[key.member_id] = replace(member, member_epoch=-1, assigned={})
            return
        group.members[key.member_id] = replace(
            member or ShareMember(key.member_id),
            member_epoch=value.member_epoch,
            previous_member_epoch=value.previous_member_epoch,
            assigned={
                topic.topic_id: frozenset(topic.partitions)
                for topic in value.assigned_partitions
                if topic.partitions
            },
        )

    def _shared(
        self,
        _: int,
        key: shared.ShareGroupStatePartitionMetadataKey,
        value: shared.ShareGroupStatePartitionMetadataValue | None,
    ) -> None:
        group = self._find(key.group_id, value is not None)
        if group is None:
            return
        group.initializing, group.shared, group.deleting = {}, {}, {}
        if value is not None:
            group.initializing = _topics(value.initializing_topics)
            group.shared = _topics(value.initialized_topics)
            group.deleting = {topic.topic_id: topic.topic_name for topic in value.deleting_topics}


def _topics(topics: list[shared.TopicPartitionsInfo]) -> dict[bytes, SharedTopic]:
    return {topic.topic_id: SharedTopic(topic.topic_name, frozenset(topic.partitions)) for topic in topics}
