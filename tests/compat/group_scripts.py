"""Conversations about groups: what Apache Kafka answers to them, kbroker must answer too."""

import struct
from collections.abc import Callable
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
from kbroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kbroker.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kbroker.protocol.messages.list_groups import ListGroupsRequest
from kbroker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kbroker.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kbroker.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kbroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.compat.group_talk import Talk

SUBSCRIPTION = struct.pack(">hi", 0, 1) + b"\0\1t" + struct.pack(">i", -1)
PROTOCOLS = (("range", SUBSCRIPTION), ("roundrobin", SUBSCRIPTION))


def join_request(
    group: str,
    member_id: str = "",
    instance: str | None = None,
    protocols: tuple[tuple[str, bytes], ...] = PROTOCOLS,
    protocol_type: str = "consumer",
    session_ms: int = 10_000,
) -> JoinGroupRequest:
    offered = [JoinGroupRequestProtocol(name, metadata) for name, metadata in protocols]
    return JoinGroupRequest(group, session_ms, 60_000, member_id, instance, protocol_type, offered)


def sync_request(group: str, generation: int, member_id: str, given: dict[str, bytes], **more: Any) -> Any:
    parts = [SyncGroupRequestAssignment(each, data) for each, data in given.items()]
    fields = {"protocol_type": "consumer", "protocol_name": "range"} | more
    return SyncGroupRequest(group, generation, member_id, assignments=parts, **fields)


def commit_request(
    group: str,
    topic: str,
    offset: int,
    member_id: str = "",
    epoch: int = -1,
    metadata: str | None = "m",
    partitions: tuple[int, ...] = (0,),
    topic_id: bytes = bytes(16),
) -> OffsetCommitRequest:
    parts = [OffsetCommitRequestPartition(index, offset, 0, metadata) for index in partitions]
    return OffsetCommitRequest(
        group, epoch, member_id, topics=[OffsetCommitRequestTopic(topic, topic_id, parts)]
    )


def fetch_request(group: str, version: int, topics: dict[str, list[int]] | None) -> OffsetFetchRequest:
    if version >= 8:
        asked = (
            None if topics is None else [OffsetFetchRequestTopics(*_named(each)) for each in topics.items()]
        )
        return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=asked)])
    plain = (
        None if topics is None else [OffsetFetchRequestTopic(name, parts) for name, parts in topics.items()]
    )
    return OffsetFetchRequest(group, plain)


def _named(each: tuple[str, list[int]]) -> tuple[str, bytes, list[int]]:
    return each[0], bytes(16), each[1]


def refusals_of_join(talk: Talk) -> None:
    """Requests to join that cannot succeed, in every version."""
    group = talk.group()
    cases = {
        "no group": join_request(""),
        "short session": join_request(group, session_ms=5999),
        "long session": join_request(group, session_ms=1_800_001),
        "unknown member": join_request(group, "nobody"),
        "no protocol": join_request(group, protocols=()),
        "no type": join_request(group, protocol_type=""),
    }
    for version in range(10):
        for label, request in cases.items():
            talk.ask(f"{label} v{version}", ApiKey.JOIN_GROUP, version, request)
    for version in range(4, 10):
        talk.ask(
            f"id required v{version}", ApiKey.JOIN_GROUP, version, join_request(talk.group(f"n{version}"))
        )
        described = DescribeGroupsRequest([talk.group(f"n{version}")])
        talk.ask("after id required", ApiKey.DESCRIBE_GROUPS, 6, described)


def join_in_every_version(talk: Talk) -> None:
    """A group of one, from join to leave."""
    for version in range(10):
        group = talk.group(f"v{version}")
        member = ""
        if version >= 4:
            member = talk.ask("id", ApiKey.JOIN_GROUP, version, join_request(group)).member_id
        joined = talk.ask("join", ApiKey.JOIN_GROUP, version, join_request(group, member))
        member, generation = joined.member_id, joined.generation_id
        talk.ask("again", ApiKey.JOIN_GROUP, version, join_request(group, member))
        sync = min(version, 5)
        given = {member: b"assignment"}
        talk.ask("sync", ApiKey.SYNC_GROUP, sync, sync_request(group, generation, member, given))
        talk.ask("sync again", ApiKey.SYNC_GROUP, sync, sync_request(group, generation, member, {}))
        for beat in range(5):
            request = HeartbeatRequest(group, generation, member)
            talk.ask(f"heartbeat v{beat}", ApiKey.HEARTBEAT, beat, request)
        for describe in range(7):
            talk.ask(
                f"describe v{describe}", ApiKey.DESCRIBE_GROUPS, describe, DescribeGroupsRequest([group])
            )
        leave = min(version, 5)
        request_leave = LeaveGroupRequest(group, member, [MemberIdentity(member)])
        talk.ask("leave", ApiKey.LEAVE_GROUP, leave, request_leave)
        talk.ask("leave twice", ApiKey.LEAVE_GROUP, leave, request_leave)
        talk.ask("empty", ApiKey.DESCRIBE_GROUPS, 6, DescribeGroupsRequest([group]))


