"""Committed offsets: who may commit, what is fetched, what is deleted, what expires."""

import pytest

from kbroker.control.groups.offset_record import CommittedOffset, offset_record, offset_tombstone
from kbroker.control.groups.settings import GroupSettings
from kbroker.protocol.coordinator_records.index import CONSUMER_OFFSETS
from kbroker.protocol.coordinator_records.offset_commit import OffsetCommitValue
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.leave_group import MemberIdentity
from kbroker.protocol.messages.offset_commit import OffsetCommitRequest
from kbroker.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kbroker.protocol.messages.offset_fetch import OffsetFetchRequestGroup
from kbroker.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from kbroker.protocol.record_types import decode_record
from tests.control.groups.consumer_members import Member, kafka_with
from tests.control.groups.coordinator import PARTITION, Coordinator

DAY_MS = 24 * 3600 * 1000
SUBSCRIPTION = b"\0\0" + b"\0\0\0\1" + b"\0\1t" + b"\xff\xff\xff\xff"
"""ConsumerProtocolSubscription v0 of topic t."""


class TestCommit:
    def test_anybody_may_commit_for_an_unknown_group(self) -> None:
        kafka = Coordinator()
        assert kafka.commit(42) == ErrorCode.NONE
        assert kafka.committed() == 42
        assert kafka.state() == "Empty"

    def test_the_records_are_those_of_apache_kafka(self) -> None:
        kafka = Coordinator()
        kafka.commit(42, metadata=None, topic_id=b"i" * 16)
        record = kafka.log[-1]
        assert record.key == b"\0\1\0\1g\0\1t\0\0\0\0"
        assert record.value is not None
        assert record.value[:2] == b"\0\4"
        assert decode_record(CONSUMER_OFFSETS, record.key, record.value)[1] == OffsetCommitValue(
            42, 3, "", kafka.now_ms, -1, b"i" * 16
        )

    def test_a_retention_of_its_own_is_written_in_version_1(self) -> None:
        kafka = Coordinator()
        kafka.commit(version=4, retention_ms=1000)
        assert kafka.log[-1].value is not None
        assert kafka.log[-1].value[:2] == b"\0\1"
        kafka.advance(999)
        kafka.expire_offsets()
        assert kafka.committed() == 7
        kafka.advance(1)
        kafka.expire_offsets()
        assert kafka.committed() == -1

    def test_a_retention_of_nothing_expires_at_once(self) -> None:
        kafka = Coordinator()
        kafka.commit(version=4, retention_ms=0)
        assert kafka.committed() == 7
        kafka.expire_offsets()
        assert kafka.committed() == -1

    def test_a_retention_beyond_an_int64_wraps_as_in_kafka(self) -> None:
        kafka = Coordinator()
        assert kafka.commit(version=4, retention_ms=(1 << 63) - 1) == ErrorCode.NONE
        assert kafka.committed() == 7
        kafka.expire_offsets()
        assert kafka.committed() == -1

    @pytest.mark.parametrize(
        ("version", "generation", "code"),
        [(8, 0, ErrorCode.ILLEGAL_GENERATION), (9, 0, ErrorCode.GROUP_ID_NOT_FOUND), (9, -1, ErrorCode.NONE)],
    )
    def test_a_generation_of_an_unknown_group(self, version: int, generation: int, code: ErrorCode) -> None:
        assert Coordinator().commit(generation=generation, version=version) == code

    @pytest.mark.parametrize(
        ("fields", "code"),
        [
            ({}, ErrorCode.NONE),
            ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
            ({"generation": 9}, ErrorCode.ILLEGAL_GENERATION),
            ({"member_id": "", "generation": -1}, ErrorCode.UNKNOWN_MEMBER_ID),
            ({"instance": "i1"}, ErrorCode.UNKNOWN_MEMBER_ID),
            ({"metadata": "x" * 4097}, ErrorCode.OFFSET_METADATA_TOO_LARGE),
            ({"metadata": "x" * 4096}, ErrorCode.NONE),
        ],
    )
    def test_a_commit_to_a_group_in_use_is_checked(self, fields: dict[str, object], code: ErrorCode) -> None:
        kafka = Coordinator()
        (member,), generation = kafka.stable_group()
        given = {"member_id": member, "generation": generation} | fields
        assert kafka.commit(**given) == code

    def test_not_while_the_assignment_is_awaited(self) -> None:
        kafka = Coordinator()
        member_id = kafka.new_member_id()
        kafka.send_join(member_id)
        kafka.advance(3000)
        assert kafka.commit(member_id=member_id, generation=1) == ErrorCode.REBALANCE_IN_PROGRESS

    def test_but_while_others_are_joining(self) -> None:
        kafka = Coordinator()
        (old,), generation = kafka.stable_group()
        kafka.send_join(kafka.new_member_id())
        assert kafka.commit(member_id=old, generation=generation) == ErrorCode.NONE

    def test_offsets_survive_a_restart_and_the_last_commit_wins(self) -> None:
        kafka = Coordinator()
        for offset in (1, 5, 3):
            kafka.commit(offset)
        assert kafka.restarted().committed() == 3

    def test_only_commits_in_the_members_epoch_are_repeated_without_a_check(self) -> None:
        kafka = kafka_with()
        member = Member(kafka, "m")
        for epoch in (member.epoch, member.epoch - 1):
            request = OffsetCommitRequest("g", generation_id_or_member_epoch=epoch, member_id="m")
            repeated = kafka.shard.repeatable_commits(request) is not None
            assert repeated == (epoch == member.epoch)

    def test_a_failed_append_commits_nothing(self) -> None:
        kafka = Coordinator()
        kafka.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
        assert kafka.commit() == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert kafka.committed() == -1


