"""Rebuilding consumer groups from their records, and following our own appends: the only way they
change."""

from functools import partial
from typing import Any

from msgspec.structs import replace

from kbroker.control.groups.consumer_group.member import (
    ClassicMetadata,
    ConsumerMember,
    MemberState,
)
from kbroker.control.groups.consumer_group.state import ConsumerGroup, ResolvedRegex
from kbroker.control.groups.group_replay import GroupReplay
from kbroker.control.groups.modern_group.member import LEAVE_EPOCH
from kbroker.control.groups.modern_group.partitions import (
    NO_PARTITIONS,
    EpochPartitions,
    partitions_of,
    with_epochs,
)
from kbroker.control.groups.modern_group.replay import ModernReplay
from kbroker.control.groups.table import GroupTable
from kbroker.protocol.coordinator_records import consumer_group_current_member_assignment as current
from kbroker.protocol.coordinator_records.consumer_group_member_metadata import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
)
from kbroker.protocol.coordinator_records.consumer_group_metadata import ConsumerGroupMetadataKey
from kbroker.protocol.coordinator_records.consumer_group_partition_metadata import (
    ConsumerGroupPartitionMetadataKey,
)
from kbroker.protocol.coordinator_records.consumer_group_regular_expression import (
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
)
from kbroker.protocol.coordinator_records.consumer_group_target_assignment_member import (
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
)
from kbroker.protocol.coordinator_records.consumer_group_target_assignment_metadata import (
    ConsumerGroupTargetAssignmentMetadataKey,
)
from kbroker.protocol.schema import ProtocolError


class ConsumerReplay:
    """Runs in: control. Owner: the ConsumerGroups."""

    def __init__(self, table: GroupTable, replay: GroupReplay) -> None:
        self._groups = ModernReplay(table, ConsumerGroup, ConsumerMember)
        assignment = partial(self._groups.assignment, _with_assignment, _left)
        replay.handle(ConsumerGroupMetadataKey, self._groups.group_epoch)
        replay.handle(ConsumerGroupPartitionMetadataKey, self._partition_metadata)
        replay.handle(ConsumerGroupMemberMetadataKey, self._member)
        replay.handle(ConsumerGroupTargetAssignmentMetadataKey, self._groups.target_epoch)
        replay.handle(ConsumerGroupTargetAssignmentMemberKey, self._target)
        replay.handle(current.ConsumerGroupCurrentMemberAssignmentKey, assignment)
        replay.handle(ConsumerGroupRegularExpressionKey, self._regex)

    def _partition_metadata(self, key: ConsumerGroupPartitionMetadataKey, value: Any) -> None:
        group = self._groups.find(key, value)
        if group is not None:
            group.has_partition_metadata = value is not None

    def _member(
        self, key: ConsumerGroupMemberMetadataKey, value: ConsumerGroupMemberMetadataValue | None
    ) -> None:
        classic = None if value is None else _classic_metadata(value)
        self._groups.member(partial(_with_metadata, classic), key, value)

    def _target(
        self,
        key: ConsumerGroupTargetAssignmentMemberKey,
        value: ConsumerGroupTargetAssignmentMemberValue | None,
    ) -> None:
        self._groups.target(key, None if value is None else partitions_of(value.topic_partitions))

    def _regex(
        self,
        key: ConsumerGroupRegularExpressionKey,
        value: ConsumerGroupRegularExpressionValue | None,
    ) -> None:
        group = self._groups.find(key, value)
        if group is None:
            return
        if value is None:
            group.remove_regex(key.regular_expression)
        else:
            resolved = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
            group.put_regex(key.regular_expression, resolved)


def _with_metadata(
    classic: ClassicMetadata | None, member: ConsumerMember, value: ConsumerGroupMemberMetadataValue
) -> ConsumerMember:
    return replace(
        member,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        subscribed_topics=frozenset(value.subscribed_topic_names),
        regex=value.subscribed_topic_regex or "",
        server_assignor=value.server_assignor,
        classic=classic,
    )


def _with_assignment(
    member: ConsumerMember, value: current.ConsumerGroupCurrentMemberAssignmentValue
) -> ConsumerMember:
    return replace(
        member,
        member_epoch=value.member_epoch,
        previous_member_epoch=value.previous_member_epoch,
        state=MemberState(value.state),
        assigned=_with_epochs(value.assigned_partitions, value.member_epoch),
        pending_revocation=_with_epochs(value.partitions_pending_revocation, value.member_epoch),
    )


def _left(member: ConsumerMember) -> ConsumerMember:
    return replace(
        member,
        member_epoch=LEAVE_EPOCH,
        previous_member_epoch=LEAVE_EPOCH,
        assigned=NO_PARTITIONS,
        pending_revocation=NO_PARTITIONS,
    )


def _with_epochs(topics: list[current.TopicPartitions], member_epoch: int) -> EpochPartitions:
    return {
        topic.topic_id: with_epochs(topic.partitions, topic.assignment_epochs, member_epoch)
        for topic in topics
        if topic.partitions
    }


def _classic_metadata(value: ConsumerGroupMemberMetadataValue) -> ClassicMetadata | None:
    """Raises ProtocolError for a member that supports no protocol."""
    data = value.classic_member_metadata
    if data is None:
        return None
    protocols = tuple((each.name, each.metadata) for each in data.supported_protocols)
    if not protocols:
        raise ProtocolError("a member of the classic protocol that supports none")
    return ClassicMetadata(data.session_timeout_ms, protocols)