def stable_pair(talk: Talk, group: str, instances: tuple[str | None, str | None]) -> tuple[list[str], int]:
    """Two members, synced; the first one leads. (member ids, generation)"""
    ids = []
    for instance in instances:
        request = join_request(group, instance=instance)
        ids.append("" if instance else talk.ask("id", ApiKey.JOIN_GROUP, 9, request).member_id)
    waiting = []
    for member, instance in zip(ids, instances, strict=True):
        waiting.append(talk.later(ApiKey.JOIN_GROUP, 9, join_request(group, member, instance)))
        _pause()
    answers = [talk.heard("join", each) for each in waiting]
    members = [answer.member_id for answer in answers]
    generation = answers[0].generation_id
    leader = answers[0].leader
    syncs = []
    for member, instance in zip(members, instances, strict=True):
        given = (
            {each: f"part {index}".encode() for index, each in enumerate(members)} if member == leader else {}
        )
        request_sync = sync_request(group, generation, member, given, group_instance_id=instance)
        syncs.append(talk.later(ApiKey.SYNC_GROUP, 5, request_sync))
    for sync in syncs:
        assert sync.result(30).error_code == 0
    return members, generation


def _pause() -> None:
    """Requests on two connections are to arrive in this order."""
    import time

    time.sleep(0.2)


def errors_of_a_stable_group(talk: Talk) -> None:
    """Wrong members, generations, protocols and instance ids."""
    group = talk.group()
    (one, two), generation = stable_pair(talk, group, (None, "i1"))
    heartbeats = {
        "fine": HeartbeatRequest(group, generation, one),
        "static": HeartbeatRequest(group, generation, two, "i1"),
        "stranger": HeartbeatRequest(group, generation, "nobody"),
        "generation": HeartbeatRequest(group, generation + 1, one),
        "instance": HeartbeatRequest(group, generation, one, "i1"),
        "no instance": HeartbeatRequest(group, generation, one, "i9"),
        "no group": HeartbeatRequest("", generation, one),
        "other group": HeartbeatRequest(talk.group("other"), generation, one),
    }
    for label, request in heartbeats.items():
        for version in (0, 3, 4):
            talk.ask(f"heartbeat {label} v{version}", ApiKey.HEARTBEAT, version, request)
    syncs = {
        "stranger": sync_request(group, generation, "nobody", {}),
        "generation": sync_request(group, generation + 1, one, {}),
        "type": sync_request(group, generation, one, {}, protocol_type="connect"),
        "name": sync_request(group, generation, one, {}, protocol_name="sticky"),
        "null type": sync_request(group, generation, one, {}, protocol_type=None),
        "instance": sync_request(group, generation, one, {}, group_instance_id="i1"),
        "no group": sync_request("", generation, one, {}),
        "other group": sync_request(talk.group("other"), generation, one, {}),
    }
    for label, request_sync in syncs.items():
        for version in range(6):
            talk.ask(f"sync {label} v{version}", ApiKey.SYNC_GROUP, version, request_sync)
    joins = {
        "other type": join_request(group, protocol_type="connect"),
        "other protocol": join_request(group, protocols=(("sticky", b""),)),
        "fenced": join_request(group, one, "i1"),
        "unknown instance": join_request(group, one, "i9"),
        "follower again": join_request(group, two, "i1"),
    }
    for label, request_join in joins.items():
        for version in (5, 7, 9):
            talk.ask(f"join {label} v{version}", ApiKey.JOIN_GROUP, version, request_join)
    talk.ask("static again", ApiKey.JOIN_GROUP, 8, join_request(group, "", "i1"))
    talk.ask("static old id", ApiKey.HEARTBEAT, 4, HeartbeatRequest(group, generation, two, "i1"))
    described = talk.ask("describe", ApiKey.DESCRIBE_GROUPS, 6, DescribeGroupsRequest([group]))
    assert described.groups[0].group_state == "Stable"
    leave = LeaveGroupRequest(
        group,
        members=[
            MemberIdentity("nobody"),
            MemberIdentity("", "i9"),
            MemberIdentity(""),
            MemberIdentity(one, "i1"),
            MemberIdentity("", "i1"),
            MemberIdentity(one, None, "why not"),
        ],
    )
    for version in (3, 4, 5):
        talk.ask(f"leave v{version}", ApiKey.LEAVE_GROUP, version, leave)
    for version in range(6):
        nobody = LeaveGroupRequest("", "nobody", [MemberIdentity("nobody")])
        talk.ask(f"leave no group v{version}", ApiKey.LEAVE_GROUP, version, nobody)
        other = LeaveGroupRequest(talk.group("other"), "nobody", [MemberIdentity("nobody")])
        talk.ask(f"leave other group v{version}", ApiKey.LEAVE_GROUP, version, other)


