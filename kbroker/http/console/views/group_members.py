"""Members of groups of all kinds in one format."""

from typing import Any

from msgspec import Struct, field

from kbroker.http.console.refusal import check
from kbroker.http.console.request import Request
from kbroker.http.console.schema import INT, TEXT, fields, many, maybe
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.consumer_protocol import assigned_topics
from kbroker.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kbroker.protocol.messages.describe_groups import DescribeGroupsRequest
from kbroker.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from kbroker.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest

MEMBER = fields(
    member_id=TEXT,
    instance_id=maybe(TEXT),
    client_id=TEXT,
    host=TEXT,
    assignment=many(fields(topic=TEXT, partitions=many(INT))),
)
CONSUMER_PROTOCOL = "consumer"


class Described(Struct):
    """A group's state, assignor and members. state and assignor are empty if the coordinator does
    not send them."""

    state: str = ""
    assignor: str = ""
    members: list[dict[str, Any]] = field(default_factory=list)


def describe(request: Request, kind: str, group_id: str) -> Described:
    """Raises Refusal."""
    if kind == "classic":
        return _classic(request, group_id)
    api, api_request = {
        "consumer": (ApiKey.CONSUMER_GROUP_DESCRIBE, ConsumerGroupDescribeRequest([group_id])),
        "share": (ApiKey.SHARE_GROUP_DESCRIBE, ShareGroupDescribeRequest([group_id])),
        "streams": (ApiKey.STREAMS_GROUP_DESCRIBE, StreamsGroupDescribeRequest([group_id])),
    }[kind]
    found = request.caller.ask(api, api_request).groups[0]
    check(found.error_code, f"group {group_id}", found.error_message)
    if kind == "streams":
        return Described(found.group_state, "", [_streams_member(found, each) for each in found.members])
    members = [
        _member(
            each,
            getattr(each, "instance_id", None),
            [(row.topic_name, row.partitions) for row in each.assignment.topic_partitions],
        )
        for each in found.members
    ]
    return Described(found.group_state, found.assignor_name, members)


def _classic(request: Request, group_id: str) -> Described:
    found = request.caller.ask(ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest([group_id])).groups[0]
    check(found.error_code, f"group {group_id}", found.error_message)
    is_consumer = found.protocol_type in (CONSUMER_PROTOCOL, "")
    members = [
        _member(
            each,
            each.group_instance_id,
            assignment_of(each.member_assignment) if is_consumer else [],
        )
        for each in found.members
    ]
    return Described(found.group_state, found.protocol_data, members)


def _member(member: Any, instance_id: str | None, assignment: list[tuple[str, list[int]]]) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "instance_id": instance_id,
        "client_id": member.client_id,
        "host": member.client_host.removeprefix("/"),
        "assignment": [
            {"topic": topic, "partitions": sorted(partitions)} for topic, partitions in sorted(assignment)
        ],
    }


def _streams_member(group: Any, member: Any) -> dict[str, Any]:
    """A member of a streams group. Active tasks are shown as partitions of the subtopology's source
    topics."""
    sources = {
        each.subtopology_id: [
            *each.source_topics,
            *(topic.name for topic in each.repartition_source_topics),
        ]
        for each in (group.topology.subtopologies if group.topology else None) or []
    }
    assignment: dict[str, list[int]] = {}
    for task in member.assignment.active_tasks:
        for topic in sources.get(task.subtopology_id, ()):
            assignment.setdefault(topic, []).extend(task.partitions)
    return _member(member, member.instance_id, list(assignment.items()))


def assignment_of(data: bytes) -> list[tuple[str, list[int]]]:
    """Topics and partitions of a classic member's ConsumerProtocolAssignment, up to its first
    error, because clients write it."""
    return [(each.topic, each.partitions) for each in assigned_topics(data)[0]]
