"""Conversations about consumer groups of KIP-848: what Apache Kafka answers to them, kbroker must answer too."""

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


def consumer_groups(talk: Talk) -> None:
    """KIP-848: two members, reconciliation, errors, descriptions, offsets, leaving."""
    topic_id = talk.create_topic("t", 4)
    topic = talk.prefix + "-t"
    group = talk.group()
    one, two = "A" * 22, "B" * 22

    def beat(
        label: str,
        member: str,
        epoch: int,
        owned: list[int] | None = None,
        version: int = 1,
        **more: Any,
    ) -> Any:
        parts = None if owned is None else [RequestTopicPartitions(topic_id, owned)] if owned else []
        request = ConsumerGroupHeartbeatRequest(
            more.pop("group", group), member, epoch, topic_partitions=parts, **more
        )
        return talk.ask(label, ApiKey.CONSUMER_GROUP_HEARTBEAT, version, request)

    first = {"rebalance_timeout_ms": 30_000, "subscribed_topic_names": [topic], "owned": []}
    for version in (0, 1):
        other = {"group": talk.group("refused"), "version": version}
        beat("no group", one, 0, **first | other | {"group": ""})
        beat("no member", "", 3, **other)
        beat("no timeout", one, 0, [], subscribed_topic_names=[topic], **other)
        beat("no topics", one, 0, [], rebalance_timeout_ms=30_000, **other)
        beat("owns", one, 0, **first | other | {"owned": [1]})
        beat("assignor", one, 0, server_assignor="best", **first | other)
        beat("instance", one, 0, instance_id="", **first | other)
        beat("rack", one, 0, rack_id=" ", **first | other)
        beat("epoch", one, -5, **other)
        beat("leaves", one, -1, **other)
        beat("goes on", one, 7, **other)
        beat("static leaves", one, -2, **other)
        beat("static leaves", one, -2, instance_id="i", **other)
    beat(
        "bad regex",
        one,
        0,
        [],
        rebalance_timeout_ms=30_000,
        subscribed_topic_regex="(",
        group=talk.group("r"),
    )
    beat("joins", one, 0, **first)
    describe = ConsumerGroupDescribeRequest([group, talk.group("none")], True)
    talk.ask("one", ApiKey.CONSUMER_GROUP_DESCRIBE, 1, describe)
    beat("nothing new", one, 2)
    pause()
    _wait_for_assignment()
    beat("second", two, 0, **first)
    talk.ask("two", ApiKey.CONSUMER_GROUP_DESCRIBE, 1, describe)
    beat("must revoke", one, 2, [0, 1, 2, 3])
    beat("still", one, 2, [0, 1, 2, 3])
    given = beat("second waits", two, 3, [])
    beat("revoked", one, 2, [0, 1])
    given = beat("second gets", two, 3, [])
    assert given.assignment is not None
    talk.ask("settled", ApiKey.CONSUMER_GROUP_DESCRIBE, 1, describe)
    talk.ask("settled v0", ApiKey.CONSUMER_GROUP_DESCRIBE, 0, describe)
    beat("full", two, 3, [2, 3], rebalance_timeout_ms=30_000, subscribed_topic_names=[topic])
    beat("greater", one, 9)
    beat("smaller", one, 2)
    beat("smaller but owning", one, 2, [0, 1])
    beat("stranger", "C" * 22, 3)
    beat("unknown instance", one, 3, instance_id="i")
    for version in (8, 9):
        for label, member, epoch in (
            ("own", one, 3),
            ("older", one, 2),
            ("newer", one, 4),
            ("stranger", "nobody", 3),
            ("nobody", "", -1),
        ):
            request = commit_request(group, topic, 5, member, epoch, partitions=(0, 1))
            talk.ask(f"commit {label} v{version}", ApiKey.OFFSET_COMMIT, version, request)
    not_mine = commit_request(group, topic, 5, one, 2, partitions=(3,))
    talk.ask("commit older, not mine", ApiKey.OFFSET_COMMIT, 9, not_mine)
    readers: tuple[tuple[str, str | None, int], ...] = (
        ("own", one, 3),
        ("old", one, 1),
        ("stranger", "x", 2),
        ("nobody", None, -1),
    )
    for label, reader, epoch in readers:
        asked = [OffsetFetchRequestTopics(topic, bytes(16), [0, 1])]
        groups = [OffsetFetchRequestGroup(group, reader, epoch, asked)]
        talk.ask(f"fetch {label}", ApiKey.OFFSET_FETCH, 9, OffsetFetchRequest(groups=groups))
    parts = [OffsetDeleteRequestPartition(0)]
    delete = OffsetDeleteRequest(group, [OffsetDeleteRequestTopic(topic, parts)])
    talk.ask("delete offsets", ApiKey.OFFSET_DELETE, 0, delete)
    talk.ask("delete", ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest([group]))
    talk.ask("describe as classic", ApiKey.DESCRIBE_GROUPS, 6, DescribeGroupsRequest([group]))
    talk.ask("describe as classic", ApiKey.DESCRIBE_GROUPS, 5, DescribeGroupsRequest([group]))
    talk.ask("classic heartbeat", ApiKey.HEARTBEAT, 4, HeartbeatRequest(group, 3, one))
    talk.ask("classic sync", ApiKey.SYNC_GROUP, 5, sync_request(group, 3, one, {}))
    talk.ask("classic leave", ApiKey.LEAVE_GROUP, 5, LeaveGroupRequest(group, "", [MemberIdentity(one)]))
    talk.ask("connect joins", ApiKey.JOIN_GROUP, 9, join_request(group, protocol_type="connect"))
    beat("leave", two, -1)
    beat("leave", one, -1)
    talk.ask("empty", ApiKey.CONSUMER_GROUP_DESCRIBE, 1, describe)
    talk.ask("delete", ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest([group]))
    talk.ask("gone", ApiKey.CONSUMER_GROUP_DESCRIBE, 1, describe)
    talk.ask("describe classic", ApiKey.CONSUMER_GROUP_DESCRIBE, 1, ConsumerGroupDescribeRequest([""]))


def _wait_for_assignment() -> None:
    """consumer.assignment.interval.ms: the next target is not computed sooner."""
    import time

    time.sleep(1.1)


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