def a_rebalance(talk: Talk) -> None:
    """A third member comes; the others learn of it and rejoin."""
    group = talk.group()
    (one, two), generation = stable_pair(talk, group, (None, None))
    three = talk.ask("id", ApiKey.JOIN_GROUP, 9, join_request(group)).member_id
    waiting = talk.later(ApiKey.JOIN_GROUP, 9, join_request(group, three))
    _pause()
    talk.ask("preparing", ApiKey.DESCRIBE_GROUPS, 6, DescribeGroupsRequest([group]))
    talk.ask("heartbeat", ApiKey.HEARTBEAT, 4, HeartbeatRequest(group, generation, one))
    talk.ask("sync", ApiKey.SYNC_GROUP, 5, sync_request(group, generation, one, {}))
    topic = talk.prefix + "-t"
    talk.ask("commit", ApiKey.OFFSET_COMMIT, 9, commit_request(group, topic, 5, one, generation))
    again = [talk.later(ApiKey.JOIN_GROUP, 9, join_request(group, each)) for each in (one, two)]
    answers = [each.result(30) for each in (*again, waiting)]
    leader = answers[0].leader
    for answer in sorted(answers, key=lambda each: each.member_id != leader):
        talk.lines.append(("joined", (answer.generation_id, len(answer.members), answer.skip_assignment)))
    generation += 1
    talk.ask("completing", ApiKey.DESCRIBE_GROUPS, 6, DescribeGroupsRequest([group]))
    talk.ask("heartbeat", ApiKey.HEARTBEAT, 4, HeartbeatRequest(group, generation, one))
    talk.ask("commit", ApiKey.OFFSET_COMMIT, 9, commit_request(group, topic, 6, one, generation))
    talk.ask("delete group", ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest([group, talk.group("none")]))


