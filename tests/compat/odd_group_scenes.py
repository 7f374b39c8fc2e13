"""Valid requests about groups, each field of which is made odd."""

from collections.abc import Mapping
from typing import Any

from kbroker.protocol.api_keys import ApiKey as K
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
    OffsetFetchRequestTopics,
)
from kbroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kbroker.protocol.schema import Struct
from tests.compat.group_requests import SUBSCRIPTION, fetch_request
from tests.compat.odd_world import TOPIC, Scene, World

MEMBER = "A" * 22
Look = tuple[K, int, Struct]


def described(world: World, name: str) -> Look:
    """A classic group."""
    return K.DESCRIBE_GROUPS, 6, DescribeGroupsRequest([name])


def described_consumers(world: World, name: str) -> Look:
    return K.CONSUMER_GROUP_DESCRIBE, 1, ConsumerGroupDescribeRequest([name])


def fetched(world: World, name: str) -> Look:
    """All offsets of the group."""
    return K.OFFSET_FETCH, 8, OffsetFetchRequest(groups=[OffsetFetchRequestGroup(name, topics=None)])


def commit(world: World, name: str, version: int) -> OffsetCommitRequest:
    part = OffsetCommitRequestPartition(0, 5, 0, "note")
    topic = OffsetCommitRequestTopic(TOPIC, world.ids[TOPIC], [part])
    return OffsetCommitRequest(name, topics=[topic])


def joining(name: str, version: int, rebalance_ms: int = 3_000) -> JoinGroupRequest:
    offered = [JoinGroupRequestProtocol(each, SUBSCRIPTION) for each in ("range", "sticky")]
    instance = "i" if version >= 5 else None
    return JoinGroupRequest(name, 30_000, rebalance_ms, "", instance, "consumer", offered, "because")


def joined(world: World, name: str, static: bool = True, rebalance_ms: int = 3_000) -> tuple[str, int]:
    """The member of a classic group, and its generation."""
    version = 5 if static else 3
    answer = world.done(K.JOIN_GROUP, version, joining(name, version, rebalance_ms))
    return answer.member_id, answer.generation_id


def synced(world: World, name: str, static: bool = True) -> tuple[str, int]:
    """The member of a stable classic group."""
    member, generation = joined(world, name, static)
    world.done(K.SYNC_GROUP, 5, assigned(name, member, generation, static))
    return member, generation


def assigned(name: str, member: str, generation: int, static: bool = True) -> SyncGroupRequest:
    parts = [SyncGroupRequestAssignment(member, b"assignment")]
    return SyncGroupRequest(name, generation, member, "i" if static else None, "consumer", "range", parts)


def classic_commit(world: World, name: str, version: int) -> Struct:
    member, generation = synced(world, name, static=version >= 7)
    request = commit(world, name, version)
    request.member_id, request.generation_id_or_member_epoch = member, generation
    request.group_instance_id = "i" if version >= 7 else None
    return request


def consumer_joining(world: World, name: str, version: int) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        name, MEMBER, 0, "i", "rack", 30_000, [TOPIC], None, "range", topic_partitions=[]
    )


def consumer_joined(world: World, name: str) -> Any:
    """The epoch of the one consumer of a group of KIP-848, which has both partitions."""
    return world.done(K.CONSUMER_GROUP_HEARTBEAT, 1, consumer_joining(world, name, 1)).member_epoch


def consumer_heartbeat(world: World, name: str, version: int) -> Struct:
    epoch = consumer_joined(world, name)
    owned = [RequestTopicPartitions(world.ids[TOPIC], [0, 1])]
    return ConsumerGroupHeartbeatRequest(
        name, MEMBER, epoch, "i", None, 30_000, [TOPIC], None, "range", owned
    )


def quiet_heartbeat(world: World, name: str, version: int) -> Struct:
    return ConsumerGroupHeartbeatRequest(name, MEMBER, consumer_joined(world, name))


def by_expression(world: World, name: str, version: int) -> Struct:
    request = consumer_joining(world, name, version)
    request.subscribed_topic_names, request.subscribed_topic_regex = None, "ord.*"
    return request


def consumer_commit(world: World, name: str, version: int) -> Struct:
    request = commit(world, name, version)
    request.member_id, request.generation_id_or_member_epoch = MEMBER, consumer_joined(world, name)
    return request


def with_offsets(world: World, name: str) -> None:
    world.done(K.OFFSET_COMMIT, 8, commit(world, name, 8))


def fetch(world: World, name: str, version: int) -> Struct:
    with_offsets(world, name)
    request = fetch_request(name, version, {TOPIC: [0, 1]})
    if version >= 10:
        request.groups[0].topics = [OffsetFetchRequestTopics("", world.ids[TOPIC], [0, 1])]
    return request


def consumer_fetch(world: World, name: str, version: int) -> Struct:
    epoch = consumer_joined(world, name)
    topic = OffsetFetchRequestTopics(TOPIC, world.ids[TOPIC], [0])
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(name, MEMBER, epoch, [topic])])


