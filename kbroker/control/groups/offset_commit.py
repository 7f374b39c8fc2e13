"""OffsetCommit, TxnOffsetCommit and OffsetDelete."""

from collections.abc import Iterable

from kbroker.control.coordinator.machine import Outcome, Record
from kbroker.control.groups.classic_group import ClassicGroup
from kbroker.control.groups.classic_state import ClassicState
from kbroker.control.groups.commit_cache.cached_decisions import Renewal
from kbroker.control.groups.consumer_group.state import ConsumerGroup
from kbroker.control.groups.group import Group
from kbroker.control.groups.modern_group.state import NEW_PROTOCOL_FROM
from kbroker.control.groups.offset_record import CommittedOffset, offset_record, offset_tombstone
from kbroker.control.groups.rebalance import Rebalance, heartbeat_timer
from kbroker.control.groups.streams_group.state import StreamsGroup
from kbroker.control.groups.table import GroupTable
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kbroker.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kbroker.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

INT64_MIN = -(1 << 63)


def _expire_ms(now_ms: int, retention_ms: int) -> int:
    """The expiry of a commit with its own retention, -1 without one. As in Kafka the sum is an
    int64 that wraps."""
    return -1 if retention_ms == -1 else (now_ms + retention_ms - INT64_MIN) % (1 << 64) + INT64_MIN


