"""What consumer, share and streams groups have in common."""

import time

import pytest

from kbroker.control.coordinator.machine import Outcome
from kbroker.control.groups.consumer_group.member import ConsumerMember
from kbroker.control.groups.consumer_group.state import ConsumerGroup
from kbroker.control.groups.modern_group.partitions import named_partitions, partitions_of, with_epochs
from kbroker.control.groups.modern_group.timers import MemberTimers
from kbroker.control.groups.share_group.state import ShareGroup
from kbroker.protocol.coordinator_records.consumer_group_target_assignment_member import (
    TopicPartition as StoredPartitions,
)
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.consumer_protocol_subscription import TopicPartition
from tests.control.groups.coordinator import Coordinator, Topics


def test_a_full_group_takes_no_new_member_but_keeps_its_own() -> None:
    group = ConsumerGroup("g")
    group.put_member(ConsumerMember("a"))
    group.check_room("a", limit=1)
    with pytest.raises(
        KafkaError, match="The consumer group has reached its maximum capacity of 1 members"
    ) as e:
        group.check_room("b", limit=1)
    assert e.value.code is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_fenced_member_gets_the_known_epoch() -> None:
    text = str(ShareGroup("g").fenced(3, 5).message)
    assert text.startswith("The share group member has a smaller member epoch (3) than the one known")
    assert "(5)" in text
    assert " greater " in str(ShareGroup("g").fenced(6, 5).message)


def test_an_assignment_is_due_when_the_clock_has_been_set_back() -> None:
    group = ConsumerGroup("g")
    assert group.assignment_is_due(1000, 5)
    group.assignment_timestamp_ms = 50_000
    assert not group.assignment_is_due(1000, 50_000)
    assert not group.assignment_is_due(1000, 50_999)
    assert group.assignment_is_due(1000, 51_000)
    assert group.assignment_is_due(1000, 49_999)


def test_a_topic_that_is_named_again_and_again_takes_time_in_proportion() -> None:
    """Each time with another partition. Joined one by one, these took a minute of CPU."""
    topics = Topics()
    topics.put("t", 6)
    named = [TopicPartition("t", [number]) for number in range(60_000)]
    began = time.thread_time()
    found = named_partitions([*named, TopicPartition("none", [1])], topics)
    assert time.thread_time() - began < 5
    assert found == {topics.make_id("t"): frozenset(range(60_000))}


def test_a_group_of_another_type_is_not_found() -> None:
    table = Coordinator().shard.table
    table.groups["g"] = ShareGroup("g")
    assert table.of_type("g", ShareGroup) is table.groups["g"]
    with pytest.raises(KafkaError, match=r"Group g is not a consumer group\.") as e:
        table.of_type("g", ConsumerGroup)
    assert e.value.code is ErrorCode.GROUP_ID_NOT_FOUND
    with pytest.raises(KafkaError, match=r"Group h not found\."):
        table.of_type("h", ConsumerGroup)


def test_a_plain_producer_and_an_administrator_commit_as_no_member() -> None:
    group = ConsumerGroup("g")
    assert group.committing_member("", None, -1, transactional=False) is None
    group.put_member(ConsumerMember("a"))
    assert group.committing_member("", None, -1, transactional=True) is None
    assert group.committing_member("a", None, 0, transactional=False) is group.members["a"]
    with pytest.raises(KafkaError) as e:
        group.committing_member("", None, -1, transactional=False)
    assert e.value.code is ErrorCode.UNKNOWN_MEMBER_ID


class TestTimers:
    """Who is removed when, of a group that is put into the table by hand."""

    def setup_method(self) -> None:
        self.kafka = Coordinator()
        self.group = ConsumerGroup("g")
        self.group.put_member(ConsumerMember("a", member_epoch=3))
        self.kafka.shard.table.groups["g"] = self.group
        self.removed: list[tuple[str, int]] = []
        self.timers = MemberTimers(self.kafka.shard.table, ConsumerGroup, 1000, self.remove)

    def remove(self, group: ConsumerGroup, member_id: str, now_ms: int) -> Outcome:
        self.removed.append((member_id, now_ms))
        return Outcome()

    def test_a_silent_member_is_removed_once(self) -> None:
        start = self.kafka.now_ms
        self.timers.session("g", "a")
        self.kafka.advance(999)
        assert not self.removed
        self.kafka.advance(5000)
        assert self.removed == [("a", start + 1000)]

    def test_a_groups_own_session_timeout_wins_over_the_brokers_and_a_members_over_both(self) -> None:
        self.kafka.shard.table.overrides.put("g", {"consumer.session.timeout.ms": "3000"})
        start = self.kafka.now_ms
        self.timers.session("g", "a")
        self.kafka.advance(3000)
        self.timers.session("g", "a", 500)
        self.kafka.advance(500)
        assert self.removed == [("a", start + 3000), ("a", start + 3500)]

    def test_a_member_in_a_newer_epoch_has_revoked_in_time(self) -> None:
        self.timers.revocation("g", self.group.members["a"], 1000)
        self.group.put_member(ConsumerMember("a", member_epoch=4))
        self.kafka.advance(1000)
        assert not self.removed
        self.timers.revocation("g", self.group.members["a"], 1000)
        self.kafka.advance(1000)
        assert [member_id for member_id, _ in self.removed] == ["a"]

    def test_a_member_that_left_or_a_group_of_another_type_is_let_be(self) -> None:
        self.timers.session("g", "a")
        self.kafka.shard.table.groups["g"] = ShareGroup("g")
        self.kafka.advance(1000)
        self.timers.session("g", "a")
        self.timers.end_all("g", "a")
        self.kafka.shard.table.groups["g"] = self.group
        self.kafka.advance(1000)
        assert not self.removed


def test_records_without_epochs_count_from_the_members_own() -> None:
    assert with_epochs([1, 2], None, 7) == {1: 7, 2: 7}
    assert with_epochs([1, 2], [5], 7) == {1: 7, 2: 7}
    assert with_epochs([1, 2], [5, 6], 7) == {1: 5, 2: 6}


def test_a_topic_without_partitions_is_not_assigned() -> None:
    assert partitions_of([StoredPartitions(b"a", [2, 1]), StoredPartitions(b"b", [])]) == {
        b"a": frozenset({1, 2})
    }
