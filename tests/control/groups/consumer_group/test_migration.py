"""A group changes its protocol while members of both are in it."""

from contextlib import suppress

import pytest

from kbroker.control.groups.classic_group import ClassicGroup
from kbroker.control.groups.consumer_group.state import ConsumerGroup
from kbroker.control.groups.rebalance import heartbeat_timer
from kbroker.control.groups.settings import GroupSettings
from kbroker.protocol.consumer_protocol import parse_assignment
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.leave_group import MemberIdentity
from tests.control.groups.classic_members import PROTOCOLS, classic_group, subscription
from tests.control.groups.coordinator import Coordinator, answer

INTERVAL_MS = 1000


def parts_of(assignment: bytes) -> dict[str, list[int]]:
    return {each.topic: each.partitions for each in parse_assignment(assignment).assigned_partitions}


def rejoin(kafka: Coordinator, member: str, owned: dict[str, list[int]]) -> tuple[int, dict[str, list[int]]]:
    """A classic member joins and syncs as the answer to its heartbeat demands: (generation,
    assignment)."""
    response = kafka.join(member, protocols=(("range", subscription(owned)),), session_timeout_ms=45_000)
    assert response.error_code == ErrorCode.NONE
    synced = kafka.sync(member, response.generation_id)
    assert synced.error_code == ErrorCode.NONE
    return response.generation_id, parts_of(synced.assignment)


def test_a_member_of_the_new_protocol_takes_the_group_along() -> None:
    kafka, members, generation = classic_group()
    response = kafka.beat("new", topics=["t"])
    assert isinstance(kafka.shard.table.groups["g"], ConsumerGroup)
    assert response.member_epoch == generation + 1
    assert kafka.parts(response) == {}
    assert {member.member_type for member in kafka.described().members} == {0, 1}
    assert kafka.heartbeat(members[0], generation) == ErrorCode.REBALANCE_IN_PROGRESS


def test_classic_members_give_up_partitions_step_by_step() -> None:
    kafka, members, generation = classic_group()
    kafka.beat("new", topics=["t"])
    owned = {members[0]: {"t": [0, 1, 2]}, members[1]: {"t": [3, 4, 5]}}
    for member in members:
        _, assigned = rejoin(kafka, member, owned[member])
        assert len(assigned["t"]) == 2
        owned[member] = assigned
    for member in members:
        generation, assigned = rejoin(kafka, member, owned[member])
        assert kafka.heartbeat(member, generation) == ErrorCode.NONE
        owned[member] = assigned
    response = kafka.beat("new", kafka.described().group_epoch)
    parts = kafka.parts(response)
    assert parts is not None
    taken = [partition for each in owned.values() for partition in each["t"]] + parts["t"]
    assert sorted(taken) == [0, 1, 2, 3, 4, 5]
    assert kafka.described().group_state == "Stable"


def test_the_upgrade_survives_a_restart() -> None:
    kafka, members, generation = classic_group()
    kafka.beat("new", topics=["t"])
    again = kafka.restarted()
    assert again.described() == kafka.described()
    assert again.heartbeat(members[0], generation) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_waiting_join_is_requested_to_start_over() -> None:
    kafka, members, _ = classic_group()
    kafka.send_join(kafka.new_member_id(protocols=PROTOCOLS), protocols=PROTOCOLS)
    waiting = kafka.send_join(members[0], protocols=PROTOCOLS)
    kafka.beat("new", topics=["t"])
    assert answer(waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (GroupSettings(consumer_upgrade=False), "online upgrade is disabled"),
        (GroupSettings(consumer_max_size=1), "exceeds the consumer group maximum size"),
    ],
)
def test_an_upgrade_that_may_not_be(settings: GroupSettings, text: str) -> None:
    kafka, members, generation = classic_group(settings=settings)
    with pytest.raises(KafkaError, match=text):
        kafka.beat("new", topics=["t"])
    assert kafka.heartbeat(members[0], generation) == ErrorCode.NONE


