"""Which StreamsGroupHeartbeats are refused before their group is read."""

from typing import Any

import pytest

from kbroker.control.groups.streams_group.heartbeat_check import check_heartbeat
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.streams_group_heartbeat import (
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
