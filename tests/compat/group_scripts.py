"""Conversations about groups: what Apache Kafka answers to them, kbroker must answer too."""

from collections.abc import Callable

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.delete_groups import DeleteGroupsRequest
from kbroker.protocol.messages.describe_groups import DescribeGroupsRequest
from kbroker.protocol.messages.heartbeat import HeartbeatRequest
from kbroker.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kbroker.protocol.messages.list_groups import ListGroupsRequest
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
from tests.compat.consumer_group_scripts import consumer_groups, expressions, migration, static_consumers
from tests.compat.group_requests import commit_request, fetch_request, join_request, pause, sync_request
from tests.compat.group_talk import Talk


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
        talk.describe_new("after id required", talk.group(f"n{version}"))


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
        pause()
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
        assert sync.result(120).error_code == 0
    return members, generation


def errors_of_a_stable_group(talk: Talk) -> None:
    """Wrong members, generations, protocols and instance ids."""
    group = talk.group()
    (one, two), generation = stable_pair(talk, group, (None, "i1"))
    _wrong_heartbeats_and_syncs(talk, group, generation, one, two)
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
    _wrong_leaves(talk, group, one)


def _wrong_heartbeats_and_syncs(talk: Talk, group: str, generation: int, one: str, two: str) -> None:
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


def _wrong_leaves(talk: Talk, group: str, one: str) -> None:
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
        no_client = LeaveGroupRequest("", "nobody", [MemberIdentity("nobody")])
        talk.ask(f"leave no group v{version}", ApiKey.LEAVE_GROUP, version, no_client)
        other = LeaveGroupRequest(talk.group("other"), "nobody", [MemberIdentity("nobody")])
        talk.ask(f"leave other group v{version}", ApiKey.LEAVE_GROUP, version, other)


def a_rebalance(talk: Talk) -> None:
    """A third member comes; the others learn of it and rejoin."""
    group = talk.group()
    (one, two), generation = stable_pair(talk, group, (None, None))
    three = talk.ask("id", ApiKey.JOIN_GROUP, 9, join_request(group)).member_id
    waiting = talk.later(ApiKey.JOIN_GROUP, 9, join_request(group, three))
    pause()
    talk.ask("preparing", ApiKey.DESCRIBE_GROUPS, 6, DescribeGroupsRequest([group]))
    talk.ask("heartbeat", ApiKey.HEARTBEAT, 4, HeartbeatRequest(group, generation, one))
    talk.ask("sync", ApiKey.SYNC_GROUP, 5, sync_request(group, generation, one, {}))
    topic = talk.prefix + "-t"
    talk.ask("commit", ApiKey.OFFSET_COMMIT, 9, commit_request(group, topic, 5, one, generation))
    again = [talk.later(ApiKey.JOIN_GROUP, 9, join_request(group, each)) for each in (one, two)]
    answers = [each.result(120) for each in (*again, waiting)]
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
    for expected in (["x"], [], [topic]):
        parts = [OffsetDeleteRequestPartition(0), OffsetDeleteRequestPartition(8)]
        topics = [OffsetDeleteRequestTopic(name, parts) for name in expected]
        talk.ask(f"delete {expected}", ApiKey.OFFSET_DELETE, 0, OffsetDeleteRequest(group, topics))
        unknown_group = OffsetDeleteRequest(talk.group("nobody"), topics)
        talk.ask(f"delete of nobody {expected}", ApiKey.OFFSET_DELETE, 0, unknown_group)
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
                answer = talk.later(ApiKey.LIST_GROUPS, version, ListGroupsRequest(states, types)).result(120)
                answer.groups = [each for each in answer.groups if each.group_id in (used, offsets_only)]
                talk.lines.append((f"list v{version} {states} {types}", talk.level(answer)))


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
