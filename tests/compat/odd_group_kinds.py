"""Every request about groups, to a group of every kind: most are of another protocol."""

import time
from collections.abc import Callable, Mapping
from functools import partial

from kbroker.protocol.api_keys import ApiKey as K
from kbroker.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kbroker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kbroker.protocol.messages.delete_groups import DeleteGroupsRequest
from kbroker.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from kbroker.protocol.messages.describe_groups import DescribeGroupsRequest
from kbroker.protocol.messages.heartbeat import HeartbeatRequest
from kbroker.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kbroker.protocol.messages.list_groups import ListGroupsRequest
from kbroker.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kbroker.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from kbroker.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kbroker.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from kbroker.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from kbroker.protocol.schema import Struct
from tests.compat import odd_group_scenes as groups
from tests.compat import odd_share_scenes as shares
from tests.compat.group_requests import fetch_request
from tests.compat.odd_transaction_scenes import offsets as txn_offsets
from tests.compat.odd_world import TOPIC, World, shown
from tests.compat.side_by_side import Lines
from tests.peer.eventually import eventually

MEMBER = "A" * 22
KINDS_S = 15.0
"""For all kinds in a short run; on an idle machine they are done sooner."""
Make = Callable[[World, str, int], Struct]


def _left(world: World, name: str) -> None:
    member, _ = groups.synced(world, name, static=False)
    world.done(K.LEAVE_GROUP, 3, LeaveGroupRequest(name, members=[MemberIdentity(member)]))


def _consumer_left(world: World, name: str) -> None:
    groups.consumer_joined(world, name)
    request = ConsumerGroupHeartbeatRequest(name, MEMBER, -1)
    world.done(K.CONSUMER_GROUP_HEARTBEAT, 1, request)


def _streams(world: World, name: str) -> None:
    world.done(K.STREAMS_GROUP_HEARTBEAT, 0, shares.streams_joining(world, name, 0))


def _streams_left(world: World, name: str) -> None:
    _streams(world, name)
    world.done(K.STREAMS_GROUP_HEARTBEAT, 0, StreamsGroupHeartbeatRequest(name, MEMBER, -1))


KINDS: Mapping[str, Callable[[World, str], object]] = {
    "absent": lambda world, name: None,
    "offsets": groups.with_offsets,
    "left": _left,
    "joined": lambda world, name: groups.joined(world, name, static=False),
    "synced": lambda world, name: groups.synced(world, name, static=False),
    "consumer": groups.consumer_joined,
    "consumer-left": _consumer_left,
    "share": shares.joined,
    "share-left": shares.left,
    "streams": _streams,
    "streams-left": _streams_left,
}


def _join(world: World, name: str, version: int) -> Struct:
    request = groups.joining(name, version)
    request.group_instance_id = None
    return request


def _delete_offsets(world: World, name: str, version: int) -> Struct:
    return OffsetDeleteRequest(name, [OffsetDeleteRequestTopic(TOPIC, [OffsetDeleteRequestPartition(0)])])


def _commit_as(member: str, epoch: int) -> Make:
    def make(world: World, name: str, version: int) -> Struct:
        request = groups.commit(world, name, version)
        request.member_id, request.generation_id_or_member_epoch = member, epoch
        return request

    return make


def _fetch(world: World, name: str, version: int) -> Struct:
    request = fetch_request(name, version, {TOPIC: [0]})
    if version >= 10:
        request.groups[0].topics[0].topic_id = world.ids[TOPIC]  # type: ignore[index]
    return request


def _heartbeat(ask: Callable[[str, str, int], Struct], epoch: int) -> Make:
    return lambda world, name, version: ask(name, MEMBER, epoch)


def _streams_joins(world: World, name: str, version: int) -> Struct:
    return shares.streams_joining(world, name, version)