def test_data_of_a_custom_assignor_keeps_the_group_classic() -> None:
    kafka, members, generation = classic_group()
    group = kafka.shard.table.groups["g"]
    assert isinstance(group, ClassicGroup)
    for member in group.members.values():
        member.assignment = member.assignment[:-4] + b"\x00\x00\x00\x01d"
    with pytest.raises(KafkaError, match="an unsupported custom assignor is in use"):
        kafka.beat("new", topics=["t"])
    assert kafka.heartbeat(members[0], generation) == ErrorCode.NONE


def test_groups_of_other_protocols_stay_classic() -> None:
    kafka = Coordinator()
    kafka.topics.put("t", 1)
    kafka.send_join(kafka.new_member_id(protocol_type="connect"), protocol_type="connect")
    with pytest.raises(KafkaError, match="does not use the consumer embedded protocol"):
        kafka.beat("new", topics=["t"])


def test_metadata_that_cannot_be_read_keeps_the_group_classic() -> None:
    kafka = Coordinator()
    kafka.topics.put("t", 1)
    kafka.stable_group()
    with pytest.raises(KafkaError, match="malformed"):
        kafka.beat("new", topics=["t"])
    assert kafka.state() == "Stable"


def test_an_empty_classic_group_is_replaced_and_keeps_its_offsets() -> None:
    kafka = Coordinator()
    kafka.topics.put("t", 1)
    kafka.commit(7)
    assert kafka.parts(kafka.beat("new", topics=["t"])) == {"t": [0]}
    assert kafka.committed() == 7
    assert kafka.restarted().committed() == 7
    assert isinstance(kafka.restarted().shard.table.groups["g"], ConsumerGroup)


def test_an_empty_consumer_group_is_replaced_by_a_classic_one() -> None:
    kafka = Coordinator()
    kafka.topics.put("t", 1)
    kafka.beat("new", topics=["t"])
    kafka.beat("new", -1)
    tombstones = kafka.shard.table.groups["g"].tombstones()
    before = len(kafka.log)
    kafka.new_member_id()
    assert kafka.log[before:-1] == tombstones
    assert isinstance(kafka.shard.table.groups["g"], ClassicGroup)
    assert isinstance(kafka.restarted().shard.table.groups["g"], ClassicGroup)


class TestDowngrade:
    def test_the_last_member_of_the_new_protocol_leaves(self) -> None:
        kafka, members, _ = classic_group()
        kafka.beat("new", topics=["t"])
        epoch = kafka.described().group_epoch
        kafka.beat("new", -1)
        assert isinstance(kafka.shard.table.groups["g"], ClassicGroup)
        assert kafka.state() == "PreparingRebalance"
        assert kafka.heartbeat(members[0], epoch) == ErrorCode.REBALANCE_IN_PROGRESS
        joins = [kafka.send_join(member, protocols=PROTOCOLS) for member in members]
        assert {answer(join).generation_id for join in joins} == {epoch + 1}

    def test_its_members_have_sessions_though_the_append_failed_if_the_log_has_it(self) -> None:
        kafka, _, _ = classic_group()
        kafka.beat("new", topics=["t"])
        kafka.append_error, kafka.fails_in_log = ErrorCode.REQUEST_TIMED_OUT, True
        with suppress(KafkaError):
            kafka.beat("new", -1)
        assert isinstance(kafka.shard.table.groups["g"], ClassicGroup)
        assert kafka.state() == "PreparingRebalance"

    def test_it_survives_a_restart_with_the_last_assignment(self) -> None:
        kafka, _, _ = classic_group()
        kafka.beat("new", topics=["t"])
        kafka.beat("new", -1)
        again = kafka.restarted()
        described = again.shard.describe("g", 6)
        assert described.group_state == "Stable"
        taken = [
            partition for member in described.members for partition in parts_of(member.member_assignment)["t"]
        ]
        assert len(taken) == 4, "what the new member was to have waits for the rebalance"

    def test_timers_of_the_consumer_group_end(self) -> None:
        """One would remove a live member if the group became a consumer group again."""
        kafka, members, generation = classic_group()
        kafka.beat("new", topics=["t"])
        assert kafka.heartbeat(members[0], generation) == ErrorCode.REBALANCE_IN_PROGRESS
        kafka.beat("new", -1)
        left = [name for name in kafka.timers if members[0] in name]
        assert left == [heartbeat_timer("g", members[0])]

    def test_its_session_ends(self) -> None:
        kafka, members, generation = classic_group()
        kafka.beat("new", topics=["t"])
        for _ in range(45):
            kafka.advance(1000)
            for member in members:
                kafka.heartbeat(member, generation)
        assert isinstance(kafka.shard.table.groups["g"], ClassicGroup)

    def test_not_when_it_is_switched_off(self) -> None:
        kafka, _, _ = classic_group(settings=GroupSettings(consumer_downgrade=False))
        kafka.beat("new", topics=["t"])
        kafka.beat("new", -1)
        assert isinstance(kafka.shard.table.groups["g"], ConsumerGroup)

    def test_a_static_member_goes_back_to_the_classic_protocol(self) -> None:
        kafka, members, _ = classic_group()
        kafka.beat("new", topics=["t"], instance="i")
        response = kafka.join(instance="i", protocols=PROTOCOLS, session_timeout_ms=45_000)
        assert response.error_code == ErrorCode.NONE
        group = kafka.shard.table.groups["g"]
        assert isinstance(group, ClassicGroup)
        assert set(group.members) == {*members, response.member_id}
        assert kafka.sync(response.member_id, response.generation_id, instance="i").error_code == 0


