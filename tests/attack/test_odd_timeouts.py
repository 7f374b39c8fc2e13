"""JoinGroup with timeouts of odd values: refused or served as by Apache Kafka, and the group
continues."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from kbroker.protocol.messages.heartbeat import HeartbeatRequest
from kbroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kbroker.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kbroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.attack.peers import Target, target
from tests.conftest import BrokerFactory
from tests.peer.apache_kafka import ApacheKafka
from tests.peer.eventually import eventually

SESSION_MS = 300_000
INT_MAX = (1 << 31) - 1
INT_MIN = -(1 << 31)


def join(peer: Target, group: str, instance: str, session_ms: int, rebalance_ms: int, **fields: Any) -> Any:
    protocols = [JoinGroupRequestProtocol("range", b"")]
    request = JoinGroupRequest(
        group, session_ms, rebalance_ms, fields.get("member", ""), instance, "consumer", protocols
    )
    return peer.ask(ApiKey.JOIN_GROUP, fields.get("version", 9), request)


def sync(peer: Target, group: str, instance: str, joined: Any) -> int:
    shares = [SyncGroupRequestAssignment(each.member_id, b"share") for each in joined.members]
    request = SyncGroupRequest(
        group, joined.generation_id, joined.member_id, instance, "consumer", "range", shares
    )
    return int(peer.ask(ApiKey.SYNC_GROUP, 5, request).error_code)


def heartbeat(peer: Target, group: str, instance: str | None, joined: Any) -> int:
    request = HeartbeatRequest(group, joined.generation_id, joined.member_id, instance)
    return int(peer.ask(ApiKey.HEARTBEAT, 4, request).error_code)


def find(peer: Target, group: str) -> None:
    """Waits for the group's coordinator."""

    def found() -> bool:
        request = FindCoordinatorRequest(coordinator_keys=[group])
        answer = peer.ask(ApiKey.FIND_COORDINATOR, 4, request)
        return bool(answer.coordinators[0].error_code == ErrorCode.NONE) and (
            heartbeat(peer, group, None, JoinGroupResponse(generation_id=1, member_id="nobody"))
            == ErrorCode.UNKNOWN_MEMBER_ID
        )

    eventually(found)


def abandoned(peer: Target, group: str, rebalance_ms: int) -> Any:
    """A static member with this rebalance timeout that the other one has left in a rebalance: its
    JoinGroup answer."""
    find(peer, group)
    first = join(peer, group, "i1", SESSION_MS, SESSION_MS)
    assert sync(peer, group, "i1", first) == ErrorCode.NONE
    with ThreadPoolExecutor(1) as pool:
        joining = pool.submit(join, peer, group, "i2", SESSION_MS, rebalance_ms)
        eventually(lambda: heartbeat(peer, group, "i1", first) == ErrorCode.REBALANCE_IN_PROGRESS)
        first = join(peer, group, "i1", SESSION_MS, SESSION_MS, member=first.member_id)
        second = joining.result()
    assert sync(peer, group, "i1", first) == sync(peer, group, "i2", second) == ErrorCode.NONE
    leave = LeaveGroupRequest(group, "", [MemberIdentity(first.member_id, "i1")])
    assert peer.ask(ApiKey.LEAVE_GROUP, 5, leave).error_code == ErrorCode.NONE
    return second


def story(peer: Target, prefix: str) -> list[Any]:
    """What a broker answers to odd timeouts."""
    seen: list[Any] = []
    for session_ms in (0, -1, INT_MAX, INT_MIN, 5999, 1_800_001):
        group = f"{prefix}-session{session_ms}"
        find(peer, group)
        for version in (5, 9):
            answer = join(peer, group, "i1", session_ms, 1000, version=version)
            seen.append((session_ms, version, answer.error_code))
    for rebalance_ms in (0, -1, INT_MIN):
        group = f"{prefix}-rebalance{rebalance_ms}"
        left = abandoned(peer, group, rebalance_ms)
        seen.append((rebalance_ms, heartbeat(peer, group, "i2", left)))
        again = join(peer, group, "i2", SESSION_MS, rebalance_ms, member=left.member_id)
        seen += [again.error_code, again.generation_id, len(again.members)]
    group = f"{prefix}-longest"
    find(peer, group)
    only = join(peer, group, "i1", SESSION_MS, INT_MAX)
    seen += [only.error_code, sync(peer, group, "i1", only), heartbeat(peer, group, "i1", only)]
    return seen


NO_DELAY = {"group.initial.rebalance.delay.ms": "0"}


def test_odd_timeouts_are_refused_or_served(broker_factory: BrokerFactory) -> None:
    seen = story(target(broker_factory(NO_DELAY)), "odd")
    assert seen[:12] == [
        (ms, version, ErrorCode.INVALID_SESSION_TIMEOUT)
        for ms in (0, -1, INT_MAX, INT_MIN, 5999, 1_800_001)
        for version in (5, 9)
    ]
    rebalanced = [((ms, ErrorCode.REBALANCE_IN_PROGRESS), 0, 3, 1) for ms in (0, -1, INT_MIN)]
    assert seen[12:] == [each for one in rebalanced for each in one] + [0, 0, 0]


@pytest.mark.kafka
def test_odd_timeouts_are_answered_as_by_apache_kafka(
    broker_factory: BrokerFactory, fresh_kafka: ApacheKafka
) -> None:
    assert story(target(broker_factory(NO_DELAY)), "odd") == story(Target(fresh_kafka.port), "odd")
