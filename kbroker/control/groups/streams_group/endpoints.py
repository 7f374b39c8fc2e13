"""Endpoints by partition (which member answers queries), sent to members with an older endpoint
epoch."""

from collections.abc import Iterable

from kbroker.control.groups.streams_group.member import StreamsMember
from kbroker.control.groups.streams_group.state import StreamsGroup
from kbroker.control.groups.streams_group.tasks import Tasks
from kbroker.control.groups.topic_view import TopicView
from kbroker.protocol.messages.streams_group_heartbeat import (
    EndpointToPartitions,
    ResponseEndpoint,
    TopicPartition,
)
from kbroker.protocol.slices import paced


def endpoints(
    group: StreamsGroup, members: Iterable[StreamsMember], view: TopicView
) -> list[EndpointToPartitions]:
    """One entry for each member with an endpoint; partitions of the input topics of its tasks."""
    return [
        EndpointToPartitions(
            ResponseEndpoint(*member.user_endpoint),
            _partitions(group, member.tasks.plain.active, view),
            _partitions(group, member.tasks.standby, view),
        )
        for member in paced(members)
        if member.user_endpoint is not None
    ]


def _partitions(group: StreamsGroup, tasks: Tasks, view: TopicView) -> list[TopicPartition]:
    if group.topology is None:
        return []
    found = []
    for key, partitions in paced(sorted(tasks.items())):
        part = group.topology.subtopologies.get(key)
        for topic in sorted(part.inputs) if part is not None else ():
            count = view.partition_count(topic) or 0
            if within := sorted(each for each in partitions if each < count):
                found.append(TopicPartition(topic, within))
    return found