class TestClassicMembers:
    def joined(self) -> tuple[Coordinator, str, int]:
        """A consumer group of one new and one classic member, at rest."""
        kafka = Coordinator()
        kafka.topics.put("t", 6)
        kafka.beat("new", topics=["t"])
        kafka.advance(INTERVAL_MS)
        first = kafka.join(protocols=PROTOCOLS, session_timeout_ms=45_000)
        assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
        generation, assigned = rejoin(kafka, first.member_id, {})
        assert assigned == {}
        kafka.beat("new", 2, owned={"t": [0, 1, 2, 3, 4, 5]})
        kafka.beat("new", 2, owned={"t": [0, 1, 2]})
        assert kafka.heartbeat(first.member_id, generation) == ErrorCode.REBALANCE_IN_PROGRESS
        generation, assigned = rejoin(kafka, first.member_id, {})
        assert assigned == {"t": [3, 4, 5]}
        return kafka, first.member_id, generation

    def test_it_has_a_session_though_the_append_failed_if_the_log_has_it(self) -> None:
        kafka = Coordinator()
        kafka.topics.put("t", 6)
        epoch = kafka.beat("new", topics=["t"]).member_epoch
        kafka.advance(INTERVAL_MS)
        member = kafka.new_member_id(protocols=PROTOCOLS)
        kafka.append_error, kafka.fails_in_log = ErrorCode.REQUEST_TIMED_OUT, True
        assert kafka.join(member, protocols=PROTOCOLS).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        kafka.append_error = ErrorCode.NONE
        assert {each.member_id for each in kafka.described().members} == {"new", member}
        for _ in range(11):
            kafka.advance(1000)
            epoch = kafka.beat("new", epoch).member_epoch
        assert {each.member_id for each in kafka.described().members} == {"new"}

    def test_a_classic_member_gets_its_share(self) -> None:
        kafka, member, generation = self.joined()
        assert kafka.heartbeat(member, generation) == ErrorCode.NONE
        assert kafka.commit(3, member, generation, partition=4) == ErrorCode.NONE
        assert kafka.commit(3, member, generation + 1) == ErrorCode.ILLEGAL_GENERATION

    def test_it_need_not_rejoin_before_there_is_another_assignment(self) -> None:
        """Assignments are computed once in an interval; until then the member is as good as the
        others."""
        kafka = Coordinator()
        kafka.topics.put("t", 6)
        kafka.beat("new", topics=["t"])
        member = kafka.join(protocols=PROTOCOLS, session_timeout_ms=45_000).member_id
        generation, assigned = rejoin(kafka, member, {})
        assert assigned == {}
        assert kafka.heartbeat(member, generation) == ErrorCode.NONE
        kafka.advance(INTERVAL_MS)
        kafka.beat("new", 2, owned={"t": [0, 1, 2, 3, 4, 5]})
        assert kafka.heartbeat(member, generation) == ErrorCode.REBALANCE_IN_PROGRESS

    def test_those_that_stay_alone_take_over_the_partitions_of_the_last_new_member(self) -> None:
        """The group does not become classic."""
        kafka, members, _ = classic_group(settings=GroupSettings(consumer_downgrade=False))
        kafka.beat("new", topics=["t"])
        owned = {members[0]: {"t": [0, 1, 2]}, members[1]: {"t": [3, 4, 5]}}
        generations: dict[str, int] = {}
        for member in (*members, *members):
            generations[member], owned[member] = rejoin(kafka, member, owned[member])
        assert [len(owned[member]["t"]) for member in members] == [2, 2]
        kafka.beat("new", -1)
        kafka.advance(INTERVAL_MS)
        for member in members:
            assert kafka.heartbeat(member, generations[member]) == ErrorCode.REBALANCE_IN_PROGRESS
            generations[member], owned[member] = rejoin(kafka, member, owned[member])
            assert kafka.heartbeat(member, generations[member]) == ErrorCode.NONE
        assert sorted(number for each in owned.values() for number in each["t"]) == [0, 1, 2, 3, 4, 5]

    def test_it_leaves(self) -> None:
        kafka, member, _ = self.joined()
        response = kafka.leave(MemberIdentity(member), MemberIdentity("nobody"), MemberIdentity("", "i9"))
        unknown = ErrorCode.UNKNOWN_MEMBER_ID
        assert [each.error_code for each in response.members] == [0, unknown, unknown]
        kafka.advance(INTERVAL_MS)
        assert kafka.parts(kafka.beat("new", 3, owned={"t": [0, 1, 2]})) == {"t": [0, 1, 2, 3, 4, 5]}

    def test_an_administrator_removes_members_of_both_kinds(self) -> None:
        kafka, member, _ = self.joined()
        response = kafka.leave(MemberIdentity("new"), MemberIdentity(member))
        assert [each.error_code for each in response.members] == [0, 0]
        assert kafka.described().group_state == "Empty"

    @pytest.mark.parametrize("protocols", [(), (("sticky", b""),)])
    def test_it_must_fit_the_other_classic_members(self, protocols: tuple[tuple[str, bytes], ...]) -> None:
        kafka, _, _ = self.joined()
        response = kafka.join(protocols=protocols)
        assert response.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    def test_a_new_member_cannot_use_the_classic_requests(self) -> None:
        kafka, _, _ = self.joined()
        assert kafka.heartbeat("new", 3) == ErrorCode.UNKNOWN_MEMBER_ID
        assert kafka.sync("new", 3).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    def test_silence_ends_its_session(self) -> None:
        kafka, member, generation = self.joined()
        epoch = 3
        for _ in range(46):
            kafka.advance(1000)
            epoch = kafka.beat("new", epoch).member_epoch
        assert kafka.heartbeat(member, generation) == ErrorCode.UNKNOWN_MEMBER_ID

    def test_a_member_that_does_not_rejoin_in_time_is_removed(self) -> None:
        kafka, member, generation = self.joined()
        kafka.topics.put("t", 9)
        kafka.advance(INTERVAL_MS)
        kafka.beat("new", 3)
        for _ in range(60):
            assert kafka.heartbeat(member, generation) == ErrorCode.REBALANCE_IN_PROGRESS
            epochs = {each.member_id: each.member_epoch for each in kafka.described().members}
            kafka.beat("new", epochs["new"])
            kafka.advance(1000)
        assert kafka.heartbeat(member, generation) == ErrorCode.UNKNOWN_MEMBER_ID
