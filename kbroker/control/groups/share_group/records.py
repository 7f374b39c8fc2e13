"""The records of share groups, as Apache Kafka 4.3 writes them."""

from collections.abc import Iterable, Mapping

from kbroker.control.coordinator.machine import Record
from kbroker.control.groups.modern_group.partitions import Partitions
from kbroker.control.groups.modern_group.records import record, tombstones
from kbroker.control.groups.share_group.member import Shared, ShareMember
from kbroker.protocol.coordinator_records import share_group_current_member_assignment as current
from kbroker.protocol.coordinator_records import share_group_state_partition_metadata as shared
from kbroker.protocol.coordinator_records import share_group_target_assignment_member as target
from kbroker.protocol.coordinator_records.share_group_member_metadata import (
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
)
from kbroker.protocol.coordinator_records.share_group_metadata import (
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
)
from kbroker.protocol.coordinator_records.share_group_target_assignment_metadata import (
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
)
from kbroker.protocol.schema import Struct
from kbroker.protocol.slices import in_order, paced

_STABLE = 0


def member_metadata(group_id: str, member: ShareMember) -> Record:
    value = ShareGroupMemberMetadataValue(
        member.rack_id, member.client_id, member.client_host, in_order(member.subscribed_topics)
    )
    return record(ShareGroupMemberMetadataKey(group_id, member.member_id), value)


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> Record:
    return record(ShareGroupMetadataKey(group_id), ShareGroupMetadataValue(epoch, metadata_hash))


def target_assignment(group_id: str, member_id: str, partitions: Partitions) -> Record:
    topics = [target.TopicPartition(topic_id, sorted(each)) for topic_id, each in paced(partitions.items())]
    return record(
        target.ShareGroupTargetAssignmentMemberKey(group_id, member_id),
        target.ShareGroupTargetAssignmentMemberValue(topics),
    )


def target_epoch(group_id: str, epoch: int, timestamp_ms: int) -> Record:
    return record(
        ShareGroupTargetAssignmentMetadataKey(group_id),
        ShareGroupTargetAssignmentMetadataValue(epoch, timestamp_ms),
    )


def current_assignment(group_id: str, member: ShareMember) -> Record:
    topics = [
        current.TopicPartitions(topic_id, sorted(each)) for topic_id, each in paced(member.assigned.items())
    ]
    return record(
        current.ShareGroupCurrentMemberAssignmentKey(group_id, member.member_id),
        current.ShareGroupCurrentMemberAssignmentValue(
            member.member_epoch, member.previous_member_epoch, _STABLE, topics
        ),
    )


def shared_partitions(
    group_id: str, initializing: Shared, initialized: Shared, deleting: Mapping[bytes, str]
) -> Record:
    """The partitions that have a share state or get one, and topics whose state is being
    deleted."""
    value = shared.ShareGroupStatePartitionMetadataValue(
        _topics(initializing),
        _topics(initialized),
        [shared.TopicInfo(topic_id, name) for topic_id, name in paced(deleting.items())],
    )
    return record(shared.ShareGroupStatePartitionMetadataKey(group_id), value)


def _topics(topics: Shared) -> list[shared.TopicPartitionsInfo]:
    return [
        shared.TopicPartitionsInfo(topic_id, topic.name, sorted(topic.partitions))
        for topic_id, topic in paced(topics.items())
    ]


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    """Removes a member."""
    return tombstones(
        [
            current.ShareGroupCurrentMemberAssignmentKey(group_id, member_id),
            target.ShareGroupTargetAssignmentMemberKey(group_id, member_id),
            ShareGroupMemberMetadataKey(group_id, member_id),
        ]
    )


def group_tombstones(group_id: str, member_ids: Iterable[str]) -> list[Record]:
    """Removes a group."""
    members = list(member_ids)
    keys: list[Struct] = [current.ShareGroupCurrentMemberAssignmentKey(group_id, each) for each in members]
    keys += [target.ShareGroupTargetAssignmentMemberKey(group_id, each) for each in members]
    keys.append(ShareGroupTargetAssignmentMetadataKey(group_id))
    keys += [ShareGroupMemberMetadataKey(group_id, each) for each in members]
    keys += [shared.ShareGroupStatePartitionMetadataKey(group_id), ShareGroupMetadataKey(group_id)]
    return tombstones(keys)