class TestFetch:
    def test_all_offsets_of_a_group_are_returned(self) -> None:
        kafka = Coordinator()
        kafka.commit(1, topic="a")
        kafka.commit(2, topic="a", partition=3)
        kafka.commit(3, topic="b")
        found = kafka.shard.fetch_offsets(OffsetFetchRequestGroup("g", topics=None), False)
        assert {
            (topic.name, part.partition_index): part.committed_offset
            for topic in found.topics
            for part in topic.partitions
        } == {("a", 0): 1, ("a", 3): 2, ("b", 0): 3}
        assert found.topics[0].partitions[0].committed_leader_epoch == 3

    def test_no_group_and_no_commit_are_no_errors(self) -> None:
        kafka = Coordinator()
        assert kafka.committed(group="none") == -1
        assert kafka.shard.fetch_offsets(OffsetFetchRequestGroup("none", topics=None), False).topics == []

    def test_offsets_of_an_earlier_topic_of_the_name_are_not_returned_by_id(self) -> None:
        kafka = Coordinator()
        kafka.commit(9, topic_id=b"1" * 16)
        assert kafka.committed(topic_id=b"1" * 16) == 9
        assert kafka.committed(topic_id=b"2" * 16) == -1
        assert kafka.committed() == 9


class TestTransactions:
    """The records that a transaction's coordinator lets us replay."""

    def pending(self, kafka: Coordinator, offset: int, producer_id: int = 5) -> None:
        record = offset_record("g", "t", 0, CommittedOffset(offset, -1, "", kafka.now_ms))
        kafka.shard.replay_in_transaction(PARTITION, producer_id, record.key, record.value)

    def test_an_open_transaction_makes_the_offset_unstable(self) -> None:
        kafka = Coordinator()
        kafka.commit(1)
        self.pending(kafka, 2)
        assert kafka.committed() == 1
        with pytest.raises(KafkaError, match="UNSTABLE_OFFSET_COMMIT"):
            kafka.committed(stable=True)
        everything = OffsetFetchRequestGroup("g", topics=None)
        shown = [kafka.shard.fetch_offsets(everything, stable).topics[0] for stable in (False, True)]
        assert [each.partitions[0].error_code for each in shown] == [0, ErrorCode.UNSTABLE_OFFSET_COMMIT]

    @pytest.mark.parametrize(("commit", "offset"), [(True, 2), (False, 1)])
    def test_the_end_of_the_transaction_decides(self, commit: bool, offset: int) -> None:
        kafka = Coordinator()
        kafka.commit(1)
        self.pending(kafka, 2)
        kafka.shard.replay_end_of_transaction(PARTITION, 5, commit)
        assert kafka.committed(stable=True) == offset

    def test_a_later_plain_commit_wins_over_an_earlier_transactional_one(self) -> None:
        kafka = Coordinator()
        self.pending(kafka, 2)
        kafka.commit(3)
        kafka.shard.replay_end_of_transaction(PARTITION, 5, True)
        assert kafka.committed() == 3

    def test_pending_offsets_do_not_expire_and_keep_the_group(self) -> None:
        kafka = Coordinator()
        kafka.commit(1)
        self.pending(kafka, 2)
        kafka.advance(30 * DAY_MS)
        kafka.expire_offsets()
        assert kafka.committed() == 1

    def test_a_group_whose_only_offsets_are_pending_is_kept(self) -> None:
        kafka = Coordinator()
        kafka.commit(topic="u", version=4, retention_ms=0)
        self.pending(kafka, 2)
        kafka.expire_offsets()
        assert kafka.committed("u") == -1
        assert kafka.shard.group_ids() == ["g"]

    def test_a_deleted_group_takes_its_pending_offsets_along(self) -> None:
        kafka = Coordinator()
        kafka.commit(topic="u")
        self.pending(kafka, 2)
        assert kafka.run(kafka.shard.delete("g")).error_code == ErrorCode.NONE
        kafka.shard.replay_end_of_transaction(PARTITION, 5, True)
        assert kafka.committed() == -1

    @pytest.mark.parametrize("with_group", [True, False])
    def test_pending_offsets_that_are_deleted_have_a_tombstone(self, with_group: bool) -> None:
        """A later coordinator reads the pending ones, the tombstone, then the transaction's end."""
        kafka = Coordinator()
        kafka.commit(topic="u")
        self.pending(kafka, 2)
        if with_group:
            assert kafka.run(kafka.shard.delete("g")).error_code == ErrorCode.NONE
        else:
            kafka.run(kafka.shard.partitions_deleted("g", [("t", 0), ("t", 1)], b"a deleted topic."))
        gone = [record.key for record in kafka.log if record.value is None]
        assert gone.count(offset_tombstone("g", "t", 0).key) == 1
        assert offset_tombstone("g", "t", 1).key not in gone
        again = Coordinator()
        self.pending(again, 2)
        for record in kafka.log:
            again.shard.replay(PARTITION, record.key, record.value, again.now_ms)
        again.shard.replay_end_of_transaction(PARTITION, 5, True)
        assert again.committed() == -1

    def test_generation_0_of_an_unknown_group_is_illegal(self) -> None:
        kafka = Coordinator()
        request = TxnOffsetCommitRequest(group_id="g", generation_id=0, member_id="")
        with pytest.raises(KafkaError, match="ILLEGAL_GENERATION"):
            kafka.shard.commit_offsets_in_transaction(request, 5, kafka.now_ms)

    def test_another_epoch_than_the_members_is_an_illegal_generation(self) -> None:
        kafka = kafka_with()
        member = Member(kafka, "m")
        request = TxnOffsetCommitRequest(group_id="g", generation_id=member.epoch + 1, member_id="m")
        with pytest.raises(KafkaError, match="ILLEGAL_GENERATION"):
            kafka.shard.commit_offsets_in_transaction(request, 5, kafka.now_ms)


