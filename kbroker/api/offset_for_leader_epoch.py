"""OffsetForLeaderEpoch (key 23), v2-4: where the records of a leader epoch end; consumers find truncation by it.

v2 current leader epoch (v0-1 are gone since Kafka 4.0); v3 replica id; v4 flexible. The current epoch ends at the log
end; an epoch that is not known is (-1, -1); an older one ends where the next one starts (KIP-101, KIP-320).
"""

import asyncio

from kbroker.api.context import RequestContext
from kbroker.api.partition_check import check_leader_epoch, online
from kbroker.api.row import Api
from kbroker.ipc.messages import EpochEndOffset as Ask
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import KafkaError
from kbroker.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

API = Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4)


async def handle(ctx: RequestContext, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
    """One end offset per partition."""
    waits = [_end(ctx, topic.topic, partition) for topic in request.topics for partition in topic.partitions]
    ends = iter(await asyncio.gather(*waits))
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(topic.topic, [next(ends) for _ in topic.partitions])
            for topic in request.topics
        ]
    )


def refuse(
    request: OffsetForLeaderEpochRequest, error: KafkaError, version: int
) -> OffsetForLeaderEpochResponse:
    """The request failed as a whole: every partition carries the error."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic.topic,
                [EpochEndOffset(error.code, partition.partition) for partition in topic.partitions],
            )
            for topic in request.topics
        ]
    )


async def _end(ctx: RequestContext, name: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        partition = online(ctx.broker, name, asked.partition)
        check_leader_epoch(ctx.broker, partition, asked.current_leader_epoch)
        call = Ask(partition.slot, asked.leader_epoch)
        epoch, offset = await ctx.broker.links.call_worker(partition.worker, call)
        return EpochEndOffset(0, asked.partition, epoch, offset)
    except KafkaError as error:
        return EpochEndOffset(error.code, asked.partition)
