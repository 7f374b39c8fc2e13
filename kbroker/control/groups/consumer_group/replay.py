"""Rebuilding consumer groups from their records, and following our own appends: the only way they change."""

from dataclasses import replace
from typing import Any

from kbroker.control.groups.classic_group import ClassicGroup
from kbroker.control.groups.consumer_group.member import (
    LEAVE_EPOCH,
    NO_PARTITIONS,
    ClassicMetadata,
    ConsumerMember,
    EpochPartitions,
    MemberState,
)
from kbroker.control.groups.consumer_group.state import ConsumerGroup, ResolvedRegex
from kbroker.control.groups.group_replay import GroupReplay
from kbroker.control.groups.table import GroupTable
from kbroker.protocol.coordinator_records import consumer_group_current_member_assignment as current
from kbroker.protocol.coordinator_records.consumer_group_member_metadata import (
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
from kbroker.protocol.coordinator_records.consumer_group_target_assignment_member import (
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
)
from kbroker.protocol.coordinator_records.consumer_group_target_assignment_metadata import (
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)


class ConsumerReplay:
    """Runs in: control. Owner: the ConsumerGroups."""

    def __init__(self, table: GroupTable, replay: GroupReplay) -> None:
        self._table = table
        replay.handle(ConsumerGroupMetadataKey, self._group)
        replay.handle(ConsumerGroupPartitionMetadataKey, self._partition_metadata)
        replay.handle(ConsumerGroupMemberMetadataKey, self._member)
        replay.handle(ConsumerGroupTargetAssignmentMetadataKey, self._target_epoch)
        replay.handle(ConsumerGroupTargetAssignmentMemberKey, self._target)
        replay.handle(current.ConsumerGroupCurrentMemberAssignmentKey, self._assignment)
        replay.handle(ConsumerGroupRegularExpressionKey, self._regex)

    def _find(self, group_id: str, create: bool) -> ConsumerGroup | None:
        """The group; created also in the place of a classic one that stands for offsets alone."""
        group = self._table.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group
        replaceable = group is None or (isinstance(group, ClassicGroup) and group.is_empty)
        if not create or not replaceable:
            return None
        made = ConsumerGroup(group_id)
        self._table.groups[group_id] = made
        return made

    def _group(self, _: int, key: ConsumerGroupMetadataKey, value: ConsumerGroupMetadataValue | None) -> None:
        group = self._find(key.group_id, value is not None)
        if group is None:
            return
        if value is None:
            del self._table.groups[key.group_id]
            return
        group.group_epoch = value.epoch
        group.metadata_hash = value.metadata_hash

    def _partition_metadata(self, _: int, key: ConsumerGroupPartitionMetadataKey, value: Any) -> None:
        group = self._find(key.group_id, value is not None)
        if group is not None:
            group.has_partition_metadata = value is not None

    def _member(
        self, _: int, key: ConsumerGroupMemberMetadataKey, value: ConsumerGroupMemberMetadataValue | None
    ) -> None:
        group = self._find(key.group_id, value is not None)
        if group is None:
            return
        if value is None:
            group.remove_member(key.member_id)
            return
        classic = None
        if (data := value.classic_member_metadata) is not None:
            protocols = tuple((each.name, each.metadata) for each in data.supported_protocols)
            classic = ClassicMetadata(data.session_timeout_ms, protocols)
        member = group.members.get(key.member_id) or ConsumerMember(key.member_id)
        group.put_member(
            replace(
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
        )

    def _target_epoch(
        self,
        _: int,
        key: ConsumerGroupTargetAssignmentMetadataKey,
        value: ConsumerGroupTargetAssignmentMetadataValue | None,
    ) -> None:
        group = self._find(key.group_id, value is not None)
        if group is not None:
            group.assignment_epoch = -1 if value is None else value.assignment_epoch
            group.assignment_timestamp_ms = 0 if value is None else value.assignment_timestamp

    def _target(
        self,
        _: int,
        key: ConsumerGroupTargetAssignmentMemberKey,
        value: ConsumerGroupTargetAssignmentMemberValue | None,
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
        key: current.ConsumerGroupCurrentMemberAssignmentKey,
        value: current.ConsumerGroupCurrentMemberAssignmentValue | None,
    ) -> None:
        group = self._find(key.group_id, value is not None)
        if group is None:
            return
        member = group.members.get(key.member_id)
        if value is None:
            if member is not None:
                group.put_member(
                    replace(
                        member,
                        member_epoch=LEAVE_EPOCH,
                        previous_member_epoch=LEAVE_EPOCH,
                        assigned=NO_PARTITIONS,
                        pending_revocation=NO_PARTITIONS,
                    )
                )
            return
        known = value.state in MemberState._value2member_map_
        group.put_member(
            replace(
                member or ConsumerMember(key.member_id),
                member_epoch=value.member_epoch,
                previous_member_epoch=value.previous_member_epoch,
                state=MemberState(value.state) if known else MemberState.UNKNOWN,
                assigned=_with_epochs(value.assigned_partitions, value.member_epoch),
                pending_revocation=_with_epochs(value.partitions_pending_revocation, value.member_epoch),
            )
        )

    def _regex(
        self,
        _: int,
        key: ConsumerGroupRegularExpressionKey,
        value: ConsumerGroupRegularExpressionValue | None,
    ) -> None:
        group = self._find(key.group_id, value is not None)
        if group is None:
            return
        if value is None:
            group.regexes.pop(key.regular_expression, None)
        else:
            group.regexes[key.regular_expression] = ResolvedRegex(
                frozenset(value.topics), value.version, value.timestamp
            )


def _with_epochs(topics: list[current.TopicPartitions], member_epoch: int) -> EpochPartitions:
    """Records of brokers before 4.3 carry no epochs: the member's own stands in."""
    found: dict[bytes, dict[int, int]] = {}
    for topic in topics:
        if not topic.partitions:
            continue
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [member_epoch] * len(topic.partitions)
        found[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return found
