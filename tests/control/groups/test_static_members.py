"""JoinGroup of static members (KIP-345): an instance that returns takes the place of its old id."""

import pytest

from kbroker.control.groups.rebalance import MIN_ROUND_MS, heartbeat_timer
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.leave_group import MemberIdentity
from tests.control.groups.coordinator import Coordinator, answer


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
        kafka.run(over.operation(kafka.now_ms))  # the join phase ends at once, and no member has come back
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
