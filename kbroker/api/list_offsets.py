"""ListOffsets (key 2), v1-11: offsets by position or by time.

v1 one offset per partition (v0 is gone since Kafka 4.0); v2 isolation level; v4 leader epochs; v6 flexible; v7 -3 is
the record with the largest timestamp; v8 -4 the earliest local offset; v9 -5 the last tiered offset (KIP-1005); v10
timeout; v11 -6 the earliest offset that waits for tiering (KIP-1023). Without tiered storage -4 equals -2, and -5 and
-6 find nothing.
Nothing found is offset -1, timestamp -1, no error. The leader epoch is that of the record.
"""

import asyncio
from collections import Counter
from dataclasses import dataclass

from kbroker.api.context import RequestContext
from kbroker.api.partition_check import check_leader_epoch, online
from kbroker.api.row import Api
from kbroker.control.broker import Broker
from kbroker.control.catalogue import Partition
from kbroker.ipc import layout
from kbroker.log.epochs import earliest_epoch
from kbroker.log.timestamps import locate_timestamp, max_timestamp
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

API = Api(ApiKey.LIST_OFFSETS, 1, 11)

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = range(-1, -7, -1)
FIRST_VERSION = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
READ_COMMITTED = 1
CONSUMER = -1
NOTHING = -1


@dataclass(frozen=True, slots=True)
class Found:
    """An answer: timestamp (ms) and leader epoch are -1 when they are not known."""

    timestamp: int = NOTHING
    offset: int = NOTHING
    leader_epoch: int = -1


async def handle(ctx: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
    """One offset per partition; a partition named twice is INVALID_REQUEST."""
    times = Counter((topic.name, p.partition_index) for topic in request.topics for p in topic.partitions)
    asked: dict[str, dict[int, ListOffsetsPartition]] = {}
    for topic in request.topics:
        for partition in topic.partitions:
            asked.setdefault(topic.name, {})[partition.partition_index] = partition
    waits = [
        _offset(ctx, request, name, partition, times[name, partition.partition_index] > 1)
        for name, partitions in asked.items()
        for partition in partitions.values()
    ]
    answers = iter(await asyncio.gather(*waits))
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(name, [next(answers) for _ in partitions])
            for name, partitions in asked.items()
        ]
    )


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


async def _offset(
    ctx: RequestContext, request: ListOffsetsRequest, name: str, asked: ListOffsetsPartition, twice: bool
) -> ListOffsetsPartitionResponse:
    index = asked.partition_index
    try:
        if twice:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        if asked.timestamp < 0 and ctx.version < FIRST_VERSION.get(asked.timestamp, 1 << 15):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        partition = online(ctx.broker, name, index)
        check_leader_epoch(ctx.broker, partition, asked.current_leader_epoch)
        consumer = request.replica_id == CONSUMER
        committed = consumer and request.isolation_level == READ_COMMITTED
        found = await _find(ctx.broker, partition, asked.timestamp, consumer, committed)
    except KafkaError as error:
        return ListOffsetsPartitionResponse(index, error.code)
    return ListOffsetsPartitionResponse(
        index, ErrorCode.NONE, found.timestamp, found.offset, found.leader_epoch
    )


async def _find(
    broker: Broker, partition: Partition, timestamp: int, consumer: bool, committed: bool
) -> Found:
    """The offset of a timestamp or position, below what the reader may see: high watermark, last stable offset or
    log end."""
    words = broker.slots.group(partition.slot)
    start = int(words[layout.SLOT_LOG_START])
    if committed:
        limit = int(words[layout.SLOT_LAST_STABLE])
    else:
        limit = int(words[layout.SLOT_HIGH_WATERMARK if consumer else layout.SLOT_LOG_END])
    if timestamp == LATEST:
        return Found(NOTHING, limit, int(words[layout.SLOT_LEADER_EPOCH]))
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return Found()
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        epoch = await broker.logs.read(partition.folder, lambda reader: earliest_epoch(reader.folder, start))
        return Found(NOTHING, start, epoch)
    end = (int(words[layout.SLOT_HW_BASE]), int(words[layout.SLOT_HW_POSITION]))
    version = int(words[layout.SLOT_SEGMENTS_VERSION])
    if timestamp == MAX_TIMESTAMP:
        located = await broker.logs.read(
            partition.folder, lambda reader: max_timestamp(reader, start, *end, version)
        )
    else:
        located = await broker.logs.read(
            partition.folder, lambda reader: locate_timestamp(reader, timestamp, start, *end, version)
        )
    if located is None or located.offset >= limit:
        return Found()
    return Found(located.timestamp, located.offset, located.leader_epoch)
