"""StreamsGroupDescribe."""

from kbroker.control.groups.streams_group.member import StreamsMember
from kbroker.control.groups.streams_group.state import StreamsGroup
from kbroker.control.groups.streams_group.tasks import Tasks, TaskSet
from kbroker.control.groups.streams_group.topology import to_description
from kbroker.control.groups.table import GroupTable
from kbroker.protocol.errors import KafkaError
from kbroker.protocol.messages.streams_group_describe import (
    Assignment,
    DescribedGroup,
    Endpoint,
    KeyValue,
    Member,
    TaskIds,
)
from kbroker.protocol.slices import paced


def describe_streams_group(table: GroupTable, group_id: str) -> DescribedGroup:
    """A streams group with its members; GROUP_ID_NOT_FOUND in the answer for anything else."""
    try:
        group = table.of_type(group_id, StreamsGroup)
    except KafkaError as error:
        return DescribedGroup(error.code, error.message, group_id)
    topology = None
    if group.topology is not None:
        counts = group.configured.partitions if group.configured is not None else {}
        topology = to_description(group.topology, counts)
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        topology=topology,
        members=[_member(group, member) for member in paced(group.members_in_order())],
    )


def _member(group: StreamsGroup, member: StreamsMember) -> Member:
    return Member(
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if member.user_endpoint is None else Endpoint(*member.user_endpoint),
        client_tags=[KeyValue(key, value) for key, value in member.client_tags],
        assignment=_assignment(member.tasks.plain),
        target_assignment=_assignment(group.target.get(member.member_id, TaskSet())),
    )


def _assignment(tasks: TaskSet) -> Assignment:
    return Assignment(_ids(tasks.active), _ids(tasks.standby), _ids(tasks.warmup))


def _ids(tasks: Tasks) -> list[TaskIds]:
    return [TaskIds(key, sorted(partitions)) for key, partitions in sorted(tasks.items())]
