"""Conversations about streams groups (KIP-1071): what Apache Kafka answers to them, kbroker must
answer too.

They expect streams groups to wait half a second for their first members (SETTINGS).
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.delete_groups import DeleteGroupsRequest
from kbroker.protocol.messages.describe_groups import DescribeGroupsRequest
from kbroker.protocol.messages.list_groups import ListGroupsRequest
from kbroker.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from kbroker.protocol.messages.streams_group_heartbeat import (
    CopartitionGroup,
    KeyValue,
    RequestEndpoint,
    RequestTaskIds,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskOffset,
    TopicInfo,
    Topology,
)
from tests.compat.group_requests import commit_request, join_request
from tests.compat.group_talk import Talk

SETTINGS: Mapping[str, str] = {"group.streams.initial.rebalance.delay.ms": "500"}
CREATED_S = 3.0
"""Apache Kafka creates internal topics beside its answer, and its coordinator learns of them a
moment later."""
INTERVAL_S = 2.0
"""group.streams.assignment.interval.ms, and as much for a busy machine."""

Tasks = dict[str, list[int]]


def word_count(prefix: str) -> Topology:
    """Lines to words, repartitioned, counted with a state store."""
    repartition = TopicInfo(f"{prefix}-words", topic_configs=[KeyValue("retention.ms", "-1")])
    changelog = TopicInfo(f"{prefix}-counts", topic_configs=[KeyValue("cleanup.policy", "compact")])
    return Topology(
        0,
        [
            Subtopology("0", [f"{prefix}-lines"], repartition_sink_topics=[f"{prefix}-words"]),
            Subtopology(
                "1",
                repartition_source_topics=[repartition],
                state_changelog_topics=[changelog],
                copartition_groups=[CopartitionGroup(repartition_source_topics=[0])],
            ),
        ],
    )


class Member:
    """One member of the conversation: remembers its epoch and its tasks."""

    def __init__(self, talk: Talk, group: str, name: str, process: str) -> None:
        self.talk, self.group, self.name, self.process = talk, group, name, process
        self.epoch = 0
        self.endpoint_epoch = 0
        self.active: Tasks = {}

    def beat(self, label: str, **more: Any) -> Any:
        """One heartbeat, with the topology when it joins."""
        first = self.epoch == 0
        request = StreamsGroupHeartbeatRequest(
            self.group,
            self.name,
            self.epoch,
            self.endpoint_epoch,
            rebalance_timeout_ms=30_000 if first else -1,
            topology=word_count(self.talk.prefix) if first else None,
            process_id=self.process if first else None,
            active_tasks=[RequestTaskIds(key, each) for key, each in self.active.items()],
            standby_tasks=[],
            warmup_tasks=[],
        )
        for key, value in more.items():
            setattr(request, key, value)
        answer: Any = self.talk.ask(label, ApiKey.STREAMS_GROUP_HEARTBEAT, 0, request)
        if not answer.error_code:
            self.epoch = answer.member_epoch
            self.endpoint_epoch = answer.endpoint_information_epoch
            if answer.active_tasks is not None:
                self.active = {each.subtopology_id: each.partitions for each in answer.active_tasks}
        return answer

    def leave(self, label: str) -> None:
        self.beat(label, member_epoch=-1, active_tasks=None, standby_tasks=None, warmup_tasks=None)


def describe(talk: Talk, label: str, *groups: str) -> None:
    request = StreamsGroupDescribeRequest(list(groups), True)
    talk.ask(label, ApiKey.STREAMS_GROUP_DESCRIBE, 0, request)


def life(talk: Talk) -> None:
    """A group from its first member on: internal topics, tasks that move, offsets, the end."""
    group = talk.group()
    one, two = Member(talk, group, "A" * 22, "p1"), Member(talk, group, "B" * 22, "p2")
    describe(talk, "no group", group, "")
    one.beat("no source topic")
    describe(talk, "not ready", group)
    talk.create_topic("lines", 4)
    one.beat("internal topics are missing")
    time.sleep(CREATED_S)
    one.beat("internal topics are there")
    time.sleep(INTERVAL_S)
    one.beat("all tasks")
    describe(talk, "stable", group)
    two.beat("joins")
    time.sleep(INTERVAL_S)
    two.beat("waits")
    one.beat("is to give up")
    describe(talk, "reconciling", group)
    one.beat("gave up")
    two.beat("takes over")
    two.beat("nothing new")
    describe(talk, "stable again", group)
    talk.ask("classic describe", ApiKey.DESCRIBE_GROUPS, 6, DescribeGroupsRequest([group]))
    talk.ask("classic join", ApiKey.JOIN_GROUP, 9, join_request(group))
    topic = f"{talk.prefix}-lines"
    commit(talk, "commits", group, topic, one.name, one.epoch)
    commit(talk, "commits with an old epoch", group, topic, one.name, one.epoch - 1)
    commit(talk, "commits with a future epoch", group, topic, one.name, one.epoch + 1)
    commit(talk, "a stranger commits", group, topic, "who", one.epoch)
    talk.ask("delete, not empty", ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest([group]))
    one.beat("asks for a shutdown", shutdown_application=True)
    two.beat("is told")
    one.leave("leaves")
    two.leave("leaves, too")
    talk.ask("list", ApiKey.LIST_GROUPS, 5, ListGroupsRequest(types_filter=["streams"]))
    talk.ask("delete", ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest([group]))
    describe(talk, "gone", group)


def commit(talk: Talk, label: str, group: str, topic: str, member: str, epoch: int) -> None:
    request = commit_request(group, topic, 7, member, epoch)
    talk.ask(label, ApiKey.OFFSET_COMMIT, 9, request)


def refused(talk: Talk) -> None:
    """What a heartbeat must not say."""
    talk.create_topic("lines", 2)
    group = talk.group()
    one = Member(talk, group, "A" * 22, "p1")
    one.beat("no group", group_id="")
    one.beat("no member", member_id="")
    one.beat("no timeout", rebalance_timeout_ms=-1)
    one.beat("no topology", topology=None)
    one.beat("no active tasks", active_tasks=None)
    one.beat("has tasks", standby_tasks=[RequestTaskIds("0", [0])])
    one.beat("static", instance_id="i")
    one.beat("offsets", task_offsets=[TaskOffset("0", 0, 1)])
    one.beat("warm-up", warmup_tasks=[RequestTaskIds("0", [0])])
    pattern = word_count(talk.prefix)
    pattern.subtopologies[0].source_topic_regex = ["a.*"]
    one.beat("pattern", topology=pattern)
    counted = word_count(talk.prefix)
    counted.subtopologies[1].state_changelog_topics[0].partitions = 3
    one.beat("changelog with partitions", topology=counted)
    unwritten = word_count(talk.prefix)
    unwritten.subtopologies[0].repartition_sink_topics = []
    one.beat("repartition topic without writer", topology=unwritten)
    one.beat("leaves a group that is not there", member_epoch=-1)
    one.beat("goes on in a group that is not there", member_epoch=5, topology=None)
    one.beat("joins")
    other = word_count(talk.prefix)
    other.subtopologies[0].source_topics.append(f"{talk.prefix}-more")
    Member(talk, group, "B" * 22, "p2").beat("another topology", topology=other)
    later = word_count(talk.prefix)
    later.epoch = 1
    Member(talk, group, "C" * 22, "p2").beat("a later topology", topology=later)
    time.sleep(CREATED_S)
    one.beat("ready")
    one.beat("unknown subtopology", active_tasks=[RequestTaskIds("9", [0])])
    one.beat("unknown task", active_tasks=[RequestTaskIds("0", [9])])
    one.beat("topology again", topology=word_count(talk.prefix))
    one.beat("one role alone", standby_tasks=None)
    one.beat("too high an epoch", member_epoch=99)
    one.beat("wrong epoch", member_epoch=-7)
    one.beat("static leave", member_epoch=-2)
    one.beat("unknown member", member_id="who")
    one.leave("leaves")


def endpoints(talk: Talk) -> None:
    """Members with an endpoint learn of each other's partitions."""
    talk.create_topic("lines", 2)
    group = talk.group()
    one, two = Member(talk, group, "A" * 22, "p1"), Member(talk, group, "B" * 22, "p2")
    tags = [KeyValue("zone", "a")]
    one.beat("missing", user_endpoint=RequestEndpoint("one", 1001), client_tags=tags, rack_id="r")
    time.sleep(CREATED_S)
    two.beat("joins", user_endpoint=RequestEndpoint("two", 1002))
    one.beat("ready")
    time.sleep(INTERVAL_S)
    one.beat("tasks")
    two.beat("tasks, too")
    one.beat("endpoints")
    one.beat("no news")
    describe(talk, "described", group)
    one.leave("leaves")
    two.leave("leaves, too")


def back_to_classic(talk: Talk) -> None:
    """A classic consumer joins a group that the last streams member has left."""
    talk.create_topic("lines", 2)
    group = talk.group()
    one = Member(talk, group, "A" * 22, "p1")
    one.beat("joins")
    time.sleep(CREATED_S)
    commit(talk, "commits", group, f"{talk.prefix}-lines", one.name, one.epoch)
    one.leave("leaves")
    talk.ask("classic join of an unknown member", ApiKey.JOIN_GROUP, 9, join_request(group, "who"))
    talk.ask("classic join", ApiKey.JOIN_GROUP, 9, join_request(group))
    talk.ask("classic describe", ApiKey.DESCRIBE_GROUPS, 6, DescribeGroupsRequest([group]))
    describe(talk, "gone", group)
    other = Member(talk, group, "B" * 22, "p1")
    other.beat("joins again")
    describe(talk, "there again", group)
    other.leave("leaves again")


SCRIPTS: dict[str, Callable[[Talk], None]] = {
    "streams-back-to-classic": back_to_classic,
    "streams-life": life,
    "streams-refused": refused,
    "streams-endpoints": endpoints,
}
