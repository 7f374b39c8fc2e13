"""Consumer groups of KIP-848: joining, reconciliation, leaving, static members, expressions,
restarts."""

import pytest

from kbroker.control.groups.modern_group.timers import RETRY_MS
from kbroker.control.groups.settings import GroupSettings
from kbroker.protocol.errors import ErrorCode, KafkaError
from tests.control.groups.consumer_members import INTERVAL_MS, Member, kafka_with, owners, settle


class TestJoining:
    def test_members_are_shown_in_the_order_of_kafkas_map(self) -> None:
        kafka = kafka_with()
        members = [Member(kafka, f"grp-{number}") for number in range(1, 5)]
        settle(kafka, *members)
        assert [each.member_id for each in kafka.described().members] == ["grp-2", "grp-4", "grp-1", "grp-3"]

    def test_the_first_member_gets_everything_at_once(self) -> None:
        kafka = kafka_with()
        member = Member(kafka, "a")
        assert member.owned == {"t": [0, 1, 2, 3, 4, 5]}
        assert member.epoch == 2
        described = kafka.described()
        assert (described.group_state, described.group_epoch, described.assignment_epoch) == ("Stable", 2, 2)
        assert (described.assignor_name, described.members[0].member_type) == ("uniform", 1)

    def test_partitions_pass_on_only_after_they_were_given_up(self) -> None:
        kafka = kafka_with()
        first = Member(kafka, "a")
        kafka.advance(INTERVAL_MS)
        second = Member(kafka, "b")
        assert second.owned == {}
        assert second.epoch == 3
        first.beat()
        assert first.epoch == 2
        assert first.owned == {"t": [0, 1, 2]}
        shown = {each.member_id: each for each in kafka.described().members}["a"]
        assert shown.assignment.topic_partitions[0].partitions == [
            0,
            1,
            2,
            3,
            4,
            5,
        ]  # the rest is not given up yet
        assert second.beat() == {}
        first.beat()
        assert first.epoch == 3
        assert second.beat() == {"t": [3, 4, 5]}
        assert kafka.described().group_state == "Stable"

    def test_a_heartbeat_that_changes_nothing_says_nothing(self) -> None:
        kafka = kafka_with()
        member = Member(kafka, "a")
        before = len(kafka.log)
        assert kafka.parts(kafka.beat("a", member.epoch)) is None
        assert len(kafka.log) == before

    def test_members_that_come_together_are_assigned_together(self) -> None:
        """consumer.assignment.interval.ms keeps the old target for a moment."""
        kafka = kafka_with()
        members = [Member(kafka, name) for name in "abc"]
        assert kafka.described().group_epoch == 4
        assert kafka.described().assignment_epoch == 2
        assert kafka.described().group_state == "Assigning"
        settle(kafka, *members)
        assert sorted(len(member.owned["t"]) for member in members) == [2, 2, 2]
        assert len(owners(*members)) == 6

    def test_a_member_that_subscribes_a_moment_later_does_not_wait(self) -> None:
        """Nothing was assigned for the empty group, so the assignment interval has not begun."""
        kafka = kafka_with()
        member = Member(kafka, "a", topics=[])
        assert (member.owned, member.epoch) == ({}, 1)
        assert member.beat(topics=["t"]) == {"t": [0, 1, 2, 3, 4, 5]}

    def test_a_full_request_is_answered_in_full(self) -> None:
        """What a client sends after an error of its own, to learn where it stands."""
        kafka = kafka_with()
        member = Member(kafka, "a")
        response = kafka.beat(
            "a", member.epoch, topics=["t"], owned=member.owned, rebalance_timeout_ms=30_000
        )
        assert kafka.parts(response) == member.owned

    @pytest.mark.parametrize(
        ("fields", "code", "text"),
        [
            ({"group": ""}, ErrorCode.INVALID_REQUEST, "GroupId can't be empty."),
            ({"member_id": ""}, ErrorCode.INVALID_REQUEST, "MemberId can't be empty."),
            ({"instance": ""}, ErrorCode.INVALID_REQUEST, "InstanceId can't be empty."),
            ({"topics": None}, ErrorCode.INVALID_REQUEST, "Either SubscribedTopicNames or"),
            ({"owned": {"t": [0]}}, ErrorCode.INVALID_REQUEST, "TopicPartitions must be empty"),
            ({"epoch": -3}, ErrorCode.INVALID_REQUEST, "MemberEpoch is invalid."),
            ({"epoch": -2}, ErrorCode.INVALID_REQUEST, "InstanceId can't be null."),
            ({"assignor": "x"}, ErrorCode.UNSUPPORTED_ASSIGNOR, "Supported assignors: uniform, range."),
            ({"epoch": 3}, ErrorCode.GROUP_ID_NOT_FOUND, "Consumer group g not found."),
            ({"epoch": -1}, ErrorCode.GROUP_ID_NOT_FOUND, "Group g not found."),
            ({"topics": None, "regex": "("}, ErrorCode.INVALID_REGULAR_EXPRESSION, "`(` is not a valid"),
        ],
    )
    def test_requests_that_are_refused(self, fields: dict[str, object], code: ErrorCode, text: str) -> None:
        given = {"member_id": "a", "topics": ["t"]} | fields
        with pytest.raises(KafkaError) as error:
            kafka_with().beat(**given)
        assert error.value.code is code
        assert text in error.value.message

    def test_v0_members_may_leave_their_id_to_the_broker(self) -> None:
        kafka = kafka_with()
        response = kafka.beat("", topics=["t"], version=0)
        assert response.member_id
        assert kafka.beat(response.member_id, 2, version=0).member_epoch == 2

    def test_a_full_group_refuses_new_members(self) -> None:
        kafka = kafka_with(GroupSettings(consumer_max_size=1))
        member = Member(kafka, "a")
        with pytest.raises(KafkaError, match="maximum capacity of 1 members"):
            Member(kafka, "b")
        member.beat()


