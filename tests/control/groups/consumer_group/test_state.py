"""KIP-848 groups: static members, assignors, expressions, restarts, committed offsets."""

from typing import Any

import pytest

from kbroker.control.groups.consumer_group.member import ConsumerMember
from kbroker.control.groups.consumer_group.state import ConsumerGroup
from kbroker.control.groups.settings import GroupSettings
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kbroker.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.control.groups.consumer_members import INTERVAL_MS, Member, kafka_with, settle
from tests.control.groups.coordinator import Coordinator


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

    def test_the_holder_of_an_instance_id_may_not_join_again_before_it_left(self) -> None:
        kafka = kafka_with()
        holder = Member(kafka, "a", instance="i")
        with pytest.raises(KafkaError, match="owned by a member") as error:
            Member(kafka, "a", instance="i")
        assert error.value.code is ErrorCode.UNRELEASED_INSTANCE_ID
        assert holder.beat() == holder.owned

    def test_a_member_that_left_may_be_back_under_its_own_id(self) -> None:
        kafka = kafka_with()
        first, second = Member(kafka, "a"), Member(kafka, "b", instance="i")
        settle(kafka, first, second)
        described = kafka.described()
        kafka.beat("b", -2, instance="i")
        back = Member(kafka, "b", instance="i")
        assert (back.epoch, back.owned) == (second.epoch, second.owned)
        assert kafka.described() == described
        assert kafka.restarted().described() == described

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

    def test_topics_that_the_member_may_not_see_are_not_matched(self) -> None:
        kafka = kafka_with(**{"orders.eu": 1, "orders.hidden": 1})
        member = Member(kafka, "a", regex=r"orders\..*", sees=lambda name: "hidden" not in name)
        kafka.advance(0)
        assert member.beat() == {"orders.eu": [0]}

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

    def test_a_topic_that_is_created_while_they_are_matched_is_found_next(self) -> None:
        kafka = kafka_with(**{"orders.eu": 1})

        def sees(_: str) -> bool:
            kafka.topics.put("orders.us", 1)
            return True

        member = Member(kafka, "a", regex=r"orders\..*", sees=sees)
        kafka.advance(INTERVAL_MS)
        assert member.beat() == {"orders.eu": [0]}
        kafka.advance(10_001)
        member.beat()
        kafka.advance(INTERVAL_MS)
        assert member.beat() == {"orders.eu": [0], "orders.us": [0]}

    def test_a_member_that_joins_after_the_last_one_left_need_not_wait(self) -> None:
        kafka = kafka_with(**{"orders.eu": 1})
        Member(kafka, "a", regex=r"orders\..*")
        kafka.beat("a", -1)
        kafka.advance(0)
        member = Member(kafka, "b", regex=r"orders\..*")
        kafka.advance(0)
        kafka.advance(INTERVAL_MS)
        assert member.beat() == {"orders.eu": [0]}

    def test_an_unused_expression_is_forgotten(self) -> None:
        kafka = kafka_with(**{"orders.eu": 1, "t": 1})
        member = Member(kafka, "a", regex="orders.*")
        kafka.advance(INTERVAL_MS)
        member.beat()
        member.beat(regex="", topics=["t"])
        kafka.advance(INTERVAL_MS)
        member.owned = {}
        assert member.beat() == {"t": [0]}
        assert kafka.restarted().shard.table.groups["g"].regexes == {}  # type: ignore[attr-defined]

    def test_an_expression_is_kept_as_long_as_a_member_uses_it(self) -> None:
        kafka = kafka_with(**{"orders.eu": 2})
        members = [Member(kafka, name, regex="orders.*") for name in "ab"]
        settle(kafka, *members)
        for name, left in (("b", ["orders.*"]), ("a", [])):
            kafka.beat(name, -1)
            groups = kafka.restarted().shard.table.groups
            assert list(groups["g"].regexes) == left  # type: ignore[attr-defined]


