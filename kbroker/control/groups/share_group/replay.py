"""Rebuilding share groups from their records, and following our own appends: the only way they
change."""

from functools import partial

from msgspec.structs import replace

from kbroker.control.groups.group_replay import GroupReplay
from kbroker.control.groups.modern_group.member import LEAVE_EPOCH
from kbroker.control.groups.modern_group.partitions import partitions_of
from kbroker.control.groups.modern_group.replay import ModernReplay
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
from kbroker.protocol.coordinator_records.share_group_metadata import ShareGroupMetadataKey
from kbroker.protocol.slices import paced


class ShareReplay:
    """Runs in: control. Owner: the GroupShard."""

    def __init__(self, table: GroupTable, replay: GroupReplay) -> None:
        self._groups = ModernReplay(table, ShareGroup, ShareMember)
        assignment = partial(self._groups.assignment, _with_assignment, _left)
        replay.handle(ShareGroupMetadataKey, self._groups.group_epoch)
        replay.handle(ShareGroupMemberMetadataKey, partial(self._groups.member, _with_metadata))
        replay.handle(target_epoch.ShareGroupTargetAssignmentMetadataKey, self._groups.target_epoch)
        replay.handle(target.ShareGroupTargetAssignmentMemberKey, self._target)
        replay.handle(current.ShareGroupCurrentMemberAssignmentKey, assignment)
        replay.handle(shared.ShareGroupStatePartitionMetadataKey, self._shared)

    def _target(
        self,
        key: target.ShareGroupTargetAssignmentMemberKey,
        value: target.ShareGroupTargetAssignmentMemberValue | None,
    ) -> None:
        self._groups.target(key, None if value is None else partitions_of(value.topic_partitions))

    def _shared(
        self,
        key: shared.ShareGroupStatePartitionMetadataKey,
        value: shared.ShareGroupStatePartitionMetadataValue | None,
    ) -> None:
        group = self._groups.find(key, value)
        if group is None:
            return
        if value is None:
            group.put_states({}, {}, {})
            group.has_states = False
        else:
            deleting = {topic.topic_id: topic.topic_name for topic in value.deleting_topics}
            group.put_states(_topics(value.initializing_topics), _topics(value.initialized_topics), deleting)


def _with_metadata(member: ShareMember, value: ShareGroupMemberMetadataValue) -> ShareMember:
    return replace(
        member,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        subscribed_topics=frozenset(value.subscribed_topic_names),
    )


def _with_assignment(
    member: ShareMember, value: current.ShareGroupCurrentMemberAssignmentValue
) -> ShareMember:
    return replace(
        member,
        member_epoch=value.member_epoch,
        previous_member_epoch=value.previous_member_epoch,
        assigned=partitions_of(value.assigned_partitions),
    )


def _left(member: ShareMember) -> ShareMember:
    return replace(member, member_epoch=LEAVE_EPOCH, assigned={})


def _topics(topics: list[shared.TopicPartitionsInfo]) -> dict[bytes, SharedTopic]:
    return {
        topic.topic_id: SharedTopic(topic.topic_name, frozenset(topic.partitions)) for topic in paced(topics)
    }
