"""The records of streams groups, as Apache Kafka 4.3 writes them."""

from collections.abc import Iterable, Mapping

from kbroker.control.coordinator.machine import Record
from kbroker.control.groups.modern_group.records import record, tombstones
from kbroker.control.groups.streams_group.member import StreamsMember
from kbroker.control.groups.streams_group.tasks import EpochTasks, Tasks, TaskSet
from kbroker.control.groups.streams_group.topology import Topology, to_record
from kbroker.protocol.coordinator_records import streams_group_current_member_assignment as current
from kbroker.protocol.coordinator_records import streams_group_target_assignment_member as target
from kbroker.protocol.coordinator_records.streams_group_member_metadata import (
    Endpoint,
    KeyValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
)
from kbroker.protocol.coordinator_records.streams_group_metadata import (
    LastAssignmentConfig,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
)
from kbroker.protocol.coordinator_records.streams_group_target_assignment_metadata import (
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
)
from kbroker.protocol.coordinator_records.streams_group_topology import StreamsGroupTopologyKey
from kbroker.protocol.schema import Struct


def group_epoch(
    group_id: str, epoch: int, metadata_hash: int, validated_topology_epoch: int, configs: Mapping[str, str]
) -> Record:
    """The group's epoch, and what it was made for: the topics' hash, the topology, the assignor's
    settings."""
    value = StreamsGroupMetadataValue(
        epoch,
        metadata_hash,
        validated_topology_epoch,
        [LastAssignmentConfig(key, value) for key, value in sorted(configs.items())],
    )
    return record(StreamsGroupMetadataKey(group_id), value)


def topology(group_id: str, value: Topology) -> Record:
    return record(StreamsGroupTopologyKey(group_id), to_record(value))


def member_metadata(group_id: str, member: StreamsMember) -> Record:
    """The member's metadata."""
    value = StreamsGroupMemberMetadataValue(
        member.instance_id,
        member.rack_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.topology_epoch,
        member.process_id,
        None if member.user_endpoint is None else Endpoint(*member.user_endpoint),
        [KeyValue(key, value) for key, value in member.client_tags],
    )
    return record(StreamsGroupMemberMetadataKey(group_id, member.member_id), value)


def target_assignment(group_id: str, member_id: str, tasks: TaskSet) -> Record:
    """A member's target assignment."""

    def ids(each: Tasks) -> list[target.TaskIds]:
        return [target.TaskIds(key, sorted(partitions)) for key, partitions in sorted(each.items())]

    return record(
        target.StreamsGroupTargetAssignmentMemberKey(group_id, member_id),
        target.StreamsGroupTargetAssignmentMemberValue(
            ids(tasks.active), ids(tasks.standby), ids(tasks.warmup)
        ),
    )


def target_epoch(group_id: str, epoch: int, timestamp_ms: int) -> Record:
    return record(
        StreamsGroupTargetAssignmentMetadataKey(group_id),
        StreamsGroupTargetAssignmentMetadataValue(epoch, timestamp_ms),
    )


def current_assignment(group_id: str, member: StreamsMember) -> Record:
    """A member's current assignment, epoch and state."""
    tasks, pending = member.tasks, member.pending_revocation
    return record(
        current.StreamsGroupCurrentMemberAssignmentKey(group_id, member.member_id),
        current.StreamsGroupCurrentMemberAssignmentValue(
            member.member_epoch,
            member.previous_member_epoch,
            int(member.state),
            _with_epochs(tasks.active),
            _plain(tasks.standby),
            _plain(tasks.warmup),
            _with_epochs(pending.active),
            _plain(pending.standby),
            _plain(pending.warmup),
        ),
    )


def _with_epochs(tasks: EpochTasks) -> list[current.TaskIds]:
    return [
        current.TaskIds(key, sorted(epochs), [epochs[partition] for partition in sorted(epochs)])
        for key, epochs in sorted(tasks.items())
    ]


def _plain(tasks: Tasks) -> list[current.TaskIds]:
    return [current.TaskIds(key, sorted(partitions), None) for key, partitions in sorted(tasks.items())]


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    """Removes a member."""
    return tombstones(
        [
            current.StreamsGroupCurrentMemberAssignmentKey(group_id, member_id),
            target.StreamsGroupTargetAssignmentMemberKey(group_id, member_id),
            StreamsGroupMemberMetadataKey(group_id, member_id),
        ]
    )


def group_tombstones(group_id: str, member_ids: Iterable[str]) -> list[Record]:
    """Removes a group."""
    members = list(member_ids)
    keys: list[Struct] = [current.StreamsGroupCurrentMemberAssignmentKey(group_id, each) for each in members]
    keys += [target.StreamsGroupTargetAssignmentMemberKey(group_id, each) for each in members]
    keys.append(StreamsGroupTargetAssignmentMetadataKey(group_id))
    keys += [StreamsGroupMemberMetadataKey(group_id, each) for each in members]
    keys += [StreamsGroupMetadataKey(group_id), StreamsGroupTopologyKey(group_id)]
    return tombstones(keys)
