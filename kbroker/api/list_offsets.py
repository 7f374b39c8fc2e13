"""ListOffsets (key 2), v1-11: offsets by position or by time.

v1 one offset per partition (v0 was removed in Kafka 4.0); v2 isolation level; v4 leader epochs; v5
OFFSET_NOT_AVAILABLE (KIP-207); v6 flexible; v7 -3 is the record with the largest timestamp; v8 -4
the earliest local offset; v9 -5 the last tiered offset (KIP-1005); v10 timeout; v11 -6 the earliest
offset that waits for tiering (KIP-1023). Without tiered storage -4 equals -2, and -5 and -6 find
nothing. Nothing found is offset -1, timestamp -1, no error. The leader epoch is that of the record.
"""

from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from kbroker.api.cached_answers import cached_answers
from kbroker.api.context import RequestContext
from kbroker.api.later import Answer, of_distinct, then
from kbroker.api.partition_check import check_leader_epoch, check_state, online
from kbroker.api.row import REPEATED, Api, FastPath
from kbroker.control.broker import Broker
from kbroker.control.coordinator.machine import Deferred
from kbroker.control.metadata.catalogue import Partition
from kbroker.ipc.layout import Slot
from kbroker.log.reader import LogReader
from kbroker.log.timestamps import TimestampOffset, locate_timestamp, max_timestamp
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.isolation import ISOLATION_LEVELS, READ_COMMITTED
from kbroker.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kbroker.protocol.slices import Repeated

API = Api(
    ApiKey.LIST_OFFSETS,
    1,
    11,
    fast_paths=(FastPath("net/local_answers/list_offsets_kernel.py", "ends of logs"), REPEATED),
)

Words = NDArray[np.int64]

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = range(-1, -7, -1)
FIRST_VERSION = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
AT_ONCE = (LATEST, EARLIEST, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD)
WITH_NOT_AVAILABLE = 5  # version
CONSUMER = -1
NOTHING = -1


class FoundOffset(Struct, frozen=True):
    """A found offset. timestamp (ms) and leader epoch are -1 if unknown."""

    timestamp: int = NOTHING
    offset: int = NOTHING
    leader_epoch: int = -1


def handle(ctx: RequestContext, request: ListOffsetsRequest) -> Answer:
    """One offset per partition; a partition named twice is INVALID_REQUEST. An unknown isolation
    level fails the whole request, as in Kafka."""
    if request.isolation_level not in ISOLATION_LEVELS:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    logs: dict[int, int] = {}
    twice = Repeated(
        (topic.name, partition.partition_index) for topic in request.topics for partition in topic.partitions
    )
    answer = of_distinct(
        request.topics,
        lambda name, part: _offset(ctx, request, name, part, (name, part.partition_index) in twice, logs),
        ListOffsetsTopicResponse,
        lambda topics: ListOffsetsResponse(topics=topics),
    )
    twice.clear()
    return then(answer, lambda response: cached_answers(ctx, response, logs=logs))


def refuse(request: ListOffsetsRequest, error: KafkaError, version: int) -> ListOffsetsResponse:
    """The request failed as a whole: every partition carries the error."""
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                topic.name,
                [ListOffsetsPartitionResponse(p.partition_index, error.code) for p in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _offset(
    ctx: RequestContext,
    request: ListOffsetsRequest,
    name: str,
    part: ListOffsetsPartition,
    twice: bool,
    logs: dict[int, int],
) -> ListOffsetsPartitionResponse | Deferred:
    """The offset of a partition; a Deferred if a log has to be read. logs: takes its Slot.SEQUENCE
    by slot."""
    index = part.partition_index
    try:
        if twice:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        if part.timestamp < 0 and ctx.version < FIRST_VERSION.get(part.timestamp, 1 << 15):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        partition = online(ctx.broker, name, index)
        words = ctx.broker.slots.group(partition.slot)
        logs[partition.slot] = int(words[Slot.SEQUENCE])
        # from here on: what was checked before may have changed, and the sequence with it
        check_state(int(words[Slot.STATE]))
        check_leader_epoch(ctx.broker, partition, part.current_leader_epoch)
        consumer = request.replica_id == CONSUMER
        committed = consumer and request.isolation_level == READ_COMMITTED
        end_error = ErrorCode.NONE
        if consumer and words[Slot.HIGH_WATERMARK] < words[Slot.EPOCH_START]:
            end_error = _unknown_end(words, ctx.version)
        if part.timestamp in AT_ONCE:
            return _part(index, _offset_in_slot(words, part.timestamp, consumer, committed, end_error))
    except KafkaError as error:
        return ListOffsetsPartitionResponse(index, error.code)
    limit = _limit(words, consumer, committed)
    return _search(ctx.broker, id(request), partition, words, part, limit, end_error)


def _unknown_end(words: Words, version: int) -> ErrorCode:
    """The error if a consumer may not get the log's end or "no offset after this time", because a
    new leader's high watermark may be below that of the previous leader (KIP-207)."""
    if words[Slot.EPOCH_START] == Slot.NOT_LED:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return ErrorCode.OFFSET_NOT_AVAILABLE if version >= WITH_NOT_AVAILABLE else ErrorCode.LEADER_NOT_AVAILABLE


def _part(index: int, found: FoundOffset, error: ErrorCode = ErrorCode.NONE) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(index, error, found.timestamp, found.offset, found.leader_epoch)


def _limit(words: Words, consumer: bool, committed: bool) -> int:
    """The reader's upper bound: last stable offset, high watermark or log end."""
    if committed:
        return int(words[Slot.LAST_STABLE])
    return int(words[Slot.HIGH_WATERMARK if consumer else Slot.LOG_END])


def _offset_in_slot(
    words: Words, timestamp: int, consumer: bool, committed: bool, end_error: ErrorCode
) -> FoundOffset:
    """The offset from shared memory."""
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return FoundOffset(NOTHING, int(words[Slot.LOG_START]), int(words[Slot.START_EPOCH]))
    if end_error:
        raise KafkaError(end_error)
    if timestamp != LATEST:
        return FoundOffset()
    return FoundOffset(NOTHING, _limit(words, consumer, committed), int(words[Slot.LEADER_EPOCH]))


def _search(
    broker: Broker,
    request: int,
    partition: Partition,
    words: Words,
    part: ListOffsetsPartition,
    limit: int,
    end_error: ErrorCode,
) -> Deferred:
    """The offset of a timestamp below a limit, from the log. request: its searches take turns with
    those of others."""
    index, timestamp = part.partition_index, part.timestamp
    start = int(words[Slot.LOG_START])
    end = (int(words[Slot.HW_BASE]), int(words[Slot.HW_POSITION]))
    version = int(words[Slot.SEGMENTS_VERSION])
    answer = Deferred()

    def step(reader: LogReader) -> TimestampOffset | None:
        if timestamp == MAX_TIMESTAMP:
            return max_timestamp(reader, start, *end, version)
        return locate_timestamp(reader, timestamp, start, *end, version)

    def answered(found: Any) -> None:
        if isinstance(found, KafkaError):
            answer.complete(ListOffsetsPartitionResponse(index, found.code))
        elif found is None or found.offset >= limit:
            answer.complete(_part(index, FoundOffset(), end_error))
        else:
            answer.complete(_part(index, FoundOffset(found.timestamp, found.offset, found.leader_epoch)))

    broker.logs.search(partition.folder, step, answered, request)
    return answer
