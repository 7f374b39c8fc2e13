"""Offsets are removed in batches that their topic takes, however many there are."""

import pytest

from kbroker.control.groups.offset_expiration import STEP_BYTES, steps
from kbroker.control.groups.offset_record import CommittedOffset, offset_record
from kbroker.protocol.messages.offset_fetch import OffsetFetchRequestGroup
from kbroker.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.control.groups.coordinator import PARTITION, Coordinator

LONG_ID = "g" * 20_000
COUNT = 100
DELETED_ID = b"a deleted topic."


def committed() -> Coordinator:
    kafka = Coordinator()
    for partition in range(COUNT):
        record = offset_record(LONG_ID, "t", partition, CommittedOffset(1, -1, "", kafka.now_ms))
        kafka.shard.replay(0, record.key, record.value, kafka.now_ms)
    return kafka


def test_expired_offsets_of_a_group_are_removed_step_by_step() -> None:
    """A batch of all of them would be refused, again and again."""
    kafka = committed()
    kafka.advance(kafka.settings.offsets_retention_ms)
    taken = 0
    while LONG_ID in kafka.shard.table.groups:
        outcome = kafka.shard.expire_offsets(LONG_ID, kafka.now_ms)
        assert 0 < sum(len(record.key) for record in outcome.records) < STEP_BYTES + 2 * 20_100
        kafka.run(outcome)
        taken += 1
    assert 1 < taken <= steps(LONG_ID, COUNT)
    assert not kafka.shard.table.offsets.has_group(LONG_ID)


def test_an_offset_of_a_transaction_expires_as_long_after_its_commit_as_any_other() -> None:
    kafka = Coordinator()
    topics = [TxnOffsetCommitRequestTopic("t", [TxnOffsetCommitRequestPartition(0, 2)])]
    request = TxnOffsetCommitRequest("tx", "g", 5, 0, topics=topics)
    (record,) = kafka.shard.commit_offsets_in_transaction(request, 3, kafka.now_ms).records
    kafka.shard.replay_in_transaction(PARTITION, 5, record.key, record.value)
    kafka.shard.replay_end_of_transaction(PARTITION, 5, True)
    for elapsed_ms, offset in ((kafka.settings.offsets_retention_ms - 1, 2), (1, -1)):
        kafka.advance(elapsed_ms)
        kafka.expire_offsets()
        assert kafka.committed() == offset


def test_offsets_of_a_deleted_topic_are_removed_step_by_step() -> None:
    kafka = committed()
    pairs = [("t", partition) for partition in range(COUNT)]
    taken = 0
    while kafka.shard.has_offsets_of(LONG_ID, "t"):
        outcome = kafka.shard.partitions_deleted(LONG_ID, pairs, DELETED_ID)
        assert 0 < sum(len(record.key) for record in outcome.records) < STEP_BYTES + 20_100
        kafka.run(outcome)
        taken += 1
    assert 1 < taken <= steps(LONG_ID, COUNT)


def test_offsets_of_the_next_topic_of_a_deleted_ones_name_stay() -> None:
    """Very many groups may have offsets of the deleted topic. Consumers of the next one commit
    before the last of these is removed."""
    kafka = Coordinator()
    kafka.commit(1, partition=0, topic_id=DELETED_ID)
    kafka.commit(2, partition=1, topic_id=b"the next topic's")
    kafka.commit(3, partition=2)
    kafka.run(kafka.shard.partitions_deleted("g", [("t", index) for index in range(3)], DELETED_ID))
    assert [kafka.committed(partition=index) for index in range(3)] == [-1, 2, -1]


@pytest.mark.parametrize("has_old", [False, True])
def test_pending_offsets_of_the_next_topic_of_a_deleted_ones_name_stay(has_old: bool) -> None:
    """A tombstone removed them, and the commit of their transaction then committed nothing."""
    kafka = Coordinator()
    if has_old:
        kafka.commit(1, topic_id=DELETED_ID)
    for partition, topic_id in enumerate((b"the next topic's", DELETED_ID)):
        offset = CommittedOffset(9, -1, "", kafka.now_ms, topic_id=topic_id)
        record = offset_record("g", "t", partition, offset)
        kafka.shard.replay_in_transaction(PARTITION, 5, record.key, record.value)
    kafka.run(kafka.shard.partitions_deleted("g", [("t", 0), ("t", 1)], DELETED_ID))
    kafka.shard.replay_end_of_transaction(PARTITION, 5, True)
    assert [kafka.committed(partition=index) for index in (0, 1)] == [9, -1]


@pytest.mark.parametrize("subscribed", [False, True])
def test_an_offset_of_a_deleted_topic_is_not_left_to_the_next_one_by_an_aborted_transaction(
    subscribed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was not removed, because a tombstone also removes pending offsets, and consumers of the
    next topic began there."""
    kafka = Coordinator()
    kafka.commit(7, topic_id=DELETED_ID)
    kafka.topics.put("t", 1)
    offset = CommittedOffset(9, -1, "", kafka.now_ms, topic_id=kafka.topics.make_id("t"))
    record = offset_record("g", "t", 0, offset)
    kafka.shard.replay_in_transaction(PARTITION, 5, record.key, record.value)
    kafka.run(kafka.shard.partitions_deleted("g", [("t", 0)], DELETED_ID))
    group = kafka.shard.table.groups["g"]
    monkeypatch.setattr(type(group), "is_subscribed_to", lambda *_: subscribed)
    assert kafka.shard.expire_offsets("g", kafka.now_ms).records == []
    kafka.shard.replay_end_of_transaction(PARTITION, 5, False)
    assert kafka.committed() == -1
    assert kafka.shard.fetch_offsets(OffsetFetchRequestGroup("g", topics=None), False).topics == []
    kafka.run(kafka.shard.expire_offsets("g", kafka.now_ms))
    assert kafka.shard.table.offsets.get("g", "t", 0) is None


def test_few_offsets_take_one_operation() -> None:
    assert steps("g", 500) == 1