def delete(kafka: Coordinator, topic: str, *partitions: int, group: str = "g") -> list[int]:
    request = OffsetDeleteRequest(
        group, [OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(each) for each in partitions])]
    )
    response = kafka.run(kafka.shard.delete_offsets(request))
    return [part.error_code for part in response.topics[0].partitions]


class TestDelete:
    def test_deletes_what_is_there_and_is_silent_about_the_rest(self) -> None:
        kafka = Coordinator()
        kafka.commit(1)
        assert delete(kafka, "t", 0, 1) == [0, 0]
        assert kafka.restarted().committed() == -1

    def test_a_partition_that_is_named_twice_is_deleted_once(self) -> None:
        kafka = Coordinator()
        kafka.commit(1)
        assert delete(kafka, "t", 0, 0) == [0, 0]
        assert [record.value is None for record in kafka.log] == [False, True]

    def test_offsets_that_the_group_reads_are_not_deleted(self) -> None:
        kafka = Coordinator()
        fields = {"protocols": (("range", SUBSCRIPTION),)}
        (member,), generation = kafka.stable_group(**fields)
        kafka.commit(1, member_id=member, generation=generation)
        kafka.commit(2, member_id=member, generation=generation, topic="other")
        assert delete(kafka, "t", 0) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]
        assert delete(kafka, "other", 0) == [0]
        assert (kafka.committed(), kafka.committed("other")) == (1, -1)

    def test_unknown_group_and_group_of_another_protocol(self) -> None:
        kafka = Coordinator()
        with pytest.raises(KafkaError, match="GROUP_ID_NOT_FOUND"):
            delete(kafka, "t", 0)
        joining = kafka.new_member_id(protocol_type="connect")
        kafka.send_join(joining, protocol_type="connect")
        with pytest.raises(KafkaError, match="NON_EMPTY_GROUP"):
            delete(kafka, "t", 0)

    def test_a_deleted_topic_takes_its_offsets_along(self) -> None:
        kafka = Coordinator()
        kafka.commit(1)
        kafka.commit(2, topic="u")
        assert kafka.shard.has_offsets_of("g", "t")
        kafka.run(kafka.shard.partitions_deleted("g", [("t", 0), ("t", 1)], b"a deleted topic."))
        assert (kafka.committed(), kafka.committed("u")) == (-1, 2)


