"""JoinGroup: what Apache Kafka's GroupMetadataManager answers, case by case."""

import pytest

from kbroker.control.coordinator.machine import Deferred
from kbroker.control.groups import table
from kbroker.control.groups.join import MAX_PROTOCOLS
from kbroker.control.groups.settings import GroupSettings
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.leave_group import MemberIdentity
from tests.control.groups.coordinator import Coordinator, answer


def test_a_dynamic_member_gets_its_id_and_must_come_back_with_it() -> None:
    kafka = Coordinator()
    response = kafka.join(client_id="me")
    assert response.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert response.member_id.startswith("me-")
    assert not kafka.send_join(response.member_id).done


@pytest.mark.parametrize("bound", ["MAX_PENDING", "MAX_PENDING_CHARACTERS"])
def test_of_very_many_pending_members_the_oldest_are_forgotten(
    monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    """A client that asked for one id after the other, each with 32 kB of its own id, filled the
    memory."""
    monkeypatch.setattr(table, bound, 10 if bound == "MAX_PENDING" else 10_000)
    kafka = Coordinator()
    ids = [kafka.join(client_id="c" * 1000).member_id for _ in range(30)]
    group = kafka.shard.table.classic("g")
    assert group is not None
    assert 5 < len(group.pending_join) <= 10
    assert kafka.join(ids[0]).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert not kafka.send_join(ids[-1]).done
    more = [kafka.join(client_id="d" * 1000).member_id for _ in range(30)]  # the join phase continues
    kafka.advance(1)
    assert len(group.pending_join) <= 10
    assert not kafka.send_join(more[-1]).done


def test_the_metadata_of_all_members_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member of one group after the other, each with a megabyte, filled the memory."""
    monkeypatch.setattr(table, "MAX_LARGE_BYTES", 100_000)
    kafka = Coordinator()
    large = (("range", bytes(30_000)),)

    def joined(group: str) -> bool:
        return not kafka.send_join(version=3, group=group, protocols=large).done

    assert [joined(f"g{number}") for number in range(5)] == [True, True, True, False, False]
    refused = kafka.join(version=3, group="g5", protocols=large)
    assert refused.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert kafka.shard.table.classic("g5") is None
    assert not kafka.send_join(version=3, group="small").done
    kafka.advance(3000)
    for name in ("g0", "g1"):
        group = kafka.shard.table.classic(name)
        assert group is not None
        (member_id,) = group.members
        again = kafka.join(member_id, version=3, group=name, protocols=large)
        assert again.error_code == ErrorCode.NONE  # it has its place
        kafka.leave(MemberIdentity(member_id), group=name)
    kafka.advance(1000)
    assert [joined(f"h{number}") for number in range(3)] == [True, True, False]


def test_before_v4_a_member_joins_in_one_request() -> None:
    kafka = Coordinator()
    joining = kafka.send_join(version=3)
    kafka.advance(3000)
    response = answer(joining)
    assert response.error_code == ErrorCode.NONE
    assert response.leader == response.member_id
    assert response.generation_id == 1
    assert [member.metadata for member in response.members] == [b"meta"]


def test_a_new_group_is_written_down_at_once() -> None:
    kafka = Coordinator()
    kafka.new_member_id()
    assert len(kafka.log) == 1
    assert kafka.restarted().state() == "Empty"


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"group": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"session_timeout_ms": 5999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_requests_that_are_refused(fields: dict[str, object], code: ErrorCode) -> None:
    response = Coordinator().join(**fields)
    assert response.error_code == code
    assert response.member_id == fields.get("member_id", "")


def test_a_member_has_a_bounded_number_of_protocols() -> None:
    """Nothing of a member with more of them is kept."""
    kafka = Coordinator()
    many = tuple((f"p{number}", b"") for number in range(MAX_PROTOCOLS + 1))
    assert kafka.join(protocols=many).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert not kafka.log
    assert kafka.join(protocols=many[1:]).error_code == ErrorCode.MEMBER_ID_REQUIRED


@pytest.mark.parametrize("fields", [{"protocol_type": "connect"}, {"protocols": (("other", b""),)}])
def test_a_member_must_fit_the_group(fields: dict[str, object]) -> None:
    kafka = Coordinator()
    kafka.stable_group()
    assert kafka.join(**fields).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_the_initial_rebalance_waits_while_members_keep_coming() -> None:
    kafka = Coordinator()
    first = kafka.send_join(kafka.new_member_id())
    kafka.advance(2000)
    second = kafka.send_join(kafka.new_member_id())
    kafka.advance(1000)
    assert not first.done
    kafka.advance(2999)
    assert not first.done
    kafka.advance(1)
    assert answer(first).generation_id == answer(second).generation_id == 1
    assert {answer(first).leader} == {answer(second).leader}


def test_the_initial_rebalance_ends_with_the_rebalance_timeout() -> None:
    kafka = Coordinator()
    first = kafka.send_join(kafka.new_member_id(), rebalance_timeout_ms=5000)
    for _ in range(5):
        kafka.advance(999)
        kafka.send_join(kafka.new_member_id(), rebalance_timeout_ms=5000)
    kafka.advance(5)
    assert answer(first).generation_id == 1


def test_only_the_leader_sees_the_members() -> None:
    kafka = Coordinator()
    members = [kafka.send_join(kafka.new_member_id()) for _ in range(3)]
    kafka.advance(6000)
    seen = {answer(member).member_id: len(answer(member).members) for member in members}
    leader = answer(members[0]).leader
    assert seen == {member_id: 3 if member_id == leader else 0 for member_id in seen}


def test_the_protocol_that_most_prefer_of_those_all_support_is_chosen() -> None:
    kafka = Coordinator()
    specs = [("a", "b", "c"), ("b", "a"), ("b", "a")]
    joins = [
        kafka.send_join(kafka.new_member_id(protocols=pairs), protocols=pairs)
        for pairs in (tuple((name, b"") for name in names) for names in specs)
    ]
    kafka.advance(6000)
    assert {answer(join).protocol_name for join in joins} == {"b"}


def test_a_new_member_makes_the_others_rejoin_and_the_last_one_ends_the_wait() -> None:
    kafka = Coordinator()
    (old,), generation = kafka.stable_group()
    joining = kafka.send_join(kafka.new_member_id())
    assert kafka.state() == "PreparingRebalance"
    assert kafka.heartbeat(old, generation) == ErrorCode.REBALANCE_IN_PROGRESS
    again = kafka.send_join(old)
    assert answer(again).generation_id == answer(joining).generation_id == generation + 1


def test_a_member_that_does_not_rejoin_in_time_is_removed() -> None:
    kafka = Coordinator()
    (old,), generation = kafka.stable_group(rebalance_timeout_ms=8000, session_timeout_ms=30_000)
    joining = kafka.send_join(kafka.new_member_id(), rebalance_timeout_ms=8000)
    kafka.advance(7999)
    assert not joining.done
    kafka.advance(1)
    response = answer(joining)
    assert response.generation_id == generation + 1
    assert [member.member_id for member in response.members] == [response.member_id]
    assert kafka.heartbeat(old, generation) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_pending_member_that_never_comes_holds_the_join_phase_no_longer_than_its_session() -> None:
    kafka = Coordinator()
    (old,), _ = kafka.stable_group(session_timeout_ms=30_000)
    kafka.new_member_id(session_timeout_ms=6000)
    joining = kafka.send_join(kafka.new_member_id())
    again = kafka.send_join(old)
    assert not joining.done
    kafka.advance(6000)
    assert joining.done
    assert again.done


def test_rejoining_without_change_is_answered_from_the_current_generation() -> None:
    kafka = Coordinator()
    members, generation = kafka.stable_group(2)
    follower = members[1]
    response = kafka.join(follower)
    assert (response.generation_id, response.error_code) == (generation, ErrorCode.NONE)
    assert response.members == []
    assert kafka.state() == "Stable"


def test_a_leader_that_rejoins_or_a_changed_member_starts_a_rebalance() -> None:
    for index, protocols in ((0, (("range", b"meta"),)), (1, (("range", b"new topics"),))):
        kafka = Coordinator()
        members, _ = kafka.stable_group(2)
        assert not kafka.send_join(members[index], protocols=protocols).done
        assert kafka.state() == "PreparingRebalance"


def test_a_repeated_join_gets_the_answer_of_the_generation_again() -> None:
    """The first answer was lost: the group waits for the leader's SyncGroup meanwhile."""
    kafka = Coordinator()
    member_id = kafka.new_member_id()
    first = kafka.send_join(member_id)
    kafka.advance(3000)
    assert kafka.join(member_id) == answer(first)


def test_group_max_size_turns_the_next_member_away() -> None:
    kafka = Coordinator(GroupSettings(max_size=2))
    members, generation = kafka.stable_group(2)
    response = kafka.join()
    assert response.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert kafka.heartbeat(members[0], generation) == ErrorCode.NONE


def test_group_max_size_counts_members_that_join_during_a_rebalance() -> None:
    kafka = Coordinator(GroupSettings(max_size=1))
    ids = [kafka.new_member_id(), kafka.new_member_id()]
    first = kafka.send_join(ids[0])
    assert answer(kafka.send_join(ids[1])).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert not first.done


def test_group_max_size_leaves_room_for_members_that_have_not_rejoined() -> None:
    kafka = Coordinator(GroupSettings(max_size=2))
    (one, two), generation = kafka.stable_group(2, session_timeout_ms=30_000)
    first = kafka.send_join(one, protocols=(("range", b"new topics"),))
    assert kafka.join().error_code == ErrorCode.MEMBER_ID_REQUIRED
    kafka.advance(10_000)  # the new member never comes
    second = kafka.send_join(two)
    assert answer(first).generation_id == answer(second).generation_id == generation + 1


def test_a_changed_member_starts_a_rebalance_before_the_assignment_is_there() -> None:
    kafka = Coordinator()
    member_id = kafka.new_member_id()
    first = kafka.send_join(member_id)
    kafka.advance(3000)
    again = kafka.join(member_id, protocols=(("range", b"new topics"),))
    assert again.generation_id == answer(first).generation_id + 1
    assert [member.metadata for member in again.members] == [b"new topics"]


def test_a_member_that_sends_its_join_twice_counts_once() -> None:
    kafka = Coordinator()
    (one, two), generation = kafka.stable_group(2)
    kafka.send_join(one, protocols=(("range", b"new topics"),))
    again = kafka.send_join(one, protocols=(("range", b"new topics"),))
    assert not again.done
    other = kafka.send_join(two)
    assert answer(again).generation_id == answer(other).generation_id == generation + 1


def test_the_join_phase_waits_for_the_longest_rebalance_timeout() -> None:
    kafka = Coordinator()
    for timeout_ms in (8000, 20_000):
        kafka.send_join(kafka.new_member_id(), rebalance_timeout_ms=timeout_ms, session_timeout_ms=30_000)
    kafka.advance(6000)
    joining = kafka.send_join(kafka.new_member_id(), rebalance_timeout_ms=8000)
    kafka.advance(19_999)
    assert not joining.done
    kafka.advance(1)
    assert joining.done


def test_a_member_must_support_a_protocol_of_all_others() -> None:
    kafka = Coordinator()
    for protocols in ((("a", b""), ("b", b"")), (("a", b""),)):
        kafka.send_join(kafka.new_member_id(protocols=protocols), protocols=protocols)
    kafka.advance(6000)
    assert kafka.join(protocols=(("b", b""),)).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert kafka.join(protocols=(("b", b""), ("a", b""))).error_code == ErrorCode.MEMBER_ID_REQUIRED


def test_a_new_member_that_waits_for_too_long_is_removed_and_answered() -> None:
    kafka = Coordinator()
    kafka.stable_group(rebalance_timeout_ms=600_000, session_timeout_ms=600_000)
    joining = kafka.send_join(kafka.new_member_id(), rebalance_timeout_ms=600_000)
    kafka.advance(kafka.settings.new_member_join_timeout_ms - 1)
    assert not joining.done
    kafka.advance(1)
    assert answer(joining).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_join_is_refused_when_the_new_group_cannot_be_written() -> None:
    kafka = Coordinator()
    kafka.append_error = ErrorCode.KAFKA_STORAGE_ERROR
    joining = kafka.send_join(version=3)
    assert answer(joining).error_code == ErrorCode.NOT_COORDINATOR


def test_a_member_that_leaves_ends_the_wait_of_the_others() -> None:
    kafka = Coordinator()
    (old,), _ = kafka.stable_group()
    joining = kafka.send_join(kafka.new_member_id())
    kafka.leave(MemberIdentity(old))
    assert answer(joining).error_code == ErrorCode.NONE


def test_no_answer_is_given_twice() -> None:
    deferred = Deferred()
    assert deferred.complete(1)
    assert not deferred.complete(2)
    assert answer(deferred) == 1
