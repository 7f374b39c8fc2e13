"""SyncGroup, Heartbeat and LeaveGroup of classic groups, and what restarts and failed appends do to
them."""

import logging
from typing import Any

import pytest

from kbroker.control.groups.rebalance import NAMED, heartbeat_timer
from kbroker.control.groups.settings import GroupSettings
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kbroker.protocol.messages.leave_group import MemberIdentity
from kbroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.control.groups.coordinator import PARTITION, Coordinator, answer


def joined(kafka: Coordinator, size: int = 2) -> tuple[list[str], int, str]:
    """A generation that waits for its leader's assignment: (member ids, generation, leader)."""
    joins = [kafka.send_join(kafka.new_member_id()) for _ in range(size)]
    kafka.advance(6000)
    responses = [answer(join) for join in joins]
    return [each.member_id for each in responses], responses[0].generation_id, responses[0].leader


def sync_request(member_id: str, generation: int, assignment: bytes) -> SyncGroupRequest:
    """A leader's, with an assignment for itself."""
    return SyncGroupRequest(
        group_id="g",
        generation_id=generation,
        member_id=member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[SyncGroupRequestAssignment(member_id, assignment)],
    )


class TestSync:
    def test_a_log_line_names_few_of_very_many_silent_members(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO)
        kafka = Coordinator()
        fields: dict[str, Any] = {"client_id": "x" * 5000, "session_timeout_ms": 600_000}
        for _ in range(50):
            kafka.send_join(kafka.new_member_id(**fields), **fields)
        kafka.advance(6000)
        kafka.advance(61_000)
        (line,) = [each.getMessage() for each in caplog.records if "no SyncGroup" in each.getMessage()]
        assert line.endswith(f" and {50 - NAMED} more)")
        assert len(line) < 6000 * NAMED

    def test_followers_wait_for_the_leaders_assignment(self) -> None:
        kafka = Coordinator()
        members, generation, leader = joined(kafka)
        follower = next(member for member in members if member != leader)
        waiting = kafka.send_sync(follower, generation)
        assert not waiting.done
        assert kafka.state() == "CompletingRebalance"
        response = kafka.sync(leader, generation, assignment={leader: b"1", follower: b"2"})
        assert response.assignment == b"1"
        assert answer(waiting).assignment == b"2"
        assert (response.protocol_type, response.protocol_name) == ("consumer", "range")
        assert kafka.state() == "Stable"

    def test_whom_the_leader_forgets_gets_an_empty_assignment(self) -> None:
        kafka = Coordinator()
        members, generation, leader = joined(kafka)
        kafka.sync(leader, generation, assignment={leader: b"1"})
        others = [member for member in members if member != leader]
        assert others
        for member in others:
            assert kafka.sync(member, generation).assignment == b""

    def test_the_record_of_a_living_group_is_not_read_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        kafka = Coordinator()
        members, generation = kafka.stable_group(2)
        record = kafka.log[-1]
        monkeypatch.setattr("kbroker.control.groups.group_replay.decode_value", None)
        kafka.shard.replay(PARTITION, record.key, record.value, kafka.now_ms)
        assert kafka.state() == "Stable"
        assert kafka.heartbeat(members[0], generation) is ErrorCode.NONE

    @pytest.mark.parametrize(
        ("fields", "code"),
        [
            ({"group": ""}, ErrorCode.INVALID_GROUP_ID),
            ({"group": "other"}, ErrorCode.UNKNOWN_MEMBER_ID),
            ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
            ({"generation": 7}, ErrorCode.ILLEGAL_GENERATION),
            ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
            ({"protocol_name": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
            ({"instance": "i1"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ],
    )
    def test_requests_that_are_refused(self, fields: dict[str, object], code: ErrorCode) -> None:
        kafka = Coordinator()
        (member,), generation = kafka.stable_group()
        given = {"member_id": member, "generation": generation} | fields
        assert kafka.sync(**given).error_code == code

    def test_during_the_join_phase_members_must_join_first(self) -> None:
        kafka = Coordinator()
        (old,), generation = kafka.stable_group()
        kafka.send_join(kafka.new_member_id())
        assert kafka.sync(old, generation).error_code == ErrorCode.REBALANCE_IN_PROGRESS

    def test_in_the_first_join_phase_no_protocol_is_chosen_that_a_request_could_contradict(self) -> None:
        kafka = Coordinator()
        member = kafka.new_member_id()
        kafka.send_join(member)
        assert kafka.sync(member, 0).error_code == ErrorCode.REBALANCE_IN_PROGRESS

    @pytest.mark.parametrize("missing", ["protocol_type", "protocol_name"])
    def test_a_request_need_not_name_the_protocol(self, missing: str) -> None:
        kafka = Coordinator()
        (member,), generation = kafka.stable_group()
        assert kafka.sync(member, generation, **{missing: None}).assignment == member.encode()

    def test_a_member_that_syncs_when_the_group_is_stable_already_is_no_longer_waited_for(self) -> None:
        kafka = Coordinator()
        fields = {"session_timeout_ms": 200_000}
        joins = [kafka.send_join(kafka.new_member_id(**fields), **fields) for _ in range(2)]
        kafka.advance(6000)
        generation, leader = answer(joins[0]).generation_id, answer(joins[0]).leader
        follower = next(answer(each).member_id for each in joins if answer(each).member_id != leader)
        kafka.sync(leader, generation, assignment={leader: b"1", follower: b"2"})
        assert kafka.state() == "Stable"
        assert kafka.sync(follower, generation).assignment == b"2"
        kafka.advance(60_000)
        assert kafka.heartbeat(leader, generation) == ErrorCode.NONE
        assert kafka.heartbeat(follower, generation) == ErrorCode.NONE

    def test_a_rebalance_answers_waiting_members(self) -> None:
        kafka = Coordinator()
        members, generation, leader = joined(kafka)
        follower = next(member for member in members if member != leader)
        waiting = kafka.send_sync(follower, generation)
        kafka.send_join(kafka.new_member_id())
        assert answer(waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS

    def test_a_member_that_never_syncs_is_removed_after_the_rebalance_timeout(self) -> None:
        kafka = Coordinator()
        fields = {"session_timeout_ms": 200_000}
        joins = [kafka.send_join(kafka.new_member_id(**fields), **fields) for _ in range(2)]
        kafka.advance(6000)
        generation, leader = answer(joins[0]).generation_id, answer(joins[0]).leader
        follower = next(answer(each).member_id for each in joins if answer(each).member_id != leader)
        kafka.sync(leader, generation, assignment={leader: b"1"})
        kafka.advance(60_000)
        assert kafka.heartbeat(follower, generation) == ErrorCode.UNKNOWN_MEMBER_ID
        assert kafka.heartbeat(leader, generation) == ErrorCode.REBALANCE_IN_PROGRESS

    def test_an_assignment_that_cannot_be_stored_starts_a_rebalance(self) -> None:
        kafka = Coordinator()
        (member,), generation, _ = joined(kafka, 1)
        kafka.append_error = ErrorCode.REQUEST_TIMED_OUT
        response = kafka.sync(member, generation, assignment={member: b"1"})
        assert response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert kafka.state() == "PreparingRebalance"

    def test_an_assignment_that_is_stored_too_late_goes_to_no_later_generation(self) -> None:
        """While the leader's assignment is on its way to the log, the group has had another
        rebalance."""
        kafka = Coordinator()
        (first,), generation, _ = joined(kafka, 1)
        late = kafka.shard.sync(sync_request(first, generation, b"old"), kafka.now_ms)
        joins = [kafka.send_join(kafka.new_member_id()), kafka.send_join(first)]
        second = answer(joins[0])
        assert second.generation_id == generation + 1
        waiting = kafka.send_sync(second.member_id, second.generation_id)
        kafka.run(late)
        assert not waiting.done
        assert kafka.state() == "CompletingRebalance"
        leader = second.leader
        new = {first: b"new", second.member_id: b"new"}
        assert kafka.sync(leader, second.generation_id, assignment=new).assignment == b"new"

    @pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT])
    def test_an_assignment_that_is_stored_during_the_next_join_phase_changes_nothing(
        self, error: ErrorCode
    ) -> None:
        kafka = Coordinator()
        (first,), generation, _ = joined(kafka, 1)
        late = kafka.shard.sync(sync_request(first, generation, b"old"), kafka.now_ms)
        kafka.send_join(kafka.new_member_id())
        assert late.response is not None
        assert answer(late.response).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        kafka.append_error = error
        kafka.run(late)
        assert kafka.state() == "PreparingRebalance"
        assert kafka.heartbeat(first, generation) == ErrorCode.REBALANCE_IN_PROGRESS


class TestHeartbeat:
    @pytest.mark.parametrize(
        ("fields", "code"),
        [
            ({}, ErrorCode.NONE),
            ({"group": ""}, ErrorCode.INVALID_GROUP_ID),
            ({"group": "other"}, ErrorCode.UNKNOWN_MEMBER_ID),
            ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
            ({"generation": 7}, ErrorCode.ILLEGAL_GENERATION),
        ],
    )
    def test_a_heartbeat_has_kafkas_error(self, fields: dict[str, object], code: ErrorCode) -> None:
        kafka = Coordinator()
        (member,), generation = kafka.stable_group()
        given = {"member_id": member, "generation": generation} | fields
        assert kafka.heartbeat(**given) == code

    def test_a_member_that_awaits_the_assignment_gets_no_rebalance_error(self) -> None:
        kafka = Coordinator()
        joining = kafka.send_join(kafka.new_member_id())
        kafka.advance(3000)
        member = answer(joining)
        assert kafka.state() == "CompletingRebalance"
        assert kafka.heartbeat(member.member_id, member.generation_id) == ErrorCode.NONE

    def test_silence_ends_the_session(self) -> None:
        kafka = Coordinator()
        members, generation = kafka.stable_group(2, session_timeout_ms=10_000)
        for _ in range(4):
            kafka.advance(5000)
            kafka.heartbeat(members[0], generation)
        assert kafka.heartbeat(members[1], generation) == ErrorCode.UNKNOWN_MEMBER_ID
        assert kafka.heartbeat(members[0], generation) == ErrorCode.REBALANCE_IN_PROGRESS

    def test_waiting_for_an_answer_of_ours_keeps_the_session(self) -> None:
        kafka = Coordinator()
        members, generation = kafka.stable_group(2, session_timeout_ms=10_000)
        kafka.send_join(kafka.new_member_id(session_timeout_ms=60_000), session_timeout_ms=60_000)
        rejoined = kafka.send_join(members[0])
        for _ in range(6):
            kafka.advance(9000)
            kafka.heartbeat(members[1], generation)
        assert not rejoined.done
        kafka.send_join(members[1])
        assert answer(rejoined).error_code == ErrorCode.NONE

    def test_a_commit_counts_as_a_heartbeat(self) -> None:
        kafka = Coordinator()
        (member,), generation = kafka.stable_group(session_timeout_ms=10_000)
        for _ in range(3):
            kafka.advance(9000)
            assert kafka.commit(member_id=member, generation=generation) == ErrorCode.NONE
        assert kafka.heartbeat(member, generation) == ErrorCode.NONE

    def test_a_group_without_members_becomes_empty_in_its_log(self) -> None:
        kafka = Coordinator()
        kafka.stable_group(session_timeout_ms=10_000)
        kafka.advance(10_000)
        assert kafka.state() == "Empty"
        assert kafka.restarted().state() == "Empty"


class TestLeave:
    def test_each_member_gets_its_own_code(self) -> None:
        kafka = Coordinator()
        members, generation = kafka.stable_group(2, ("i1", "i2"))
        pending = kafka.new_member_id()
        response = kafka.leave(
            MemberIdentity(members[0]),
            MemberIdentity("", "i1"),
            MemberIdentity("", "i9"),
            MemberIdentity(""),
            MemberIdentity("nobody"),
            MemberIdentity(members[1], "i2"),
            MemberIdentity(pending),
        )
        unknown, fenced = ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID
        assert [each.error_code for each in response.members] == [0, 0, unknown, unknown, unknown, fenced, 0]
        assert response.members[1].group_instance_id == "i1"
        assert kafka.heartbeat(members[1], generation) == ErrorCode.REBALANCE_IN_PROGRESS

    def test_a_leave_of_an_unknown_group_is_refused(self) -> None:
        kafka = Coordinator()
        assert kafka.leave(MemberIdentity("m")).members[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert kafka.leave(MemberIdentity("m"), group="").error_code == ErrorCode.INVALID_GROUP_ID

    def test_the_last_one_out_empties_the_group(self) -> None:
        kafka = Coordinator()
        (member,), _ = kafka.stable_group()
        kafka.leave(MemberIdentity(member))
        assert kafka.state() == "Empty"
        assert not kafka.timers

    def test_a_waiting_join_of_a_leaving_member_is_answered(self) -> None:
        kafka = Coordinator()
        member_id = kafka.new_member_id()
        joining = kafka.send_join(member_id)
        kafka.leave(MemberIdentity(member_id))
        assert answer(joining).error_code == ErrorCode.UNKNOWN_MEMBER_ID


class TestRestart:
    def test_a_stable_group_is_as_it_was(self) -> None:
        kafka = Coordinator()
        members, generation = kafka.stable_group(2, ("i1",))
        again = kafka.restarted()
        assert again.shard.describe("g", 5) == kafka.shard.describe("g", 5)
        for member, instance in zip(members, (None, None, "i1"), strict=True):
            assert again.heartbeat(member, generation, instance=instance) == ErrorCode.NONE
            assert again.sync(member, generation, instance=instance).assignment == member.encode()

    def test_a_rebalance_that_was_under_way_is_forgotten(self) -> None:
        """Members of the last stable generation are let in again by their ids."""
        kafka = Coordinator()
        (old,), generation = kafka.stable_group()
        kafka.send_join(kafka.new_member_id())
        again = kafka.restarted()
        assert again.heartbeat(old, generation) == ErrorCode.NONE

    def test_sessions_restart_and_end_without_heartbeats(self) -> None:
        kafka = Coordinator()
        kafka.stable_group(session_timeout_ms=10_000)
        again = kafka.restarted()
        again.advance(9999)
        assert again.state() == "Stable"
        again.advance(1)
        assert again.state() == "Empty"

    def test_a_group_above_the_new_maximum_rebalances(self) -> None:
        kafka = Coordinator()
        kafka.stable_group(3)
        assert kafka.restarted(GroupSettings(max_size=2)).state() == "PreparingRebalance"

    def test_an_unloaded_partition_answers_waiting_members(self) -> None:
        kafka = Coordinator()
        members, generation, leader = joined(kafka)
        follower = next(member for member in members if member != leader)
        waiting = kafka.send_sync(follower, generation)
        kafka.shard.unloaded(PARTITION)
        assert answer(waiting).error_code == ErrorCode.NOT_COORDINATOR
        assert kafka.shard.group_ids() == []
        assert not kafka.timers


def test_only_a_members_heartbeat_without_an_error_is_cacheable() -> None:
    kafka = Coordinator()
    (member,), generation = kafka.stable_group()
    cacheable, beat = kafka.shard.repeatable_heartbeats, HeartbeatRequest("g", generation, member)
    renewal = cacheable(beat, HeartbeatResponse())
    assert renewal is not None
    assert renewal[0] == heartbeat_timer("g", member)
    assert cacheable(beat, HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)) is None
    assert cacheable(HeartbeatRequest("g", generation, "x"), HeartbeatResponse()) is None
    assert cacheable(HeartbeatRequest("none", generation, member), HeartbeatResponse()) is None
