"""State and members of classic, consumer and streams groups, from their coordinators.

librdkafka has the same requests, but it aborts the process if an assignment is not a
ConsumerProtocolAssignment. A group's leader sends these bytes, and no broker checks them.
"""

from typing import Any

from msgspec import Struct

from kbroker.cli.failures import CommandFailed, broker_error
from kbroker.cli.own_requests import GroupCoordinators
from kbroker.cli.partitions import Partition
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.consumer_protocol import assigned_topics
from kbroker.protocol.errors import ErrorCode

CONSUMER_PROTOCOL = "consumer"
DEAD = "Dead"
_NOT_OF_THIS_TYPE = (ErrorCode.GROUP_ID_NOT_FOUND.value, ErrorCode.UNSUPPORTED_VERSION.value)


class Member(Struct, frozen=True):
    """A member of a group. malformed: why its assignment cannot be parsed to its end; `partitions`
    are those before the error."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: list[Partition]
    malformed: str | None = None


class Described(Struct, frozen=True):
    """A group as its coordinator describes it. coordinator: the coordinator's broker id."""

    state: str
    type: str
    assignor: str
    coordinator: int
    members: list[Member]


def describe_group(coordinators: GroupCoordinators, group_id: str) -> Described:
    """Describe a group as a consumer group, or else as a classic or a streams one. An unknown group
    is Dead. Raises CommandFailed."""
    from kbroker.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
    from kbroker.protocol.messages.describe_groups import DescribeGroupsRequest

    if coordinators.offers(ApiKey.CONSUMER_GROUP_DESCRIBE):
        request = ConsumerGroupDescribeRequest([group_id])
        node_id, answer = coordinators.ask(group_id, ApiKey.CONSUMER_GROUP_DESCRIBE, request)
        group = _only_group(answer, group_id)
        if group.error_code not in _NOT_OF_THIS_TYPE:
            _check(group, group_id)
            members = [_consumer_member(member) for member in group.members]
            return Described(group.group_state, "consumer", group.assignor_name, node_id, _sorted(members))
    node_id, answer = coordinators.ask(group_id, ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest([group_id]))
    group = _only_group(answer, group_id)
    if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND.value or (
        not group.error_code and group.group_state == DEAD  # of older brokers
    ):
        return _streams_group(coordinators, group_id) or Described(DEAD, "classic", "", node_id, [])
    _check(group, group_id)
    members = [_classic_member(member, group.protocol_type) for member in group.members]
    return Described(group.group_state, "classic", group.protocol_data, node_id, _sorted(members))


def _streams_group(coordinators: GroupCoordinators, group_id: str) -> Described | None:
    from kbroker.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest

    if not coordinators.offers(ApiKey.STREAMS_GROUP_DESCRIBE):
        return None
    request = StreamsGroupDescribeRequest([group_id])
    node_id, answer = coordinators.ask(group_id, ApiKey.STREAMS_GROUP_DESCRIBE, request)
    group = _only_group(answer, group_id)
    if group.error_code in _NOT_OF_THIS_TYPE:
        return None
    _check(group, group_id)
    members = [_streams_member(group, member) for member in group.members]
    return Described(group.group_state, "streams", "", node_id, _sorted(members))


def _only_group(answer: Any, group_id: str) -> Any:
    if len(answer.groups) != 1:
        raise CommandFailed(f"group {group_id}: the answer describes {len(answer.groups)} groups, not one")
    return answer.groups[0]


def _check(group: Any, group_id: str) -> None:
    if group.error_code:
        raise broker_error(group.error_code, group.error_message, f"group {group_id}")


def _classic_member(member: Any, protocol_type: str) -> Member:
    partitions: list[Partition] = []
    malformed = None
    if protocol_type == CONSUMER_PROTOCOL:  # assignments of Kafka Connect have no partitions
        topics, malformed = assigned_topics(bytes(member.member_assignment))
        partitions = sorted((each.topic, number) for each in topics for number in each.partitions)
    return Member(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host.removeprefix("/"),
        partitions,
        malformed,
    )


def _consumer_member(member: Any) -> Member:
    return Member(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host.removeprefix("/"),
        sorted((t.topic_name, number) for t in member.assignment.topic_partitions for number in t.partitions),
    )


def _streams_member(group: Any, member: Any) -> Member:
    """A member of a streams group. Each of its active tasks reads the partition with the task's
    number of the topics of its subtopology, if they have such a partition."""
    sources = {
        each.subtopology_id: [
            *each.source_topics,
            *(topic.name for topic in each.repartition_source_topics),
        ]
        for each in (group.topology.subtopologies if group.topology else None) or []
    }
    read = {
        (topic, number)
        for task in member.assignment.active_tasks
        for topic in sources.get(task.subtopology_id, ())
        for number in task.partitions
    }
    host = member.client_host.removeprefix("/")
    return Member(member.member_id, member.instance_id, member.client_id, host, sorted(read))


def _sorted(members: list[Member]) -> list[Member]:
    return sorted(members, key=lambda member: (member.client_id, member.member_id))
