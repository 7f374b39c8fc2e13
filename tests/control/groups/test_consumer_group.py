"""Consumer groups of KIP-848: joining, reconciliation, leaving, static members, expressions, restarts."""

import pytest

from kbroker.control.groups.settings import GroupSettings
from kbroker.protocol.errors import ErrorCode, KafkaError
from tests.control.groups.coordinator import Coordinator

INTERVAL_MS = 1000
"""consumer.assignment.interval.ms: the target is not computed more often."""


def kafka_with(settings: GroupSettings | None = None, **topics: int) -> Coordinator:
    kafka = Coordinator(settings)
    for name, partitions in (topics or {"t": 6}).items():
        kafka.topics.put(name, partitions)
    return kafka


class Member:
    """A client that does what the protocol asks: it owns what it is given, and gives up what it is not."""

    def __init__(
        self, kafka: Coordinator, name: str, topics: list[str] | None = None, **fields: object
    ) -> None:
        self.kafka, self.name, self.fields = kafka, name, fields
        self.epoch = 0
        self.owned: dict[str, list[int]] = {}
        self.beat(topics=["t"] if topics is None and "regex" not in fields else topics)

    def beat(self, **fields: object) -> dict[str, list[int]]:
        first = self.epoch == 0
        given = (self.fields | fields) if first else {"owned": self.owned, **fields}
        if "instance" in self.fields:
            given["instance"] = self.fields["instance"]
        response = self.kafka.beat(self.name, self.epoch, **given)  # type: ignore[arg-type]
        self.epoch = response.member_epoch
        self.owned = self.owned if (parts := self.kafka.parts(response)) is None else parts
        return self.owned


def settle(kafka: Coordinator, *members: Member) -> None:
    """Everybody heartbeats until nothing moves."""
    kafka.advance(INTERVAL_MS)
    for _ in range(6):
        for member in members:
            member.beat()
    assert kafka.described().group_state == "Stable"


def owners(*members: Member) -> dict[tuple[str, int], str]:
    """Who owns each partition; fails when two do."""
    found: dict[tuple[str, int], str] = {}
    for member in members:
        for topic, partitions in member.owned.items():
            for partition in partitions:
                assert (topic, partition) not in found
                found[topic, partition] = member.name
    return found


class TestJoining:
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

    def test_who_names_its_topics_a_moment_later_does_not_wait(self) -> None:
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
            kafka_with().beat(**given)  # type: ignore[arg-type]
        assert error.value.code is code
        assert text in error.value.message

    def test_v0_members_may_leave_their_id_to_the_broker(self) -> None:
        kafka = kafka_with()
        response = kafka.beat("", topics=["t"], version=0)
        assert response.member_id
        assert kafka.beat(response.member_id, 2, version=0).member_epoch == 2

    def test_group_max_size(self) -> None:
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

    def test_topics_that_nobody_reads_change_nothing(self) -> None:
        kafka = kafka_with()
        member = Member(kafka, "a")
        kafka.topics.put("other", 9)
        kafka.advance(INTERVAL_MS)
        member.beat()
        assert kafka.described().group_epoch == 2

    def test_a_changed_subscription_takes_effect_at_once(self) -> None:
        """What is no longer subscribed to is taken away even before there is a new target."""
        kafka = kafka_with(t=2, u=2)
        member = Member(kafka, "a")
        response = kafka.beat("a", 2, topics=["u"], owned=member.owned)
        assert kafka.parts(response) == {}
        assert response.member_epoch == 2
        kafka.advance(INTERVAL_MS)
        member.owned = {}
        assert member.beat() == {"u": [0, 1]}


class TestLeaving:
    def test_who_leaves_frees_its_partitions(self) -> None:
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

    def test_who_does_not_give_up_partitions_in_time_is_removed(self) -> None:
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
        assert not kafka.timers
        assert kafka.run(kafka.shard.delete("g")).error_code == ErrorCode.NONE
        assert kafka.restarted().shard.group_ids() == []

    def test_a_group_in_use_is_not_deleted(self) -> None:
        kafka = kafka_with()
        Member(kafka, "a")
        assert kafka.run(kafka.shard.delete("g")).error_code == ErrorCode.NON_EMPTY_GROUP


class TestStaticMembers:
    def test_the_place_is_kept_while_the_member_is_away(self) -> None:
        kafka = kafka_with()
        first, second = Member(kafka, "a"), Member(kafka, "b", instance="i")
        settle(kafka, first, second)
        epoch = kafka.described().group_epoch
        kafka.beat("b", -2, instance="i")
        back = Member(kafka, "b2", instance="i")
        assert back.owned == second.owned
        assert kafka.described().group_epoch == epoch
        assert first.beat() == first.owned

    def test_the_place_is_lost_with_the_session(self) -> None:
        kafka = kafka_with()
        first, second = Member(kafka, "a"), Member(kafka, "b", instance="i")
        settle(kafka, first, second)
        kafka.beat("b", -2, instance="i")
        for _ in range(46):
            kafka.advance(1000)
            first.beat()
        kafka.advance(INTERVAL_MS)
        assert len(first.beat()["t"]) == 6

    def test_an_instance_id_in_use_is_not_released(self) -> None:
        kafka = kafka_with()
        Member(kafka, "a", instance="i")
        with pytest.raises(KafkaError, match="owned by a member"):
            Member(kafka, "b", instance="i")

    def test_the_one_before_is_fenced(self) -> None:
        kafka = kafka_with()
        first = Member(kafka, "a", instance="i")
        kafka.beat("a", -2, instance="i")
        Member(kafka, "b", instance="i")
        with pytest.raises(KafkaError, match="FENCED_INSTANCE_ID"):
            first.beat()

    def test_unknown_instance(self) -> None:
        kafka = kafka_with()
        Member(kafka, "a")
        with pytest.raises(KafkaError, match="Instance id i is unknown"):
            kafka.beat("a", 1, instance="i")


