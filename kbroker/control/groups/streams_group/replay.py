"""Rebuilding streams groups from their records, and following our own appends: the only way they
change."""

from collections.abc import Iterable
from functools import partial

from msgspec.structs import replace

from kbroker.control.groups.group_replay import GroupReplay
from kbroker.control.groups.modern_group.member import LEAVE_EPOCH
from kbroker.control.groups.modern_group.partitions import with_epochs
from kbroker.control.groups.modern_group.replay import ModernReplay
from kbroker.control.groups.streams_group.member import Endpoint, MemberState, StreamsMember
from kbroker.control.groups.streams_group.state import StreamsGroup
from kbroker.control.groups.streams_group.tasks import NONE_OWNED, EpochTasks, OwnedTasks, TaskSet, tasks_of
from kbroker.control.groups.streams_group.topology import from_record
from kbroker.control.groups.table import GroupTable
from kbroker.protocol.coordinator_records import streams_group_current_member_assignment as current
from kbroker.protocol.coordinator_records import streams_group_target_assignment_member as target
from kbroker.protocol.coordinator_records.streams_group_member_metadata import (
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
)
from kbroker.protocol.coordinator_records.streams_group_metadata import (
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
)
from kbroker.protocol.coordinator_records.streams_group_target_assignment_metadata import (
    StreamsGroupTargetAssignmentMetadataKey,
)
from kbroker.protocol.coordinator_records.streams_group_topology import (
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)


class StreamsReplay:
    """Runs in: control. Owner: the GroupShard."""

    def __init__(self, table: GroupTable, replay: GroupReplay) -> None:
        self._groups = ModernReplay(table, StreamsGroup, StreamsMember)
        assignment = partial(self._groups.assignment, _with_assignment, _left)
        replay.handle(StreamsGroupMetadataKey, self._group)
        replay.handle(StreamsGroupTopologyKey, self._topology)
        replay.handle(StreamsGroupMemberMetadataKey, partial(self._groups.member, _with_metadata))
        replay.handle(StreamsGroupTargetAssignmentMetadataKey, self._groups.target_epoch)
        replay.handle(target.StreamsGroupTargetAssignmentMemberKey, self._target)
        replay.handle(current.StreamsGroupCurrentMemberAssignmentKey, assignment)

    def _group(self, key: StreamsGroupMetadataKey, value: StreamsGroupMetadataValue | None) -> None:
        self._groups.group_epoch(key, value)
        group = self._groups.find(key, value)
        if group is not None and value is not None:
            group.validated_topology_epoch = value.validated_topology_epoch
            group.assignment_configs = {each.key: each.value for each in value.last_assignment_configs or ()}

    def _topology(self, key: StreamsGroupTopologyKey, value: StreamsGroupTopologyValue | None) -> None:
        topology = None if value is None else from_record(value)
        group = self._groups.find(key, value)
        if group is not None:
            group.topology = topology

    def _target(
        self,
        key: target.StreamsGroupTargetAssignmentMemberKey,
        value: target.StreamsGroupTargetAssignmentMemberValue | None,
    ) -> None:
        self._groups.target(key, None if value is None else TaskSet.of(value))


def _with_metadata(member: StreamsMember, value: StreamsGroupMemberMetadataValue) -> StreamsMember:
    endpoint = value.user_endpoint
    return replace(
        member,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        topology_epoch=value.topology_epoch,
        process_id=value.process_id,
        user_endpoint=None if endpoint is None else Endpoint(endpoint.host, endpoint.port),
        client_tags=tuple((each.key, each.value) for each in value.client_tags),
    )


def _with_assignment(
    member: StreamsMember, value: current.StreamsGroupCurrentMemberAssignmentValue
) -> StreamsMember:
    return replace(
        member,
        member_epoch=value.member_epoch,
        previous_member_epoch=value.previous_member_epoch,
        state=MemberState(value.state),
        tasks=OwnedTasks(
            _with_epochs(value.active_tasks, value.member_epoch),
            tasks_of(value.standby_tasks),
            tasks_of(value.warmup_tasks),
        ),
        pending_revocation=OwnedTasks(
            _with_epochs(value.active_tasks_pending_revocation, value.member_epoch),
            tasks_of(value.standby_tasks_pending_revocation),
            tasks_of(value.warmup_tasks_pending_revocation),
        ),
    )


def _left(member: StreamsMember) -> StreamsMember:
    return replace(
        member,
        member_epoch=LEAVE_EPOCH,
        previous_member_epoch=LEAVE_EPOCH,
        tasks=NONE_OWNED,
        pending_revocation=NONE_OWNED,
    )


def _with_epochs(ids: Iterable[current.TaskIds], member_epoch: int) -> EpochTasks:
    return {
        each.subtopology_id: with_epochs(each.partitions, each.assignment_epochs, member_epoch)
        for each in ids
        if each.partitions
    }
