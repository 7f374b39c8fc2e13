"""Conversations about consumer groups of KIP-848: what Apache Kafka answers to them, kbroker must
answer too."""

import struct
from typing import Any

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kbroker.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    RequestTopicPartitions,
)
from kbroker.protocol.messages.delete_groups import DeleteGroupsRequest
from kbroker.protocol.messages.describe_groups import DescribeGroupsRequest
from kbroker.protocol.messages.heartbeat import HeartbeatRequest
from kbroker.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kbroker.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kbroker.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.compat.group_requests import (
    commit_request,
    join_request,
    pause,
    sync_request,
)
from tests.compat.group_talk import Talk

ONE, TWO = "A" * 22, "B" * 22


class _Members:
    """A group of KIP-848 with one topic, and the requests of its members."""

    def __init__(self, talk: Talk) -> None:
        self.talk = talk
        self.topic_id = talk.create_topic("t", 4)
        self.topic = talk.prefix + "-t"
        self.group = talk.group()
        self.first = {"rebalance_timeout_ms": 30_000, "subscribed_topic_names": [self.topic], "owned": []}

    def beat(
        self,
        label: str,
        member: str,
        epoch: int,
        owned: list[int] | None = None,
        version: int = 1,
        **more: Any,
    ) -> Any:
        parts = None if owned is None else [RequestTopicPartitions(self.topic_id, owned)] if owned else []
        request = ConsumerGroupHeartbeatRequest(
            more.pop("group", self.group), member, epoch, topic_partitions=parts, **more
        )
        return self.talk.ask(label, ApiKey.CONSUMER_GROUP_HEARTBEAT, version, request)

    def describe(self, label: str, version: int, groups: list[str]) -> None:
        self.talk.ask(
            label, ApiKey.CONSUMER_GROUP_DESCRIBE, version, ConsumerGroupDescribeRequest(groups, True)
        )


def consumer_groups(talk: Talk) -> None:
    """KIP-848: two members, reconciliation, errors, descriptions, offsets, leaving."""
    members = _Members(talk)
    group, described = members.group, [members.group, talk.group("none")]
    _refused_heartbeats(members)
    _reconciliation(members, described)
    _heartbeats_of_a_settled_group(members)
    _offsets(members)
    talk.ask("delete", ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest([group]))
    _classic_requests(members)
    members.beat("leave", TWO, -1)
    members.beat("leave", ONE, -1)
    members.describe("empty", 1, described)
    talk.ask("delete", ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest([group]))
    members.describe("gone", 1, described)
    talk.ask("describe classic", ApiKey.CONSUMER_GROUP_DESCRIBE, 1, ConsumerGroupDescribeRequest([""]))


def _refused_heartbeats(members: _Members) -> None:
    beat, first, topic = members.beat, members.first, members.topic
    for version in (0, 1):
        other = {"group": members.talk.group("refused"), "version": version}
        beat("no group", ONE, 0, **first | other | {"group": ""})
        beat("no member", "", 3, **other)
        beat("no timeout", ONE, 0, [], subscribed_topic_names=[topic], **other)
        beat("no topics", ONE, 0, [], rebalance_timeout_ms=30_000, **other)
        beat("owns", ONE, 0, **first | other | {"owned": [1]})
        beat("assignor", ONE, 0, server_assignor="best", **first | other)
        beat("instance", ONE, 0, instance_id="", **first | other)
        beat("rack", ONE, 0, rack_id=" ", **first | other)
        beat("epoch", ONE, -5, **other)
        beat("leaves", ONE, -1, **other)
        beat("goes on", ONE, 7, **other)
        beat("static leaves", ONE, -2, **other)
        beat("static leaves", ONE, -2, instance_id="i", **other)
    more = {"subscribed_topic_regex": "(", "group": members.talk.group("r")}
    beat("bad regex", ONE, 0, [], rebalance_timeout_ms=30_000, **more)


def _reconciliation(members: _Members, described: list[str]) -> None:
    """The first member gets all partitions and gives half of them to the second."""
    beat = members.beat
    beat("joins", ONE, 0, **members.first)
    members.describe("one", 1, described)
    beat("nothing new", ONE, 2)
    pause()
    _wait_for_assignment()
    beat("second", TWO, 0, **members.first)
    members.describe("two", 1, described)
    beat("must revoke", ONE, 2, [0, 1, 2, 3])
    beat("still", ONE, 2, [0, 1, 2, 3])
    beat("second waits", TWO, 3, [])
    beat("revoked", ONE, 2, [0, 1])
    given = beat("second gets", TWO, 3, [])
    assert given.assignment is not None
    members.describe("settled", 1, described)
    members.describe("settled v0", 0, described)


