"""DescribeGroups, ListGroups and DeleteGroups."""

from collections.abc import Iterable
from operator import attrgetter

from kbroker.config.java_hash import concurrent_map_order, map_order, string_hash, timeline_order
from kbroker.control.coordinator.key_hash import positive
from kbroker.control.coordinator.machine import Outcome
from kbroker.control.groups.classic_group import ClassicGroup
from kbroker.control.groups.classic_member import ClassicMember
from kbroker.control.groups.classic_state import ClassicState
from kbroker.control.groups.group import Group
from kbroker.control.groups.offset_expiration import delete_offsets_of_group
from kbroker.control.groups.table import GroupTable
from kbroker.control.metadata.topic_name import CONSUMER_OFFSETS
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.delete_groups import DeletableGroupResult
from kbroker.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from kbroker.protocol.messages.list_groups import ListedGroup
from kbroker.protocol.slices import Names, in_order, paced

_id_hash = attrgetter("id_hash")
NOT_FOUND_IS_AN_ERROR_FROM = 6
"""DescribeGroups version in which an unknown group is an error instead of a dead group
(KIP-1043)."""


def describe_group(table: GroupTable, group_id: str, api_version: int) -> DescribedGroup:
    """A classic group as DescribeGroups shows it. Unknown or of another type: a dead group."""
    group = table.groups.get(group_id)
    if not isinstance(group, ClassicGroup):
        answer = DescribedGroup(group_id=group_id, group_state=ClassicState.DEAD)
        if api_version >= NOT_FOUND_IS_AN_ERROR_FROM:
            answer.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            answer.error_message = (
                f"Group {group_id} not found."
                if group is None
                else f"Group {group_id} is not a classic group."
            )
        return answer
    stable = group.is_in(ClassicState.STABLE)
    protocol = group.protocol_name if stable else None
    members = dict(group.members)
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol or "",
        members=[
            _member(members[each], protocol) for each in paced(map_order(members, string_hash, sort=in_order))
        ],
    )


def _member(member: ClassicMember, protocol: str | None) -> DescribedGroupMember:
    """A member in the answer. protocol: of a stable group; None hides the metadata."""
    answer = DescribedGroupMember(member.member_id, member.instance_id, member.client_id, member.client_host)
    answer.member_assignment = member.assignment
    if protocol is not None:
        answer.member_metadata = member.metadata(protocol)
    return answer


def list_groups(
    table: GroupTable, partitions: int, states: Iterable[str], types: Iterable[str]
) -> list[ListedGroup]:
    """Groups in one of the states and of one of the types; no filter means all. Case does not
    matter.

    In Kafka's order, on which test suites rely: by partition of the groups' topic, each with its
    own map. partitions: their number.
    """
    state_filter = Names(state.strip().lower() for state in states)
    type_filter = Names(name.strip().lower() for name in types)
    by_partition: dict[int, list[Group]] = {}
    for group in paced(list(table.groups.values())):
        by_partition.setdefault(positive(group.id_hash) % partitions, []).append(group)
    ordered = (
        table.groups.get(group.group_id)  # as it is by now
        for partition in concurrent_map_order(range(partitions), _partition_hash)
        for group in timeline_order(by_partition.get(partition, ()), _id_hash, in_order)
    )
    found = [
        listed(group)
        for group in paced(ordered)
        if group is not None
        and (not state_filter or group.state_name.lower() in state_filter)
        and (not type_filter or group.TYPE in type_filter)
    ]
    state_filter.clear()
    type_filter.clear()
    return found


def _partition_hash(partition: int) -> int:
    """TopicPartition.hashCode."""
    return 31 * (31 + partition) + string_hash(CONSUMER_OFFSETS) & 0xFFFFFFFF


def listed(group: Group) -> ListedGroup:
    return ListedGroup(group.group_id, group.listed_protocol_type, group.state_name, group.TYPE)


def delete_group(table: GroupTable, group_id: str) -> Outcome:
    """Outcome whose response is the group's DeletableGroupResult."""
    try:
        group = table.group(group_id)
        group.validate_delete()
    except KafkaError as error:
        return Outcome(response=DeletableGroupResult(group_id, error.code))
    records = delete_offsets_of_group(table, group_id) + group.tombstones()
    return Outcome(records, DeletableGroupResult(group_id))
