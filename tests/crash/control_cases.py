"""Requests during which control crashes: the requests before each, the request itself, and the
failpoints."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kbroker.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kbroker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kbroker.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kbroker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kbroker.protocol.messages.delete_groups import DeleteGroupsRequest
from kbroker.protocol.messages.delete_topics import DeleteTopicsRequest
from kbroker.protocol.messages.end_txn import EndTxnRequest
from kbroker.protocol.messages.heartbeat import HeartbeatRequest
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from kbroker.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kbroker.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kbroker.protocol.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from kbroker.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kbroker.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kbroker.protocol.schema import Struct
from tests.compat.group_requests import commit_request, join_request, sync_request
from tests.compat.share_scripts import configure, produce, wake
from tests.compat.share_talk import ShareMember
from tests.compat.transaction_talk import TransactionTalk

MEMBER_ID = "AAAAAAAAAAAAAAAAAAAAAA"
LOGGED = ("pushed", "appended", "answering")
"""Crash points of a request that is answered when its record is in the log."""


@dataclass
class Asked:
    """A request and its sender: a separate connection, or the member that has a session."""

    api: ApiKey
    version: int
    request: Struct
    member: ShareMember | None = None

    def ask(self, talk: TransactionTalk) -> Any:
        if self.member is not None:
            return self.member.ask(self.api, self.version, self.request)
        return talk.peer.ask(self.api, self.version, self.request)


@dataclass(frozen=True)
class Case:
    """before: the earlier requests, and the request itself. undone_at: failpoints at which the
    request may have had no effect, because its change is not in a log yet. then: requests that both
    twins get afterwards."""

    name: str
    before: Callable[[TransactionTalk], Asked]
    places: tuple[str, ...]
    undone_at: tuple[str, ...] = ("pushed",)
    then: Callable[[TransactionTalk], None] = field(default=lambda _: None)


def topic(talk: TransactionTalk) -> str:
    return f"{talk.prefix}-t"


def joined(talk: TransactionTalk) -> tuple[str, int]:
    """One member, waiting for its assignment."""
    member = talk.ask("id", ApiKey.JOIN_GROUP, 9, join_request(talk.group())).member_id
    answer = talk.ask("join", ApiKey.JOIN_GROUP, 9, join_request(talk.group(), member))
    return member, answer.generation_id


def stable(talk: TransactionTalk) -> tuple[str, int]:
    """One member with its assignment."""
    member, generation = joined(talk)
    request = sync_request(talk.group(), generation, member, {member: b"part"})
    assert talk.ask("sync", ApiKey.SYNC_GROUP, 5, request).error_code == 0
    return member, generation


def first_join(talk: TransactionTalk) -> Asked:
    return Asked(ApiKey.JOIN_GROUP, 9, join_request(talk.group()))


def rejoin(talk: TransactionTalk) -> Asked:
    return Asked(ApiKey.JOIN_GROUP, 9, join_request(talk.group(), stable(talk)[0]))


def sync(talk: TransactionTalk) -> Asked:
    member, generation = joined(talk)
    return Asked(ApiKey.SYNC_GROUP, 5, sync_request(talk.group(), generation, member, {member: b"part"}))


def heartbeat(talk: TransactionTalk) -> Asked:
    member, generation = stable(talk)
    return Asked(ApiKey.HEARTBEAT, 4, HeartbeatRequest(talk.group(), generation, member))


def leave(talk: TransactionTalk) -> Asked:
    member, _ = stable(talk)
    return Asked(ApiKey.LEAVE_GROUP, 5, LeaveGroupRequest(talk.group(), "", [MemberIdentity(member)]))


def commit(talk: TransactionTalk) -> Asked:
    member, generation = stable(talk)
    first = commit_request(talk.group(), topic(talk), 3, member, generation)
    talk.ask("commit", ApiKey.OFFSET_COMMIT, 8, first)
    second = commit_request(talk.group(), topic(talk), 5, member, generation)
    return Asked(ApiKey.OFFSET_COMMIT, 8, second)


def commit_again(talk: TransactionTalk) -> Asked:
    """The third commit of a kind no longer reaches the machine."""
    member, generation = stable(talk)
    for offset in (3, 4):
        before = commit_request(talk.group(), topic(talk), offset, member, generation)
        talk.ask("commit", ApiKey.OFFSET_COMMIT, 8, before)
    return Asked(ApiKey.OFFSET_COMMIT, 8, commit_request(talk.group(), topic(talk), 5, member, generation))


def offset_delete(talk: TransactionTalk) -> Asked:
    talk.ask("commit", ApiKey.OFFSET_COMMIT, 8, commit_request(talk.group(), topic(talk), 3))
    topics = [OffsetDeleteRequestTopic(topic(talk), [OffsetDeleteRequestPartition(0)])]
    return Asked(ApiKey.OFFSET_DELETE, 0, OffsetDeleteRequest(talk.group(), topics))


def delete_groups(talk: TransactionTalk) -> Asked:
    talk.ask("commit", ApiKey.OFFSET_COMMIT, 8, commit_request(talk.group(), topic(talk), 3))
    return Asked(ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest([talk.group()]))


def consumer_heartbeat(talk: TransactionTalk) -> Asked:
    request = ConsumerGroupHeartbeatRequest(
        talk.group(),
        MEMBER_ID,
        0,
        None,
        None,
        60_000,
        [topic(talk)],
        server_assignor="uniform",
        topic_partitions=[],
    )
    return Asked(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, request)


def consumer_leave(talk: TransactionTalk) -> Asked:
    assert consumer_heartbeat(talk).ask(talk).error_code == 0
    request = ConsumerGroupHeartbeatRequest(talk.group(), MEMBER_ID, -1)
    return Asked(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, request)


def share_heartbeat(talk: TransactionTalk) -> Asked:
    wake(talk, topic(talk))
    request = ShareGroupHeartbeatRequest(talk.group(), MEMBER_ID, 0, None, [topic(talk)])
    return Asked(ApiKey.SHARE_GROUP_HEARTBEAT, 1, request)


def share_acknowledge(talk: TransactionTalk) -> Asked:
    wake(talk, topic(talk))
    configure(talk, talk.group(), share_auto_offset_reset="earliest")
    produce(talk, "t", 6)
    member = ShareMember(talk, talk.group(), "a")
    topic_id = talk.peer.topic_id(topic(talk))
    while not (found := member.heartbeat("joins", [topic(talk)])).assignment or (
        not found.assignment.topic_partitions
    ):
        pass
    for _ in range(50):
        answer = member.fetch("fetch", topic_id)
        parts = [part for each in answer.responses for part in each.partitions if part.acquired_records]
        if parts:
            break
    assert parts
    batches = [AcknowledgementBatch(0, 3, [1])]
    request = ShareAcknowledgeRequest(
        talk.group(),
        member.member_id,
        member.session_epoch,
        topics=[AcknowledgeTopic(topic_id, [AcknowledgePartition(0, batches)])],
    )
    return Asked(ApiKey.SHARE_ACKNOWLEDGE, 1, request, member)


def init_producer_id(talk: TransactionTalk) -> Asked:
    return Asked(ApiKey.INIT_PRODUCER_ID, 5, InitProducerIdRequest(talk.group("t"), 60_000))


def init_producer_id_again(talk: TransactionTalk) -> Asked:
    talk.init("init")
    return init_producer_id(talk)


def add_partitions(talk: TransactionTalk) -> Asked:
    topics = [AddPartitionsToTxnTopic(topic(talk), [0])]
    request = AddPartitionsToTxnRequest(talk.group("t"), *talk.init("init"), topics)
    return Asked(ApiKey.ADD_PARTITIONS_TO_TXN, 3, request)


def add_offsets(talk: TransactionTalk) -> Asked:
    request = AddOffsetsToTxnRequest(talk.group("t"), *talk.init("init"), talk.group())
    return Asked(ApiKey.ADD_OFFSETS_TO_TXN, 3, request)


def txn_offset_commit(talk: TransactionTalk) -> Asked:
    producer = talk.init("init")
    talk.add_offsets("offsets", 3, producer, "g")
    parts = [TxnOffsetCommitRequestPartition(0, 7, committed_metadata="m")]
    request = TxnOffsetCommitRequest(
        talk.group("t"),
        talk.group(),
        *producer,
        topics=[TxnOffsetCommitRequestTopic(topic(talk), parts)],
    )
    return Asked(ApiKey.TXN_OFFSET_COMMIT, 3, request)


def abort_open(talk: TransactionTalk) -> None:
    """A new incarnation of the producer aborts the open transaction of the previous one."""
    talk.init("init after")
    talk.completed()


def end(commit: bool, version: int) -> Callable[[TransactionTalk], Asked]:
    def before(talk: TransactionTalk) -> Asked:
        producer = talk.init("init")
        talk.add("add", 3, producer, {"t": [0]})
        talk.produce("produce", 9, producer, "t", 0, 0)
        talk.add_offsets("offsets", 3, producer, "g")
        talk.commit_offsets("commit", 3, producer, "g", "t", 9)
        return Asked(ApiKey.END_TXN, version, EndTxnRequest(talk.group("t"), *producer, commit))

    return before


def create_topics(talk: TransactionTalk) -> Asked:
    request = CreateTopicsRequest([CreatableTopic(f"{talk.prefix}-new", 3, 1)], 30_000)
    return Asked(ApiKey.CREATE_TOPICS, 7, request)


def create_partitions(talk: TransactionTalk) -> Asked:
    request = CreatePartitionsRequest([CreatePartitionsTopic(topic(talk), 4, None)], 30_000)
    return Asked(ApiKey.CREATE_PARTITIONS, 3, request)


def delete_topics(talk: TransactionTalk) -> Asked:
    return Asked(ApiKey.DELETE_TOPICS, 5, DeleteTopicsRequest(topic_names=[topic(talk)], timeout_ms=30_000))


CASES = (
    # A rebalance is in no log before its SyncGroup: all members rejoin, as in Apache Kafka.
    Case("first JoinGroup", first_join, ("answering",), ("answering",)),
    Case("JoinGroup again", rejoin, ("answering",), ("answering",)),
    Case("SyncGroup", sync, LOGGED),
    Case("Heartbeat", heartbeat, ("answering",)),
    Case("LeaveGroup", leave, ("pushed", "answering"), ("pushed", "answering")),
    Case("OffsetCommit", commit, LOGGED),
    Case("OffsetCommit that passes", commit_again, LOGGED),
    Case("OffsetDelete", offset_delete, LOGGED),
    Case("DeleteGroups", delete_groups, LOGGED),
    Case("ConsumerGroupHeartbeat", consumer_heartbeat, LOGGED),
    Case("ConsumerGroupHeartbeat that leaves", consumer_leave, LOGGED),
    Case("ShareGroupHeartbeat", share_heartbeat, LOGGED),
    Case("ShareAcknowledge", share_acknowledge, LOGGED),
    Case("InitProducerId", init_producer_id, LOGGED),
    Case("InitProducerId again", init_producer_id_again, LOGGED),
    Case("AddPartitionsToTxn", add_partitions, LOGGED, then=abort_open),
    Case("AddOffsetsToTxn", add_offsets, LOGGED, then=abort_open),
    Case("TxnOffsetCommit", txn_offset_commit, LOGGED, then=abort_open),
    Case("EndTxn that commits", end(True, 4), (*LOGGED, "pushed-2", "appended-2", "appended-3")),
    Case("EndTxn that aborts", end(False, 4), LOGGED),
    Case("EndTxn v5", end(True, 5), LOGGED),
    Case("CreateTopics", create_topics, ("stored", "answering"), ()),
    Case("CreatePartitions", create_partitions, ("stored", "answering"), ()),
    Case("DeleteTopics", delete_topics, ("stored", "answering"), ()),
)