def _heartbeats_of_a_settled_group(members: _Members) -> None:
    beat = members.beat
    beat("full", TWO, 3, [2, 3], rebalance_timeout_ms=30_000, subscribed_topic_names=[members.topic])
    beat("greater", ONE, 9)
    beat("smaller", ONE, 2)
    beat("smaller but owning", ONE, 2, [0, 1])
    beat("stranger", "C" * 22, 3)
    beat("unknown instance", ONE, 3, instance_id="i")


def _offsets(members: _Members) -> None:
    """Commits, fetches and a deletion, by members of the group and by others."""
    talk, group, topic = members.talk, members.group, members.topic
    for version in (8, 9):
        for label, member, epoch in (
            ("own", ONE, 3),
            ("older", ONE, 2),
            ("newer", ONE, 4),
            ("stranger", "nobody", 3),
            ("nobody", "", -1),
        ):
            request = commit_request(group, topic, 5, member, epoch, partitions=(0, 1))
            talk.ask(f"commit {label} v{version}", ApiKey.OFFSET_COMMIT, version, request)
    not_mine = commit_request(group, topic, 5, ONE, 2, partitions=(3,))
    talk.ask("commit older, not mine", ApiKey.OFFSET_COMMIT, 9, not_mine)
    readers: tuple[tuple[str, str | None, int], ...] = (
        ("own", ONE, 3),
        ("old", ONE, 1),
        ("stranger", "x", 2),
        ("nobody", None, -1),
    )
    for label, reader, epoch in readers:
        requested = [OffsetFetchRequestTopics(topic, bytes(16), [0, 1])]
        groups = [OffsetFetchRequestGroup(group, reader, epoch, requested)]
        talk.ask(f"fetch {label}", ApiKey.OFFSET_FETCH, 9, OffsetFetchRequest(groups=groups))
    parts = [OffsetDeleteRequestPartition(0)]
    delete = OffsetDeleteRequest(group, [OffsetDeleteRequestTopic(topic, parts)])
    talk.ask("delete offsets", ApiKey.OFFSET_DELETE, 0, delete)


def _classic_requests(members: _Members) -> None:
    """Requests of the classic protocol about the group."""
    talk, group = members.talk, members.group
    talk.ask("describe as classic", ApiKey.DESCRIBE_GROUPS, 6, DescribeGroupsRequest([group]))
    talk.ask("describe as classic", ApiKey.DESCRIBE_GROUPS, 5, DescribeGroupsRequest([group]))
    talk.ask("classic heartbeat", ApiKey.HEARTBEAT, 4, HeartbeatRequest(group, 3, ONE))
    talk.ask("classic sync", ApiKey.SYNC_GROUP, 5, sync_request(group, 3, ONE, {}))
    talk.ask("classic leave", ApiKey.LEAVE_GROUP, 5, LeaveGroupRequest(group, "", [MemberIdentity(ONE)]))
    talk.ask("connect joins", ApiKey.JOIN_GROUP, 9, join_request(group, protocol_type="connect"))


def _wait_for_assignment() -> None:
    """consumer.assignment.interval.ms: the next target is not computed sooner."""
    import time

    time.sleep(2)


def expressions(talk: Talk) -> None:
    """KIP-848 with regular expressions: resolved after the heartbeat, refreshed for new topics."""
    talk.create_topic("one.a", 1)
    group = talk.group()
    first = {"rebalance_timeout_ms": 30_000, "topic_partitions": []}
    describe = ConsumerGroupDescribeRequest([group])

    def beat(label: str, member: str, epoch: int, **more: Any) -> Any:
        request = ConsumerGroupHeartbeatRequest(group, member, epoch, **more)
        return talk.ask(label, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request)

    pattern = f"{talk.prefix}-one.*"
    answer = beat("joins", "A" * 22, 0, subscribed_topic_regex=pattern, **first)
    _wait_for_assignment()
    talk.ask("resolved", ApiKey.CONSUMER_GROUP_DESCRIBE, 1, describe)
    answer = beat("gets", "A" * 22, answer.member_epoch)
    talk.ask("assigned", ApiKey.CONSUMER_GROUP_DESCRIBE, 1, describe)
    _wait_for_assignment()
    beat("second", "B" * 22, 0, subscribed_topic_regex=pattern, **first)
    talk.ask("two", ApiKey.CONSUMER_GROUP_DESCRIBE, 1, describe)
    answer = beat("first", "A" * 22, answer.member_epoch)
    beat("bad", "C" * 22, 0, subscribed_topic_regex="[", **first)
    beat("both", "D" * 22, 0, subscribed_topic_regex=pattern, subscribed_topic_names=["none"], **first)
    beat("nothing", "E" * 22, 0, subscribed_topic_names=[], **first)
    talk.ask("all", ApiKey.CONSUMER_GROUP_DESCRIBE, 1, describe)