REQUESTS: Mapping[str, tuple[K, tuple[int, int], Make]] = {
    "commit": (K.OFFSET_COMMIT, (2, 10), groups.commit),
    "commit of a member": (K.OFFSET_COMMIT, (2, 10), _commit_as(MEMBER, 1)),
    "commit of a stranger": (K.OFFSET_COMMIT, (2, 10), _commit_as("stranger", 1)),
    "commit without an epoch": (K.OFFSET_COMMIT, (2, 10), _commit_as(MEMBER, -1)),
    "commit without a member": (K.OFFSET_COMMIT, (2, 10), _commit_as("", 1)),
    "fetch": (K.OFFSET_FETCH, (1, 10), _fetch),
    "delete offsets": (K.OFFSET_DELETE, (0, 0), _delete_offsets),
    "join": (K.JOIN_GROUP, (0, 9), _join),
    "sync": (K.SYNC_GROUP, (0, 5), lambda world, name, version: groups.assigned(name, MEMBER, 1, static=False)),
    "heartbeat": (K.HEARTBEAT, (0, 4), lambda world, name, version: HeartbeatRequest(name, 1, MEMBER)),
    "leave": (
        K.LEAVE_GROUP, (0, 5),
        lambda world, name, version: LeaveGroupRequest(name, MEMBER, [MemberIdentity(MEMBER)]),
    ),
    "static leave": (
        K.LEAVE_GROUP, (3, 5),
        lambda world, name, version: LeaveGroupRequest(name, "", [MemberIdentity("", "i", "gone")]),
    ),
    "delete": (K.DELETE_GROUPS, (0, 2), lambda world, name, version: DeleteGroupsRequest([name])),
    "describe": (K.DESCRIBE_GROUPS, (0, 6), lambda world, name, version: DescribeGroupsRequest([name])),
    "describe consumers": (
        K.CONSUMER_GROUP_DESCRIBE, (0, 1), lambda world, name, version: ConsumerGroupDescribeRequest([name])
    ),
    "describe shares": (
        K.SHARE_GROUP_DESCRIBE, (1, 1), lambda world, name, version: ShareGroupDescribeRequest([name])
    ),
    "describe streams": (
        K.STREAMS_GROUP_DESCRIBE, (0, 0), lambda world, name, version: StreamsGroupDescribeRequest([name])
    ),
    "consumer joins": (K.CONSUMER_GROUP_HEARTBEAT, (0, 1), groups.consumer_joining),
    "share joins": (K.SHARE_GROUP_HEARTBEAT, (1, 1), shares.joining),
    "streams joins": (K.STREAMS_GROUP_HEARTBEAT, (0, 0), _streams_joins),
    **{
        f"{kind} {what}": (api, versions, _heartbeat(ask, epoch))
        for kind, api, versions, ask in (
            ("consumer", K.CONSUMER_GROUP_HEARTBEAT, (0, 1), ConsumerGroupHeartbeatRequest),
            ("share", K.SHARE_GROUP_HEARTBEAT, (1, 1), ShareGroupHeartbeatRequest),
            ("streams", K.STREAMS_GROUP_HEARTBEAT, (0, 0), StreamsGroupHeartbeatRequest),
        )
        for what, epoch in (("goes on", 1), ("leaves", -1), ("leaves for a while", -2))
    },
    "share offsets": (
        K.DESCRIBE_SHARE_GROUP_OFFSETS, (0, 1), lambda world, name, version: shares.offsets_of(world, name)[2]
    ),
    "delete share offsets": (
        K.DELETE_SHARE_GROUP_OFFSETS, (0, 0),
        lambda world, name, version: DeleteShareGroupOffsetsRequest(
            name, [DeleteShareGroupOffsetsRequestTopic(TOPIC)]
        ),
    ),
}  # fmt: skip


def answers(world: World, every: bool = False) -> Lines:
    """Each request in one of its versions, or in `every` one; then the kind and state of the
    group."""
    lines: Lines = []
    ends = time.monotonic() + (KINDS_S if not every else 3600)
    for number, kind in enumerate(KINDS):
        for turn, (label, (api, (first, last), make)) in enumerate(REQUESTS.items()):
            versions = range(first, last + 1) if every else [first + (number + turn) % (last - first + 1)]
            for version in versions if time.monotonic() < ends else ():
                name = f"kind-{number}-{turn}-{version}"
                KINDS[kind](world, name)
                lines.append(
                    (
                        f"{kind}: {label} v{version}",
                        world.heard(api, version, make(world, name, version)),
                    )
                )
                if (kind, label) == ("absent", "join"):
                    eventually(partial(_is_listed, world, name))  # Kafka stores it after its answer
                lines.append((f"{kind}: {label} v{version}, then", _listed(world, name)))
        if time.monotonic() < ends:
            lines.append((f"{kind}: in a transaction", _in_a_transaction(world, kind, f"kind-{number}")))
    return lines


def _in_a_transaction(world: World, kind: str, name: str) -> object:
    """Offsets that a transaction commits to the group."""
    KINDS[kind](world, f"{name}-g")
    request = txn_offsets(world, name, 5)
    return world.heard(K.TXN_OFFSET_COMMIT, 5, request)


def _listed(world: World, name: str) -> list[tuple[str, ...]]:
    answer = world.ask(K.LIST_GROUPS, 5, ListGroupsRequest())
    return [
        (one.group_state, one.group_type, one.protocol_type) for one in answer.groups if one.group_id == name
    ]


def _is_listed(world: World, name: str) -> bool:
    return bool(_listed(world, name))


FILTERS: tuple[tuple[list[str], list[str]], ...] = (
    ([], []), (["Stable"], []), (["stable", "EMPTY"], []), (["nope"], []), ([""], []), ([], ["classic"]),
    ([], ["Consumer"]),
    ([], ["SHARE", "streams"]), ([], ["unknown"]), ([], ["nope"]), ([], [""]), (["Empty"], ["consumer", "classic"]),
    (["Assigning"], []), (["Reconciling"], []), (["PreparingRebalance", "CompletingRebalance"], []), (["Dead"], []),
    (["NotReady"], ["streams"]), (["completing_rebalance"], []), (["Unknown"], []),
)  # fmt: skip


def listings(world: World) -> Lines:
    """ListGroups with every filter, of groups of every kind."""
    patient = {"joined": lambda world, name: groups.joined(world, name, False, 60_000)}
    for kind, make in {**KINDS, **patient}.items():
        make(world, f"listed-{kind}")
    lines: Lines = []
    for states, types in FILTERS:
        for version in (*([] if states or types else range(4)), *([] if types else [4]), 5):
            answer = world.ask(K.LIST_GROUPS, version, ListGroupsRequest(states, types))
            mine = [one for one in answer.groups if one.group_id.startswith("listed-")]
            lines.append(
                (f"v{version} {states} {types}", [answer.error_code, *map(shown, sorted(mine, key=_id))])
            )
    return lines


def _id(group: object) -> str:
    return str(getattr(group, "group_id", ""))