def offsets(talk: Talk) -> None:
    """Commits and fetches outside any membership, in every version."""
    topic, topic_id = talk.prefix + "-t", talk.create_topic("t", 3)
    group = talk.group()
    for version in range(2, 11):
        request = commit_request(group, topic, 40 + version, partitions=(0, 2, 7), topic_id=topic_id)
        talk.ask(f"commit v{version}", ApiKey.OFFSET_COMMIT, version, request)
        unknown = commit_request(group, "no-such-topic", 1, topic_id=b"?" * 16)
        talk.ask(f"commit unknown v{version}", ApiKey.OFFSET_COMMIT, version, unknown)
        long = commit_request(group, topic, 1, metadata="x" * 4097, topic_id=topic_id)
        talk.ask(f"commit metadata v{version}", ApiKey.OFFSET_COMMIT, version, long)
        null = commit_request(group, topic, 1, metadata=None, partitions=(1,), topic_id=topic_id)
        talk.ask(f"commit null metadata v{version}", ApiKey.OFFSET_COMMIT, version, null)
        member = commit_request(group, topic, 1, "nobody", 3, topic_id=topic_id)
        talk.ask(f"commit stranger v{version}", ApiKey.OFFSET_COMMIT, version, member)
        other = commit_request(talk.group("other"), topic, 1, "nobody", 3, topic_id=topic_id)
        talk.ask(f"commit other group v{version}", ApiKey.OFFSET_COMMIT, version, other)
        nameless = commit_request("", topic, 9, topic_id=topic_id)
        talk.ask(f"commit empty group id v{version}", ApiKey.OFFSET_COMMIT, version, nameless)
    for version in range(1, 10):
        some = {topic: [0, 1, 2, 7], "no-such-topic": [0]}
        talk.ask(f"fetch v{version}", ApiKey.OFFSET_FETCH, version, fetch_request(group, version, some))
        none = fetch_request(talk.group("nobody"), version, some)
        talk.ask(f"fetch other group v{version}", ApiKey.OFFSET_FETCH, version, none)
        if version >= 2:
            everything = fetch_request(group, version, None)
            talk.ask(f"fetch all v{version}", ApiKey.OFFSET_FETCH, version, everything)
            nothing = fetch_request(talk.group("nobody"), version, None)
            talk.ask(f"fetch all of nobody v{version}", ApiKey.OFFSET_FETCH, version, nothing)
    by_id = [OffsetFetchRequestTopics("", topic_id, [0, 9]), OffsetFetchRequestTopics("", b"?" * 16, [0])]
    many = [
        OffsetFetchRequestGroup(group, topics=by_id),
        OffsetFetchRequestGroup(group, topics=None),
        OffsetFetchRequestGroup(talk.group("nobody"), topics=by_id),
        OffsetFetchRequestGroup("", topics=None),
    ]
    talk.ask("fetch by id", ApiKey.OFFSET_FETCH, 10, OffsetFetchRequest(groups=many, require_stable=True))
    for wanted in (["x"], [], [topic]):
        parts = [OffsetDeleteRequestPartition(0), OffsetDeleteRequestPartition(8)]
        topics = [OffsetDeleteRequestTopic(name, parts) for name in wanted]
        talk.ask(f"delete {wanted}", ApiKey.OFFSET_DELETE, 0, OffsetDeleteRequest(group, topics))
        unknown_group = OffsetDeleteRequest(talk.group("nobody"), topics)
        talk.ask(f"delete of nobody {wanted}", ApiKey.OFFSET_DELETE, 0, unknown_group)
    talk.ask("fetch", ApiKey.OFFSET_FETCH, 8, fetch_request(group, 8, None))
    for version in range(3):
        ids = DeleteGroupsRequest([talk.group("nobody"), ""])
        talk.ask(f"delete groups v{version}", ApiKey.DELETE_GROUPS, version, ids)
    talk.ask("delete group", ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest([group]))
    talk.ask("fetch", ApiKey.OFFSET_FETCH, 8, fetch_request(group, 8, None))


def descriptions(talk: Talk) -> None:
    """DescribeGroups and ListGroups in every version."""
    used, offsets_only = talk.group("used"), talk.group("offsets")
    topic = talk.prefix + "-t"
    talk.create_topic("t", 1)
    stable_pair(talk, used, (None, None))
    talk.ask("commit", ApiKey.OFFSET_COMMIT, 8, commit_request(offsets_only, topic, 1))
    for version in range(7):
        request = DescribeGroupsRequest([used, offsets_only, talk.group("none"), ""], version >= 3)
        talk.ask(f"describe v{version}", ApiKey.DESCRIBE_GROUPS, version, request)
    filters: list[tuple[list[str], list[str]]] = [
        ([], []),
        (["Stable"], []),
        (["sTABLE", "empty"], []),
        (["no-such-state"], []),
        ([], ["classic"]),
        ([], ["CONSUMER"]),
        ([], ["no-such-type"]),
    ]
    for version in range(6):
        for states, types in filters:
            if (version >= 4 or not states) and (version >= 5 or not types):
                answer = talk.later(ApiKey.LIST_GROUPS, version, ListGroupsRequest(states, types)).result(30)
                answer.groups = [each for each in answer.groups if each.group_id in (used, offsets_only)]
                talk.lines.append((f"list v{version} {states} {types}", talk.level(answer)))


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
    _pause()
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
    for label, member, epoch in (
        ("own", one, 3),
        ("old", one, 1),
        ("stranger", "x", 2),
        ("nobody", None, -1),
    ):
        asked = [OffsetFetchRequestTopics(topic, bytes(16), [0, 1])]
        groups = [OffsetFetchRequestGroup(group, member, epoch, asked)]
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


SCRIPTS: dict[str, Callable[[Talk], None]] = {
    each.__name__: each
    for each in (
        refusals_of_join,
        join_in_every_version,
        errors_of_a_stable_group,
        a_rebalance,
        offsets,
        descriptions,
        consumer_groups,
        static_consumers,
        expressions,
        migration,
    )
}