def migration(talk: Talk) -> None:
    """A classic group becomes a consumer group and classic again."""
    talk.create_topic("t", 4)
    topic = talk.prefix + "-t"
    group = talk.group()
    metadata = struct.pack(">hi", 1, 1) + _text(topic) + struct.pack(">i", -1) + struct.pack(">i", 0)
    protocols = (("range", metadata),)
    given = (
        struct.pack(">hi", 1, 1) + _text(topic) + struct.pack(">iiiii", 4, 0, 1, 2, 3) + struct.pack(">i", -1)
    )

    def join(label: str, member: str) -> Any:
        request = join_request(group, member, protocols=protocols, session_ms=45_000)
        return talk.ask(label, ApiKey.JOIN_GROUP, 9, request)

    member = join("id", "").member_id
    generation = join("join", member).generation_id
    talk.ask("sync", ApiKey.SYNC_GROUP, 5, sync_request(group, generation, member, {member: given}))
    first = {"rebalance_timeout_ms": 30_000, "subscribed_topic_names": [topic], "topic_partitions": []}

    def beat(label: str, epoch: int, **more: Any) -> Any:
        request = ConsumerGroupHeartbeatRequest(group, "N" * 22, epoch, **more)
        return talk.ask(label, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request)

    describe = ConsumerGroupDescribeRequest([group])
    beat("joins", 0, **first)
    talk.ask("converted", ApiKey.CONSUMER_GROUP_DESCRIBE, 1, describe)
    talk.ask("as classic", ApiKey.DESCRIBE_GROUPS, 6, DescribeGroupsRequest([group]))
    talk.ask("heartbeat", ApiKey.HEARTBEAT, 4, HeartbeatRequest(group, generation, member))
    talk.ask("too early", ApiKey.SYNC_GROUP, 5, sync_request(group, generation, member, {}))
    for step in range(2):
        joined = join(f"rejoin {step}", member)
        generation = joined.generation_id
        talk.ask(f"sync {step}", ApiKey.SYNC_GROUP, 5, sync_request(group, generation, member, {}))
        talk.ask(f"heartbeat {step}", ApiKey.HEARTBEAT, 4, HeartbeatRequest(group, generation, member))
        owned = struct.pack(">i", 1) + _text(topic) + struct.pack(">iii", 2, 0, 1)
        protocols = (("range", metadata[:-4] + owned),)
        talk.ask(f"step {step}", ApiKey.CONSUMER_GROUP_DESCRIBE, 1, describe)
    answer = beat("gets", 2)
    talk.ask("settled", ApiKey.CONSUMER_GROUP_DESCRIBE, 1, describe)
    talk.ask("commit", ApiKey.OFFSET_COMMIT, 9, commit_request(group, topic, 1, member, generation))
    talk.ask("old commit", ApiKey.OFFSET_COMMIT, 9, commit_request(group, topic, 1, member, generation - 1))
    assert answer.error_code == 0
    beat("leaves", -1)
    talk.ask("classic again", ApiKey.DESCRIBE_GROUPS, 6, DescribeGroupsRequest([group]))
    talk.ask("heartbeat", ApiKey.HEARTBEAT, 4, HeartbeatRequest(group, generation + 1, member))
    talk.ask("old heartbeat", ApiKey.HEARTBEAT, 4, HeartbeatRequest(group, generation, member))
    join("rejoin", member)


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def static_consumers(talk: Talk) -> None:
    """KIP-848 with group.instance.id."""
    topic_id = talk.create_topic("t", 2)
    topic = talk.prefix + "-t"
    group = talk.group()

    def beat(label: str, member: str, epoch: int, **more: Any) -> Any:
        first = {"rebalance_timeout_ms": 30_000, "subscribed_topic_names": [topic], "topic_partitions": []}
        request = ConsumerGroupHeartbeatRequest(
            group, member, epoch, instance_id="i", **((first if epoch == 0 else {}) | more)
        )
        return talk.ask(label, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request)

    beat("joins", "A" * 22, 0)
    beat("another", "B" * 22, 0)
    beat("goes on as another", "B" * 22, 2)
    beat("away", "A" * 22, -2)
    describe = ConsumerGroupDescribeRequest([group])
    talk.ask("away", ApiKey.CONSUMER_GROUP_DESCRIBE, 1, describe)
    beat("back", "B" * 22, 0)
    beat("old id", "A" * 22, 2)
    owned = [RequestTopicPartitions(topic_id, [0, 1])]
    beat("goes on", "B" * 22, 2, topic_partitions=owned)
    talk.ask("back", ApiKey.CONSUMER_GROUP_DESCRIBE, 1, describe)
    beat("leaves", "B" * 22, -1)
    talk.ask("left", ApiKey.CONSUMER_GROUP_DESCRIBE, 1, describe)