def classic_fetch(world: World, name: str, version: int) -> Struct:
    member, generation = synced(world, name)
    topic = OffsetFetchRequestTopics(TOPIC, world.ids[TOPIC], [0])
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(name, member, generation, [topic])])


def delete_offsets(world: World, name: str, version: int) -> Struct:
    with_offsets(world, name)
    return OffsetDeleteRequest(name, [OffsetDeleteRequestTopic(TOPIC, [OffsetDeleteRequestPartition(0)])])


def delete_consumers_offsets(world: World, name: str, version: int) -> Struct:
    consumer_joined(world, name)
    return OffsetDeleteRequest(name, [OffsetDeleteRequestTopic(TOPIC, [OffsetDeleteRequestPartition(0)])])


def heartbeat(world: World, name: str, version: int) -> Struct:
    member, generation = synced(world, name, static=version >= 3)
    return HeartbeatRequest(name, generation, member, "i" if version >= 3 else None)


def sync(world: World, name: str, version: int) -> Struct:
    member, generation = joined(world, name, static=version >= 3)
    return assigned(name, member, generation, version >= 3)


def sync_again(world: World, name: str, version: int) -> Struct:
    member, generation = synced(world, name, static=version >= 3)
    return assigned(name, member, generation, version >= 3)


def leave(world: World, name: str, version: int) -> Struct:
    member, _ = synced(world, name, static=version >= 3)
    return LeaveGroupRequest(name, member, [MemberIdentity(member, "i" if version >= 3 else None, "because")])


def rejoin(world: World, name: str, version: int) -> Struct:
    request = joining(name, version)
    request.member_id, _ = synced(world, name, static=version >= 5)
    return request


def delete(world: World, name: str, version: int) -> Struct:
    with_offsets(world, name)
    return DeleteGroupsRequest([name])


def describe_consumers(world: World, name: str, version: int) -> Struct:
    consumer_joined(world, name)
    return ConsumerGroupDescribeRequest([name], True)


def describe(world: World, name: str, version: int) -> Struct:
    synced(world, name, static=False)
    return DescribeGroupsRequest([name], True)


GROUP_SCENES: Mapping[str, Scene] = {
    "list-groups": Scene(K.LIST_GROUPS, (0, 5), lambda *_: ListGroupsRequest(["Dead"], ["classic"])),
    "commit": Scene(K.OFFSET_COMMIT, (2, 10), commit, look=fetched),
    "classic-commit": Scene(K.OFFSET_COMMIT, (2, 10), classic_commit, look=fetched),
    "consumer-commit": Scene(K.OFFSET_COMMIT, (2, 10), consumer_commit, look=fetched),
    "fetch": Scene(K.OFFSET_FETCH, (1, 10), fetch),
    "consumer-fetch": Scene(K.OFFSET_FETCH, (8, 10), consumer_fetch),
    "classic-fetch": Scene(K.OFFSET_FETCH, (8, 10), classic_fetch),
    "delete-offsets": Scene(K.OFFSET_DELETE, (0, 0), delete_offsets, look=fetched),
    "delete-consumers-offsets": Scene(K.OFFSET_DELETE, (0, 0), delete_consumers_offsets),
    "heartbeat": Scene(K.HEARTBEAT, (0, 4), heartbeat),
    "join": Scene(
        K.JOIN_GROUP,
        (0, 9),
        lambda world, name, version: joining(name, version),
        kept=frozenset({"rebalance_timeout_ms"}),  # a member that does not sync in time is removed
        once=True,
        look=described,
    ),
    "rejoin": Scene(K.JOIN_GROUP, (0, 9), rejoin, frozenset({"rebalance_timeout_ms"}), True, described),
    "sync": Scene(K.SYNC_GROUP, (0, 5), sync, look=described),
    "sync-again": Scene(K.SYNC_GROUP, (0, 5), sync_again, look=described),
    "leave": Scene(K.LEAVE_GROUP, (0, 5), leave, look=described),
    "delete-groups": Scene(K.DELETE_GROUPS, (0, 2), delete, look=fetched),
    "describe-groups": Scene(K.DESCRIBE_GROUPS, (0, 6), describe),
    "consumer-joins": Scene(K.CONSUMER_GROUP_HEARTBEAT, (0, 1), consumer_joining, look=described_consumers),
    "consumer-by-expression": Scene(K.CONSUMER_GROUP_HEARTBEAT, (1, 1), by_expression),
    "consumer-goes-on": Scene(
        K.CONSUMER_GROUP_HEARTBEAT, (0, 1), consumer_heartbeat, look=described_consumers
    ),
    "consumer-has-no-news": Scene(
        K.CONSUMER_GROUP_HEARTBEAT, (0, 1), quiet_heartbeat, look=described_consumers
    ),
    "describe-consumers": Scene(K.CONSUMER_GROUP_DESCRIBE, (0, 1), describe_consumers),
}
