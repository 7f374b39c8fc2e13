"""The records of consumer groups, as Apache Kafka 4.3 writes them."""

from collections.abc import Iterable

from kbroker.control.coordinator.machine import Record
from kbroker.control.groups.consumer_group.member import ConsumerMember
from kbroker.control.groups.modern_group.partitions import EpochPartitions, Partitions
from kbroker.control.groups.modern_group.records import record, tombstone, tombstones
from kbroker.protocol.coordinator_records import (
    consumer_group_current_member_assignment as current,
)
from kbroker.protocol.coordinator_records import consumer_group_target_assignment_member as target
from kbroker.protocol.coordinator_records.consumer_group_member_metadata import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
)
from kbroker.protocol.coordinator_records.consumer_group_metadata import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
)
from kbroker.protocol.coordinator_records.consumer_group_partition_metadata import (
    ConsumerGroupPartitionMetadataKey,
)
from kbroker.protocol.coordinator_records.consumer_group_regular_expression import (
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
)
from kbroker.protocol.coordinator_records.consumer_group_target_assignment_metadata import (
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from kbroker.protocol.schema import Struct
from kbroker.protocol.slices import in_order, paced


def member_metadata(group_id: str, member: ConsumerMember) -> Record:
    """The member's metadata and subscription."""
    classic = None
    if member.classic is not None:
        protocols = [ClassicProtocol(name, metadata) for name, metadata in member.classic.protocols]
        classic = ClassicMemberMetadata(member.classic.session_timeout_ms, protocols)
    value = ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=in_order(member.subscribed_topics),
        subscribed_topic_regex=member.regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
        classic_member_metadata=classic,
    )
    return record(ConsumerGroupMemberMetadataKey(group_id, member.member_id), value)


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> Record:
    """The group's epoch and the hash of the topics it was made for."""
    return record(ConsumerGroupMetadataKey(group_id), ConsumerGroupMetadataValue(epoch, metadata_hash))


def target_assignment(group_id: str, member_id: str, partitions: Partitions) -> Record:
    """A member's target assignment."""
    topics = [target.TopicPartition(topic_id, sorted(each)) for topic_id, each in paced(partitions.items())]
    return record(
        target.ConsumerGroupTargetAssignmentMemberKey(group_id, member_id),
        target.ConsumerGroupTargetAssignmentMemberValue(topics),
    )


def target_epoch(group_id: str, epoch: int, timestamp_ms: int) -> Record:
    """The group epoch that the target assignment was computed for, and when."""
    return record(
        ConsumerGroupTargetAssignmentMetadataKey(group_id),
        ConsumerGroupTargetAssignmentMetadataValue(epoch, timestamp_ms),
    )


def current_assignment(group_id: str, member: ConsumerMember) -> Record:
    """A member's current assignment, epoch and state."""
    return record(
        current.ConsumerGroupCurrentMemberAssignmentKey(group_id, member.member_id),
        current.ConsumerGroupCurrentMemberAssignmentValue(
            member.member_epoch,
            member.previous_member_epoch,
            int(member.state),
            _with_epochs(member.assigned),
            _with_epochs(member.pending_revocation),
        ),
    )


def _with_epochs(partitions: EpochPartitions) -> list[current.TopicPartitions]:
    return [
        current.TopicPartitions(topic_id, sorted(epochs), [epochs[partition] for partition in sorted(epochs)])
        for topic_id, epochs in paced(partitions.items())
    ]


def resolved_regex(
    group_id: str, regex: str, topics: Iterable[str], version: int, timestamp_ms: int
) -> Record:
    """The topics that a regular expression matches."""
    return record(
        ConsumerGroupRegularExpressionKey(group_id, regex),
        ConsumerGroupRegularExpressionValue(in_order(topics), version, timestamp_ms),
    )


def regex_tombstone(group_id: str, regex: str) -> Record:
    return tombstone(ConsumerGroupRegularExpressionKey(group_id, regex))


def partition_metadata_tombstone(group_id: str) -> Record:
    """Drops what Kafka 4.0 kept before there was a metadata hash."""
    return tombstone(ConsumerGroupPartitionMetadataKey(group_id))


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    """Removes a member."""
    return tombstones(
        [
            current.ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id),
            target.ConsumerGroupTargetAssignmentMemberKey(group_id, member_id),
            ConsumerGroupMemberMetadataKey(group_id, member_id),
        ]
    )


def group_tombstones(group_id: str, member_ids: Iterable[str], regexes: Iterable[str]) -> list[Record]:
    """Removes a group."""
    members = list(member_ids)
    keys: list[Struct] = [current.ConsumerGroupCurrentMemberAssignmentKey(group_id, each) for each in members]
    keys += [target.ConsumerGroupTargetAssignmentMemberKey(group_id, each) for each in members]
    keys.append(ConsumerGroupTargetAssignmentMetadataKey(group_id))
    keys += [ConsumerGroupMemberMetadataKey(group_id, each) for each in members]
    keys += [ConsumerGroupRegularExpressionKey(group_id, regex) for regex in regexes]
    keys += [ConsumerGroupPartitionMetadataKey(group_id), ConsumerGroupMetadataKey(group_id)]
    return tombstones(keys)