class TestAssignors:
    def test_a_member_may_choose_the_assignor(self) -> None:
        kafka = kafka_with(t=3, u=3)
        first = Member(kafka, "a", ["t", "u"], assignor="range")
        second = Member(kafka, "b", ["t", "u"], assignor="range")
        settle(kafka, first, second)
        assert first.owned == {"t": [0, 1], "u": [0, 1]}
        assert second.owned == {"t": [2], "u": [2]}
        assert kafka.described().assignor_name == "range"


class TestExpressions:
    def test_topics_are_matched_after_the_heartbeat(self) -> None:
        kafka = kafka_with(**{"orders.eu": 1, "orders.us": 1, "other": 1})
        member = Member(kafka, "a", regex=r"orders\..*")
        assert member.owned == {}
        kafka.advance(0)
        assert member.beat() == {"orders.eu": [0], "orders.us": [0]}
        assert kafka.described().members[0].subscribed_topic_regex == r"orders\..*"

    def test_new_topics_are_found_but_not_more_often_than_every_ten_seconds(self) -> None:
        kafka = kafka_with(**{"orders.eu": 1})
        member = Member(kafka, "a", regex=r"orders\..*")
        kafka.advance(INTERVAL_MS)
        member.beat()
        kafka.topics.put("orders.us", 1)
        kafka.advance(9000)
        member.beat()
        kafka.advance(0)
        assert member.beat() == {"orders.eu": [0]}
        kafka.advance(1001)
        member.beat()
        kafka.advance(0)
        kafka.advance(INTERVAL_MS)
        assert member.beat() == {"orders.eu": [0], "orders.us": [0]}

    def test_an_expression_nobody_uses_is_forgotten(self) -> None:
        kafka = kafka_with(**{"orders.eu": 1, "t": 1})
        member = Member(kafka, "a", regex="orders.*")
        kafka.advance(INTERVAL_MS)
        member.beat()
        member.beat(regex="", topics=["t"])
        kafka.advance(INTERVAL_MS)
        member.owned = {}
        assert member.beat() == {"t": [0]}
        assert kafka.restarted().shard.table.groups["g"].regexes == {}  # type: ignore[attr-defined]


class TestRestart:
    def test_a_group_is_as_it_was(self) -> None:
        kafka = kafka_with(t=4, **{"r.x": 1})
        first = Member(kafka, "a", instance="i")
        second = Member(kafka, "b", ["t"], regex="r[.].*")
        settle(kafka, first, second)
        again = kafka.restarted()
        assert again.described() == kafka.described()
        for member in (first, second):
            member.kafka = again
            before = dict(member.owned)
            assert member.beat() == before

    def test_a_member_that_must_give_up_partitions_still_must(self) -> None:
        kafka = kafka_with()
        first = Member(kafka, "a")
        kafka.advance(INTERVAL_MS)
        second = Member(kafka, "b")
        first.beat()
        again = kafka.restarted()
        first.kafka = second.kafka = again
        assert second.beat() == {}
        first.beat()
        assert len(second.beat()["t"]) == 3


class TestOffsets:
    def commit(self, kafka: Coordinator, epoch: int, partition: int = 0, version: int = 9) -> ErrorCode:
        return kafka.commit(5, "a", epoch, partition=partition, version=version)

    def test_the_member_commits_with_its_epoch(self) -> None:
        kafka = kafka_with()
        Member(kafka, "a")
        assert self.commit(kafka, 2) == ErrorCode.NONE
        assert self.commit(kafka, 3) == ErrorCode.STALE_MEMBER_EPOCH
        assert self.commit(kafka, 2, version=8) == ErrorCode.UNSUPPORTED_VERSION
        assert kafka.commit(5, "b", 2) == ErrorCode.UNKNOWN_MEMBER_ID
        assert kafka.commit(5) == ErrorCode.UNKNOWN_MEMBER_ID

    def test_an_older_epoch_is_good_for_what_it_had_then(self) -> None:
        """KIP-1251: a commit that crosses a rebalance is not lost."""
        kafka = kafka_with(t=1)
        Member(kafka, "a")
        kafka.topics.put("t", 2)
        kafka.advance(INTERVAL_MS)
        assert kafka.beat("a", 2).member_epoch == 3
        assert self.commit(kafka, 2, partition=0) == ErrorCode.NONE
        assert self.commit(kafka, 2, partition=1) == ErrorCode.STALE_MEMBER_EPOCH

    def test_what_the_group_reads_neither_expires_nor_is_deleted(self) -> None:
        kafka = kafka_with(GroupSettings(offsets_retention_ms=10_000))
        Member(kafka, "a")
        self.commit(kafka, 2)
        kafka.advance(20_000)
        kafka.expire_offsets()
        assert kafka.committed() == 5
        kafka.beat("a", -1)
        kafka.expire_offsets()
        assert kafka.committed() == -1
        assert kafka.shard.group_ids() == []
        assert kafka.restarted().shard.group_ids() == []