class TestDeleteGroup:
    def code(self, kafka: Coordinator, group: str = "g") -> int:
        return int(kafka.run(kafka.shard.delete(group)).error_code)

    def test_an_empty_group_goes_with_its_offsets(self) -> None:
        kafka = Coordinator()
        (member,), generation = kafka.stable_group()
        kafka.commit(1, member_id=member, generation=generation)
        assert self.code(kafka) == ErrorCode.NON_EMPTY_GROUP
        kafka.leave(MemberIdentity(member))
        assert self.code(kafka) == ErrorCode.NONE
        assert kafka.shard.group_ids() == []
        assert kafka.restarted().shard.group_ids() == []
        assert kafka.committed() == -1

    def test_unknown_groups_are_refused(self) -> None:
        kafka = Coordinator()
        assert self.code(kafka) == ErrorCode.GROUP_ID_NOT_FOUND
        assert self.code(kafka, "") == ErrorCode.GROUP_ID_NOT_FOUND


class TestExpiration:
    """KIP-211."""

    def test_a_standalone_commit_expires_by_its_own_time_and_takes_the_group_along(self) -> None:
        kafka = Coordinator()
        kafka.commit(1)
        kafka.advance(7 * DAY_MS - 1)
        kafka.expire_offsets()
        assert kafka.committed() == 1
        kafka.advance(1)
        kafka.expire_offsets()
        assert kafka.committed() == -1
        assert kafka.shard.group_ids() == []

    def test_a_group_in_use_without_offsets_stays(self) -> None:
        kafka = Coordinator()
        (member,), generation = kafka.stable_group()
        written = len(kafka.log)
        kafka.expire_offsets()
        assert len(kafka.log) == written
        assert kafka.heartbeat(member, generation) == ErrorCode.NONE

    def test_a_groups_offsets_expire_from_when_it_became_empty(self) -> None:
        kafka = Coordinator(GroupSettings(offsets_retention_ms=DAY_MS))
        (member,), generation = kafka.stable_group(session_timeout_ms=1_800_000)
        kafka.commit(1, member_id=member, generation=generation)
        for _ in range(100):
            kafka.advance(1_700_000)
            assert kafka.heartbeat(member, generation) == ErrorCode.NONE
        kafka.leave(MemberIdentity(member))
        kafka.advance(DAY_MS - 1)
        kafka.expire_offsets()
        assert kafka.committed() == 1
        kafka.advance(1)
        kafka.expire_offsets()
        assert kafka.shard.group_ids() == []

    def test_offsets_of_a_stable_group_expire_only_for_unsubscribed_topics(self) -> None:
        kafka = Coordinator(GroupSettings(offsets_retention_ms=60_000))
        fields = {"protocols": (("range", SUBSCRIPTION),), "session_timeout_ms": 1_800_000}
        (member,), generation = kafka.stable_group(**fields)
        kafka.commit(1, member_id=member, generation=generation)
        kafka.commit(2, member_id=member, generation=generation, topic="old")
        kafka.advance(60_000)
        kafka.expire_offsets()
        assert (kafka.committed(), kafka.committed("old")) == (1, -1)

    def test_offsets_that_a_stable_group_no_longer_reads_expire_by_their_commit(self) -> None:
        kafka = Coordinator(GroupSettings(offsets_retention_ms=60_000))
        fields = {"protocols": (("range", SUBSCRIPTION),), "session_timeout_ms": 1_800_000}
        (member,), generation = kafka.stable_group(**fields)
        kafka.advance(50_000)
        kafka.commit(2, member_id=member, generation=generation, topic="old")
        kafka.advance(59_999)
        kafka.expire_offsets()
        assert kafka.committed("old") == 2
        kafka.advance(1)
        kafka.expire_offsets()
        assert kafka.committed("old") == -1

    def test_nothing_expires_of_a_group_that_rebalances(self) -> None:
        kafka = Coordinator(GroupSettings(offsets_retention_ms=60_000))
        fields = {
            "protocols": (("range", SUBSCRIPTION),),
            "session_timeout_ms": 1_800_000,
            "rebalance_timeout_ms": 1_800_000,
        }
        (member,), generation = kafka.stable_group(**fields)
        kafka.commit(2, member_id=member, generation=generation, topic="old")
        kafka.send_join(kafka.new_member_id(**fields), **fields)
        assert kafka.state() == "PreparingRebalance"
        kafka.advance(120_000)
        kafka.expire_offsets()
        assert kafka.committed("old") == 2

    def test_nothing_expires_of_a_group_whose_subscription_cannot_be_read(self) -> None:
        kafka = Coordinator(GroupSettings(offsets_retention_ms=60_000))
        (member,), generation = kafka.stable_group(session_timeout_ms=1_800_000)
        kafka.commit(1, member_id=member, generation=generation)
        kafka.advance(60_000)
        kafka.expire_offsets()
        assert kafka.committed() == 1