class TestChangedTopics:
    def test_a_change_that_could_not_be_written_is_noticed_again(self) -> None:
        kafka = kafka_with(t=1)
        member = Member(kafka, "a")
        settle(kafka, member)
        kafka.topics.put("t", 2)
        kafka.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
        with pytest.raises(KafkaError, match="COORDINATOR_NOT_AVAILABLE"):
            member.beat()
        kafka.append_error = ErrorCode.NONE
        settle(kafka, member)
        assert member.owned == {"t": [0, 1]}


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

    def test_an_older_epoch_may_commit_its_own_partitions(self) -> None:
        """KIP-1251: a commit that crosses a rebalance is not lost."""
        kafka = kafka_with(t=1)
        Member(kafka, "a")
        kafka.topics.put("t", 2)
        kafka.advance(INTERVAL_MS)
        assert kafka.beat("a", 2).member_epoch == 3
        assert self.commit(kafka, 2, partition=0) == ErrorCode.NONE
        assert self.commit(kafka, 2, partition=1) == ErrorCode.STALE_MEMBER_EPOCH

    def test_an_older_epoch_commits_no_other_partitions_in_a_transaction(self) -> None:
        kafka = kafka_with(t=1)
        Member(kafka, "a")
        kafka.topics.put("t", 2)
        kafka.advance(INTERVAL_MS)
        kafka.beat("a", 2)

        def commit(*partitions: int) -> None:
            parts = [TxnOffsetCommitRequestPartition(each, 5) for each in partitions]
            topics = [TxnOffsetCommitRequestTopic("t", parts)]
            request = TxnOffsetCommitRequest("i", "g", 1, 0, 2, "a", topics=topics)
            kafka.shard.commit_offsets_in_transaction(request, 5, kafka.now_ms)

        commit(0)
        for refused in ((1,), (0, 1)):
            with pytest.raises(KafkaError, match="ILLEGAL_GENERATION"):
                commit(*refused)

    def test_too_large_metadata_is_the_error_of_its_partition_whatever_the_epoch(self) -> None:
        """The other partition, which an older epoch may commit, is committed."""
        kafka = kafka_with(t=1)
        Member(kafka, "a")
        kafka.topics.put("t", 2)
        kafka.advance(INTERVAL_MS)
        kafka.beat("a", 2)
        large = "x" * 4097
        parts = [OffsetCommitRequestPartition(0, 5), OffsetCommitRequestPartition(1, 5, -1, large)]
        topics = [OffsetCommitRequestTopic("t", kafka.topics.id_of("t") or b"", parts)]
        commit = OffsetCommitRequest("g", 2, "a", topics=topics)
        plain: Any = kafka.shard.commit_offsets(commit, 9, kafka.now_ms)
        txn_parts = [TxnOffsetCommitRequestPartition(0, 5), TxnOffsetCommitRequestPartition(1, 5, -1, large)]
        txn_topics = [TxnOffsetCommitRequestTopic("t", txn_parts)]
        in_transaction = TxnOffsetCommitRequest("i", "g", 1, 0, 2, "a", topics=txn_topics)
        pending: Any = kafka.shard.commit_offsets_in_transaction(in_transaction, 5, kafka.now_ms)
        for outcome in (plain, pending):
            codes = [part.error_code for part in outcome.response.topics[0].partitions]
            assert codes == [ErrorCode.NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE]
            assert len(outcome.records) == 1

    def test_offsets_of_subscribed_topics_neither_expire_nor_are_deleted(self) -> None:
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


TOPIC_ID = bytes(range(16))


def test_a_partition_to_revoke_may_be_committed_since_its_epoch() -> None:
    """KIP-1251: it is still the member's until it is given up."""
    group = ConsumerGroup("g")
    group.put_member(
        ConsumerMember("a", 7, assigned={TOPIC_ID: {0: 5}}, pending_revocation={TOPIC_ID: {1: 6}})
    )
    for partition, epoch in ((0, 5), (0, 7), (1, 6), (1, 7)):
        group.validate_partition_commit("a", epoch, TOPIC_ID, partition)
    for partition, epoch in ((0, 4), (1, 5), (2, 6)):
        with pytest.raises(KafkaError):
            group.validate_partition_commit("a", epoch, TOPIC_ID, partition)


def test_a_member_that_goes_gives_up_only_what_no_other_has_claimed() -> None:
    group = ConsumerGroup("g")
    group.put_member(ConsumerMember("a", 5, assigned={TOPIC_ID: {0: 5, 1: 5}}))
    group.put_member(ConsumerMember("b", 6, assigned={TOPIC_ID: {1: 6}}))
    assert [group.owner_epoch(TOPIC_ID, partition) for partition in (0, 1)] == [5, 6]
    group.remove_member("a")
    assert [group.owner_epoch(TOPIC_ID, partition) for partition in (0, 1)] == [-1, 6]


def test_an_instance_id_stays_that_of_the_member_that_took_it() -> None:
    group = ConsumerGroup("g")
    for member_id in ("a", "b"):
        group.put_member(ConsumerMember(member_id, 5, instance_id="i"))
    group.remove_member("a")
    assert group.static_members == {"i": "b"}
    group.remove_member("b")
    assert group.static_members == {}


def test_partitions_that_a_static_member_had_to_revoke_are_free_when_it_leaves() -> None:
    kafka = kafka_with()
    away, other = Member(kafka, "b", instance="i"), Member(kafka, "a")
    assert (len(away.owned["t"]), other.owned) == (6, {})
    kafka.advance(INTERVAL_MS)
    away.beat()
    other.beat()
    assert not any(other.owned.values())
    kafka.beat("b", -2, instance="i")
    other.beat()
    assert len(other.owned["t"]) == 3