class TestEpochs:
    def test_a_greater_or_an_old_epoch_is_fenced(self) -> None:
        kafka = kafka_with()
        Member(kafka, "a")
        with pytest.raises(KafkaError, match=r"greater member epoch \(3\)"):
            kafka.beat("a", 3)
        kafka.topics.put("t", 7)
        kafka.advance(INTERVAL_MS)
        kafka.beat("a", 2)
        kafka.topics.put("t", 8)
        kafka.advance(INTERVAL_MS)
        kafka.beat("a", 3)
        with pytest.raises(KafkaError, match=r"smaller member epoch \(2\)"):
            kafka.beat("a", 2, owned={"t": [0]})

    def test_a_repeated_heartbeat_of_the_epoch_before_is_answered(self) -> None:
        kafka = kafka_with()
        Member(kafka, "a")
        kafka.topics.put("t", 7)
        kafka.advance(INTERVAL_MS)
        assert kafka.beat("a", 2).member_epoch == 3
        assert kafka.beat("a", 2, owned={"t": [0, 1]}).member_epoch == 3
        with pytest.raises(KafkaError, match="FENCED_MEMBER_EPOCH"):
            kafka.beat("a", 2)

    def test_a_known_member_may_join_again(self) -> None:
        kafka = kafka_with()
        Member(kafka, "a")
        kafka.topics.put("t", 7)
        kafka.advance(INTERVAL_MS)
        kafka.beat("a", 2)
        again = kafka.beat("a", 0, topics=["t"], owned={})
        assert again.member_epoch == 3
        assert kafka.parts(again) == {"t": list(range(7))}

    def test_an_unknown_member_is_unknown(self) -> None:
        kafka = kafka_with()
        Member(kafka, "a")
        with pytest.raises(KafkaError, match="UNKNOWN_MEMBER_ID"):
            kafka.beat("b", 1)