class OffsetCommits:
    """Runs in: control. Owner: the GroupShard."""

    __slots__ = ("_rebalance", "_table")

    def __init__(self, table: GroupTable, rebalance: Rebalance) -> None:
        self._table = table
        self._rebalance = rebalance

    def commit(self, request: OffsetCommitRequest, api_version: int, now_ms: int) -> Outcome:
        """Outcome whose response is the OffsetCommitResponse.

        Raises KafkaError for the whole request: GROUP_ID_NOT_FOUND (v9+), ILLEGAL_GENERATION,
        UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, REBALANCE_IN_PROGRESS, STALE_MEMBER_EPOCH,
        UNSUPPORTED_VERSION.
        """
        group = self._validate(request, api_version)
        expire_ms = _expire_ms(now_ms, request.retention_time_ms)
        response = OffsetCommitResponse()
        records: list[Record] = []
        for topic in request.topics:
            answers: list[OffsetCommitResponsePartition] = []
            response.topics.append(OffsetCommitResponseTopic(topic.name, topic.topic_id, answers))
            for part in topic.partitions:
                epoch = request.generation_id_or_member_epoch
                self._validate_partition(group, request.member_id, epoch, topic.name, part)
                offset = CommittedOffset(
                    part.committed_offset,
                    part.committed_leader_epoch,
                    part.committed_metadata or "",
                    now_ms,
                    expire_ms,
                    topic.topic_id,
                )
                code = self._write(request.group_id, topic.name, part.partition_index, offset, records)
                answers.append(OffsetCommitResponsePartition(part.partition_index, code))
        return Outcome(records, response)

    def _validate(self, request: OffsetCommitRequest, api_version: int) -> Group | None:
        """The group; None when it is made by this commit."""
        group = self._table.groups.get(request.group_id)
        epoch = request.generation_id_or_member_epoch
        if group is None:
            if epoch < 0:
                return None  # a group of offsets alone, made by the replay of its first one
            if api_version >= NEW_PROTOCOL_FROM:
                raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} not found.")
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        group.validate_offset_commit(request.member_id, request.group_instance_id, epoch, False, api_version)
        if isinstance(group, ClassicGroup) and group.is_in(
            ClassicState.STABLE, ClassicState.PREPARING_REBALANCE
        ):
            member = group.members.get(request.member_id)
            if member is not None:
                self._rebalance.schedule_heartbeat(group, member)
        return group

    def _validate_partition(
        self,
        group: Group | None,
        member_id: str,
        epoch: int,
        topic: str,
        part: OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition,
    ) -> None:
        """Check that a member with an older epoch may still commit the partition (KIP-1251). Raises
        STALE_MEMBER_EPOCH, ILLEGAL_GENERATION."""
        if self._is_too_large(part.committed_metadata):
            return  # not committed: the partition alone is refused
        if isinstance(group, ConsumerGroup):
            topic_id = self._table.topics.id_of(topic)
            group.validate_partition_commit(member_id, epoch, topic_id, part.partition_index)
        elif isinstance(group, StreamsGroup):
            group.validate_partition_commit(member_id, epoch, topic, part.partition_index)

    def _is_too_large(self, metadata: str | None) -> bool:
        return len(metadata or "") > self._table.settings.offset_metadata_max_bytes

    def renewal(self, request: OffsetCommitRequest) -> Renewal | None:
        """The session that commits like this (just allowed) one extend; None when the next such
        commit may be decided differently although the group has not changed."""
        group = self._table.groups.get(request.group_id)
        if isinstance(group, ClassicGroup):
            member = group.members.get(request.member_id)
            if member is None or not group.is_in(ClassicState.STABLE, ClassicState.PREPARING_REBALANCE):
                return Renewal("", 0)
            return Renewal(heartbeat_timer(group.group_id, member.member_id), member.session_timeout_ms)
        if isinstance(group, ConsumerGroup):
            # with an older epoch each partition is checked by itself
            known = group.members.get(request.member_id)
            if known is None or known.member_epoch == request.generation_id_or_member_epoch:
                return Renewal("", 0)
        return None

    def commit_in_transaction(
        self, request: TxnOffsetCommitRequest, api_version: int, now_ms: int
    ) -> Outcome:
        """Outcome whose records belong into a batch of the request's producer id and epoch.

        Raises KafkaError for the whole request, as `commit` does.
        """
        self._validate_in_transaction(request, api_version)
        response = TxnOffsetCommitResponse()
        records: list[Record] = []
        for topic in request.topics:
            answers: list[TxnOffsetCommitResponsePartition] = []
            response.topics.append(TxnOffsetCommitResponseTopic(topic.name, answers))
            topic_id = self._table.topics.id_of(topic.name) or bytes(16)
            for part in topic.partitions:
                offset = CommittedOffset(
                    part.committed_offset,
                    part.committed_leader_epoch,
                    part.committed_metadata or "",
                    now_ms,
                    topic_id=topic_id,
                )
                code = self._write(request.group_id, topic.name, part.partition_index, offset, records)
                answers.append(TxnOffsetCommitResponsePartition(part.partition_index, code))
        return Outcome(records, response)

    def _validate_in_transaction(self, request: TxnOffsetCommitRequest, api_version: int) -> None:
        """Producers know no STALE_MEMBER_EPOCH: it is ILLEGAL_GENERATION for them."""
        group = self._table.groups.get(request.group_id)
        epoch = request.generation_id
        if group is None:
            if epoch >= 0:
                raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
            return
        try:
            group.validate_offset_commit(
                request.member_id, request.group_instance_id, epoch, True, api_version
            )
            for topic in request.topics:
                for part in topic.partitions:
                    self._validate_partition(group, request.member_id, epoch, topic.name, part)
        except KafkaError as error:
            if error.code is ErrorCode.STALE_MEMBER_EPOCH:
                raise KafkaError(ErrorCode.ILLEGAL_GENERATION) from error
            raise

    def _write(
        self, group_id: str, topic: str, partition: int, offset: CommittedOffset, records: list[Record]
    ) -> ErrorCode:
        """Add the record of an offset, unless its metadata is too large."""
        if self._is_too_large(offset.metadata):
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        records.append(offset_record(group_id, topic, partition, offset))
        return ErrorCode.NONE

    def delete(self, request: OffsetDeleteRequest) -> Outcome:
        """Outcome whose response is the OffsetDeleteResponse.

        Raises KafkaError for the whole request: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP.
        """
        group = self._table.group(request.group_id)
        group.validate_offset_delete()
        offsets = self._table.offsets
        response = OffsetDeleteResponse()
        records: list[Record] = []
        for topic in request.topics:
            subscribed = group.is_subscribed_to(topic.name)
            code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else ErrorCode.NONE
            indexes = [part.partition_index for part in topic.partitions]
            response.topics.append(
                OffsetDeleteResponseTopic(
                    topic.name, [OffsetDeleteResponsePartition(index, code) for index in indexes]
                )
            )
            if subscribed:
                continue
            for index in dict.fromkeys(indexes):
                if offsets.get(request.group_id, topic.name, index) is not None or offsets.is_pending(
                    request.group_id, topic.name, index
                ):
                    records.append(offset_tombstone(request.group_id, topic.name, index))
        return Outcome(records, response)


def refused(request: OffsetCommitRequest, code: ErrorCode) -> OffsetCommitResponse:
    """The answer to a request that failed as a whole: every partition carries the error."""
    return OffsetCommitResponse(
        topics=[failed_topic(topic, topic.partitions, code) for topic in request.topics]
    )


def failed_topic(
    topic: OffsetCommitRequestTopic, partitions: Iterable[OffsetCommitRequestPartition], code: ErrorCode
) -> OffsetCommitResponseTopic:
    """One topic of an answer whose partitions all carry the error."""
    parts = [OffsetCommitResponsePartition(part.partition_index, code) for part in partitions]
    return OffsetCommitResponseTopic(topic.name, topic.topic_id, parts)
