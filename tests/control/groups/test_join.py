"""JoinGroup: what Apache Kafka's GroupMetadataManager answers, case by case."""

import pytest

from kbroker.control.coordinator.machine import Deferred
from kbroker.control.groups.join import MAX_PROTOCOLS
from kbroker.control.groups.rebalance import MIN_ROUND_MS, heartbeat_timer
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


class TestStaticMembers:
    def test_a_static_member_joins_in_one_request(self) -> None:
        kafka = Coordinator()
        joining = kafka.send_join(instance="i1")
        kafka.advance(3000)
        assert answer(joining).member_id.startswith("i1-")

    def test_it_takes_its_place_again_without_a_rebalance(self) -> None:
        kafka = Coordinator()
        (dynamic, static), generation = kafka.stable_group(1, ("i1",))
        response = kafka.join(instance="i1")
        assert (response.error_code, response.generation_id) == (ErrorCode.NONE, generation)
        assert response.member_id != static
        assert not response.skip_assignment  # the dynamic member leads
        assert kafka.state() == "Stable"
        assert kafka.sync(response.member_id, generation, instance="i1").assignment == static.encode()
        assert kafka.heartbeat(dynamic, generation) == ErrorCode.NONE

    def test_the_session_of_its_old_id_is_over(self) -> None:
        kafka = Coordinator()
        (old,), _ = kafka.stable_group(0, ("i1",))
        new = kafka.join(instance="i1").member_id
        assert heartbeat_timer("g", old) not in kafka.timers
        assert heartbeat_timer("g", new) in kafka.timers

    def test_it_keeps_its_session_timeout_when_it_returns(self) -> None:
        kafka = Coordinator()
        kafka.stable_group(0, ("i1",), session_timeout_ms=10_000, rebalance_timeout_ms=60_000)
        kafka.join(instance="i1")
        kafka.advance(9999)
        assert kafka.state() == "Stable"
        kafka.advance(1)
        assert kafka.state() == "Empty"

    def test_the_one_before_is_fenced(self) -> None:
        kafka = Coordinator()
        (old,), generation = kafka.stable_group(0, ("i1",))
        kafka.join(instance="i1")
        assert kafka.heartbeat(old, generation, instance="i1") == ErrorCode.FENCED_INSTANCE_ID
        assert kafka.sync(old, generation, instance="i1").error_code == ErrorCode.FENCED_INSTANCE_ID
        assert kafka.join(old, instance="i1").error_code == ErrorCode.FENCED_INSTANCE_ID
        commit = kafka.commit(member_id=old, generation=generation, instance="i1")
        assert commit == ErrorCode.FENCED_INSTANCE_ID

    @pytest.mark.parametrize(("version", "skip", "members"), [(9, True, 1), (8, False, 0)])
    def test_a_returning_leader_skips_the_assignment(self, version: int, skip: bool, members: int) -> None:
        kafka = Coordinator()
        (old,), _ = kafka.stable_group(0, ("i1",))
        response = kafka.join(instance="i1", version=version)
        assert response.skip_assignment == skip
        assert len(response.members) == members
        assert response.leader == (response.member_id if skip else old)

    def test_its_new_id_survives_a_restart(self) -> None:
        kafka = Coordinator()
        _, generation = kafka.stable_group(0, ("i1",))
        new = kafka.join(instance="i1").member_id
        assert kafka.restarted().heartbeat(new, generation, instance="i1") == ErrorCode.NONE

    def test_its_old_id_holds_when_the_new_one_could_not_be_written(self) -> None:
        kafka = Coordinator()
        (old,), generation = kafka.stable_group(0, ("i1",))
        kafka.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
        response = kafka.join(instance="i1")
        assert response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert kafka.heartbeat(old, generation, instance="i1") == ErrorCode.NONE

    def test_other_protocols_than_the_chosen_one_start_a_rebalance(self) -> None:
        kafka = Coordinator()
        protocols = (("range", b""), ("sticky", b""))
        _, generation = kafka.stable_group(0, ("i1",), protocols=protocols)
        response = kafka.join(instance="i1", protocols=protocols[::-1])
        assert (response.generation_id, response.protocol_name) == (generation + 1, "sticky")

    def test_while_the_group_waits_for_the_assignment_a_rebalance_starts_over(self) -> None:
        kafka = Coordinator()
        first, second = kafka.send_join(instance="i1"), kafka.send_join(instance="i2")
        kafka.advance(6000)
        follower = next(each for each in (first, second) if not answer(each).members)
        waiting = kafka.send_sync(answer(follower).member_id, 1, instance="i1" if follower is first else "i2")
        kafka.send_join(instance="i2" if follower is first else "i1")
        assert answer(waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        assert kafka.state() == "PreparingRebalance"

    def test_a_join_that_still_waits_is_fenced_by_the_next(self) -> None:
        kafka = Coordinator()
        first = kafka.send_join(instance="i1")
        second = kafka.send_join(instance="i1")
        assert answer(first).error_code == ErrorCode.FENCED_INSTANCE_ID
        kafka.advance(3000)
        assert answer(second).error_code == ErrorCode.NONE

    def test_it_stays_when_it_does_not_rejoin_in_time(self) -> None:
        kafka = Coordinator()
        (static,), _ = kafka.stable_group(0, ("i1",), session_timeout_ms=300_000)
        joining = kafka.send_join(kafka.new_member_id(session_timeout_ms=300_000), session_timeout_ms=300_000)
        kafka.advance(60_000)
        assert static in {member.member_id for member in answer(joining).members}

    @pytest.mark.parametrize("timeout_ms", [0, -1, -(1 << 31)])
    def test_without_a_rebalance_timeout_it_is_not_waited_for_without_a_pause(self, timeout_ms: int) -> None:
        kafka = Coordinator()
        (first, second), _ = kafka.stable_group(0, ("i1", "i2"), session_timeout_ms=300_000)
        group = kafka.shard.table.classic("g")
        assert group is not None
        for member in group.members.values():
            member.rebalance_timeout_ms = timeout_ms
        kafka.leave(MemberIdentity(first, "i1"))
        over = kafka.timers["join-g"]
        assert over.expiry_ms <= kafka.now_ms
        kafka.cancel("join-g")
        kafka.run(over.operation(kafka.now_ms))  # the join phase ends at once, and nobody has come back
        assert kafka.state() == "PreparingRebalance"
        assert kafka.timers["join-g"].expiry_ms == kafka.now_ms + MIN_ROUND_MS
        kafka.advance(60_000)
        joining = kafka.send_join(
            second, instance="i2", session_timeout_ms=300_000, rebalance_timeout_ms=timeout_ms
        )
        assert answer(joining).error_code == ErrorCode.NONE
        kafka.leave(MemberIdentity(second, "i2"))
        kafka.advance(300_000)
        assert kafka.state() == "Empty"
        assert "join-g" not in kafka.timers

    def test_an_unknown_instance_id_with_a_member_id_is_unknown(self) -> None:
        kafka = Coordinator()
        (member,), _ = kafka.stable_group()
        assert kafka.join(member, instance="i9").error_code == ErrorCode.UNKNOWN_MEMBER_ID


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