class TestTopicsChange:
    def test_new_partitions_are_assigned(self) -> None:
        kafka = kafka_with(t=2)
        member = Member(kafka, "a")
        kafka.topics.put("t", 3)
        kafka.advance(INTERVAL_MS)
        assert member.beat() == {"t": [0, 1, 2]}
        assert member.epoch == 3

    def test_a_topic_that_appears_later_is_assigned(self) -> None:
        kafka = kafka_with(t=1)
        member = Member(kafka, "a", ["t", "later"])
        assert member.owned == {"t": [0]}
        kafka.topics.put("later", 1)
        kafka.advance(INTERVAL_MS)
        assert member.beat() == {"t": [0], "later": [0]}

    def test_a_deleted_topic_is_taken_away(self) -> None:
        kafka = kafka_with(t=1, u=1)
        member = Member(kafka, "a", ["t", "u"])
        kafka.topics.remove("u")
        kafka.advance(INTERVAL_MS)
        assert member.beat() == {"t": [0]}

    def test_topics_without_readers_change_nothing(self) -> None:
        kafka = kafka_with()
        member = Member(kafka, "a")
        kafka.topics.put("other", 9)
        kafka.advance(INTERVAL_MS)
        member.beat()
        assert kafka.described().group_epoch == 2

    def test_a_changed_subscription_takes_effect_at_once(self) -> None:
        """Partitions of topics that are no longer subscribed to are revoked before there is a new
        target."""
        kafka = kafka_with(t=2, u=2)
        member = Member(kafka, "a")
        response = kafka.beat("a", 2, topics=["u"], owned=member.owned)
        assert kafka.parts(response) == {}
        assert response.member_epoch == 2
        kafka.advance(INTERVAL_MS)
        member.owned = {}
        assert member.beat() == {"u": [0, 1]}


class TestLeaving:
    def test_a_leaving_member_frees_its_partitions(self) -> None:
        kafka = kafka_with()
        first, second = Member(kafka, "a"), Member(kafka, "b")
        settle(kafka, first, second)
        assert kafka.beat("b", -1).member_epoch == -1
        kafka.advance(INTERVAL_MS)
        assert first.beat() == {"t": [0, 1, 2, 3, 4, 5]}

    def test_silence_ends_the_session(self) -> None:
        kafka = kafka_with()
        first, second = Member(kafka, "a"), Member(kafka, "b")
        settle(kafka, first, second)
        kafka.advance(30_000)
        first.beat()
        kafka.advance(15_000)
        first.beat()
        with pytest.raises(KafkaError, match="UNKNOWN_MEMBER_ID"):
            second.beat()
        kafka.advance(INTERVAL_MS)
        assert len(first.beat()["t"]) == 6

    def test_a_member_that_does_not_revoke_in_time_is_removed(self) -> None:
        kafka = kafka_with()
        first = Member(kafka, "a", rebalance_timeout_ms=20_000)
        kafka.advance(INTERVAL_MS)
        second = Member(kafka, "b")
        stubborn = dict(first.owned)
        first.beat()
        for _ in range(19):
            kafka.advance(1000)
            kafka.beat("a", 2, owned=stubborn)
            second.beat()
        kafka.advance(1000)
        with pytest.raises(KafkaError, match="UNKNOWN_MEMBER_ID"):
            kafka.beat("a", 2, owned=stubborn)
        kafka.advance(INTERVAL_MS)
        assert len(second.beat()["t"]) == 6

    def test_the_last_one_out_leaves_an_empty_group(self) -> None:
        kafka = kafka_with()
        Member(kafka, "a")
        kafka.beat("a", -1)
        assert kafka.described().group_state == "Empty"
        kafka.advance(RETRY_MS)
        assert not kafka.timers
        assert kafka.run(kafka.shard.delete("g")).error_code == ErrorCode.NONE
        assert kafka.restarted().shard.group_ids() == []

    def test_a_group_in_use_is_not_deleted(self) -> None:
        kafka = kafka_with()
        Member(kafka, "a")
        assert kafka.run(kafka.shard.delete("g")).error_code == ErrorCode.NON_EMPTY_GROUP
