"""Validation of a StreamsGroupHeartbeat, with Kafka's error texts."""

from collections.abc import Iterator

from kbroker.control.groups.modern_group.member import STATIC_LEAVE_EPOCH
from kbroker.control.metadata.topic_name import INTERNAL, is_valid
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, Topology
from kbroker.protocol.slices import paced

JOINING = 0


def check_heartbeat(request: StreamsGroupHeartbeatRequest) -> None:
    """Raises INVALID_REQUEST, STREAMS_INVALID_TOPOLOGY."""
    if request.topology is not None:
        _check_names(request.topology)
    _refuse_unsupported(request)
    for value, name in (
        (request.member_id, "MemberId"),
        (request.group_id, "GroupId"),
        (request.instance_id, "InstanceId"),
        (request.rack_id, "RackId"),
    ):
        if value is not None and not value.strip():
            raise _invalid(f"{name} can't be empty.")
    if request.member_epoch == JOINING:
        _check_join(request)
    elif request.member_epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    elif request.member_epoch < STATIC_LEAVE_EPOCH:
        raise _invalid(
            f"MemberEpoch is {request.member_epoch}, but must be greater than or equal to {STATIC_LEAVE_EPOCH}."
        )
    roles = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if any(each is None for each in roles) and any(each is not None for each in roles):
        raise _invalid("If one task-type is non-null, all must be non-null.")
    if request.member_epoch != JOINING and request.topology is not None:
        raise _invalid("Topology can only be provided when (re-)joining.")


def _check_names(topology: Topology) -> None:
    """Raises STREAMS_INVALID_TOPOLOGY for internal topics and invalid names."""
    names = dict.fromkeys(paced(_topic_names(topology)))
    if prohibited := [name for name in names if name in INTERNAL]:
        text = (
            f"Use of Kafka internal topics {','.join(prohibited)} in a Kafka Streams topology is prohibited."
        )
        raise KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)
    if invalid := [name for name in paced(names) if not is_valid(name)]:
        text = f"Topic names {','.join(invalid)} are not valid topic names."
        raise KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)


def _topic_names(topology: Topology) -> Iterator[str]:
    for part in topology.subtopologies:
        yield from part.source_topics
        yield from part.repartition_sink_topics
        yield from (topic.name for topic in part.repartition_source_topics)
        yield from (topic.name for topic in part.state_changelog_topics)


def _check_join(request: StreamsGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    for tasks, name in (
        (request.active_tasks, "ActiveTasks"),
        (request.standby_tasks, "StandbyTasks"),
        (request.warmup_tasks, "WarmupTasks"),
    ):
        if tasks is None or tasks:
            raise _invalid(f"{name} must be empty when (re-)joining.")
    if request.topology is None:
        raise _invalid("Topology must be non-null when (re-)joining.")
    for part in request.topology.subtopologies:
        for topic in part.state_changelog_topics:
            if topic.partitions:
                raise KafkaError(
                    ErrorCode.STREAMS_INVALID_TOPOLOGY,
                    f"Changelog topic {topic.name} must have an undefined partition count, but it is set to "
                    f"{topic.partitions}.",
                )


def _refuse_unsupported(request: StreamsGroupHeartbeatRequest) -> None:
    """Refuse features that are in the protocol but not in Kafka 4.3."""
    if request.instance_id is not None:
        raise _invalid("Static membership is not yet supported.")
    if request.task_offsets is not None:
        raise _invalid("TaskOffsets are not supported yet.")
    if request.task_end_offsets is not None:
        raise _invalid("TaskEndOffsets are not supported yet.")
    if request.warmup_tasks:
        raise _invalid("WarmupTasks are not supported yet.")
    if request.topology is not None:
        for part in request.topology.subtopologies:
            if part.source_topic_regex:
                raise _invalid("Regular expressions for source topics are not supported yet.")


def _invalid(text: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, text)
