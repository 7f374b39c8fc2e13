"""Which StreamsGroupHeartbeats are refused before their group is read."""

from typing import Any

import pytest

from kbroker.control.groups.streams_group.heartbeat_check import check_heartbeat
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.streams_group_heartbeat import (
    RequestTaskIds,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TopicInfo,
    Topology,
)


def joining(**topics: Any) -> StreamsGroupHeartbeatRequest:
    """A valid first heartbeat with these topics."""
    parts = [Subtopology("0", **topics)]
    return StreamsGroupHeartbeatRequest(
        "group",
        "member",
        rebalance_timeout_ms=1000,
        topology=Topology(1, parts),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
    )


@pytest.mark.parametrize("name", ["__consumer_offsets", "bad name", "", ".", "a" * 250])
@pytest.mark.parametrize(
    "place",
    ["source_topics", "repartition_sink_topics", "repartition_source_topics", "state_changelog_topics"],
)
def test_a_topology_names_topics_that_can_exist(place: str, name: str) -> None:
    def topics(each: str) -> list[Any]:
        return (
            [TopicInfo(each)] if place in ("repartition_source_topics", "state_changelog_topics") else [each]
        )

    check_heartbeat(joining(**{place: topics("words")}))
    with pytest.raises(KafkaError) as refused:
        check_heartbeat(joining(**{place: topics(name)}))
    assert refused.value.code is ErrorCode.STREAMS_INVALID_TOPOLOGY
    assert name in refused.value.message


def test_the_names_of_topics_are_checked_first() -> None:
    request = joining(source_topics=["bad name"], source_topic_regex=["words.*"])
    request.member_id = ""
    with pytest.raises(KafkaError) as refused:
        check_heartbeat(request)
    assert refused.value.code is ErrorCode.STREAMS_INVALID_TOPOLOGY


def changed(**fields: Any) -> StreamsGroupHeartbeatRequest:
    """A valid first heartbeat with other fields."""
    return replaced(joining(source_topics=["words"]), **fields)


def later(**fields: Any) -> StreamsGroupHeartbeatRequest:
    """A valid heartbeat of a member with other fields."""
    return replaced(StreamsGroupHeartbeatRequest("group", "member", member_epoch=3), **fields)


def replaced(request: StreamsGroupHeartbeatRequest, **fields: Any) -> StreamsGroupHeartbeatRequest:
    for name, value in fields.items():
        setattr(request, name, value)
    return request


def topology(**parts: Any) -> Topology:
    return Topology(1, [Subtopology("0", **parts)])


@pytest.mark.parametrize(
    ("heartbeat", "text"),
    [
        (changed(member_id=""), "MemberId can't be empty."),
        (changed(member_id=" "), "MemberId can't be empty."),
        (changed(group_id=" "), "GroupId can't be empty."),
        (changed(rack_id=" "), "RackId can't be empty."),
        (changed(instance_id="i"), "Static membership is not yet supported."),
        (changed(task_offsets=[]), "TaskOffsets are not supported yet."),
        (changed(task_end_offsets=[]), "TaskEndOffsets are not supported yet."),
        (changed(warmup_tasks=[RequestTaskIds("0", [0])]), "WarmupTasks are not supported yet."),
        (changed(rebalance_timeout_ms=-1), "RebalanceTimeoutMs must be provided in first request."),
        (changed(active_tasks=None), "ActiveTasks must be empty when (re-)joining."),
        (changed(active_tasks=[RequestTaskIds("0", [0])]), "ActiveTasks must be empty when (re-)joining."),
        (changed(standby_tasks=[RequestTaskIds("0", [0])]), "StandbyTasks must be empty when (re-)joining."),
        (changed(warmup_tasks=None), "WarmupTasks must be empty when (re-)joining."),
        (changed(topology=None), "Topology must be non-null when (re-)joining."),
        (
            changed(topology=topology(source_topic_regex=["w.*"])),
            "Regular expressions for source topics are not supported yet.",
        ),
        (later(member_epoch=-2), "InstanceId can't be null."),
        (later(member_epoch=-3), "MemberEpoch is -3, but must be greater than or equal to -2."),
        (later(active_tasks=[]), "If one task-type is non-null, all must be non-null."),
        (later(active_tasks=[], standby_tasks=[]), "If one task-type is non-null, all must be non-null."),
        (later(topology=topology()), "Topology can only be provided when (re-)joining."),
    ],
)
def test_an_invalid_heartbeat_is_refused_with_kafkas_text(
    heartbeat: StreamsGroupHeartbeatRequest, text: str
) -> None:
    with pytest.raises(KafkaError) as refused:
        check_heartbeat(heartbeat)
    assert (refused.value.code, refused.value.message) == (ErrorCode.INVALID_REQUEST, text)


@pytest.mark.parametrize(
    "heartbeat",
    [
        changed(),
        changed(rack_id="r"),
        changed(rebalance_timeout_ms=0),
        changed(topology=topology(state_changelog_topics=[TopicInfo("c")])),
        later(),
        later(member_epoch=-1),
        later(active_tasks=[], standby_tasks=[], warmup_tasks=[]),
        later(
            active_tasks=[RequestTaskIds("0", [0])], standby_tasks=[RequestTaskIds("1", [0])], warmup_tasks=[]
        ),
    ],
)
def test_a_valid_heartbeat_is_taken(heartbeat: StreamsGroupHeartbeatRequest) -> None:
    check_heartbeat(heartbeat)


def test_the_number_of_partitions_of_a_changelog_is_the_brokers() -> None:
    with pytest.raises(KafkaError) as refused:
        check_heartbeat(changed(topology=topology(state_changelog_topics=[TopicInfo("c", 3)])))
    assert refused.value.code is ErrorCode.STREAMS_INVALID_TOPOLOGY
    assert refused.value.message == (
        "Changelog topic c must have an undefined partition count, but it is set to 3."
    )
