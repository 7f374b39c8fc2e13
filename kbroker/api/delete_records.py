"""DeleteRecords (key 21), v0-2: everything below an offset is gone; -1 is the high watermark.

v2 flexible. Answered with the new log start offset of each partition.
"""

import asyncio

from kbroker.api.context import RequestContext
from kbroker.api.row import Api
from kbroker.control.topic_name import CLUSTER_METADATA, INTERNAL
from kbroker.ipc.messages import DeleteRecords
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

API = Api(ApiKey.DELETE_RECORDS, 0, 2)
NO_WATERMARK = -1


async def handle(ctx: RequestContext, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    """Advance the log start of each partition; each has its own result."""
    topics: dict[str, dict[int, DeleteRecordsPartition]] = {}
    for topic in request.topics:
        asked = topics.setdefault(topic.name, {})
        asked.update({partition.partition_index: partition for partition in topic.partitions})
    waits = [
        _delete(ctx, name, partition.partition_index, partition.offset)
        for name, partitions in topics.items()
        for partition in partitions.values()
    ]
    results = iter(await asyncio.gather(*waits))
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(name, [next(results) for _ in partitions])
            for name, partitions in topics.items()
        ]
    )


def refuse(request: DeleteRecordsRequest, error: KafkaError, version: int) -> DeleteRecordsResponse:
    """The request failed as a whole: every partition carries the error."""
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                topic.name,
                [
                    DeleteRecordsPartitionResult(partition.partition_index, NO_WATERMARK, error.code)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


async def _delete(ctx: RequestContext, name: str, index: int, offset: int) -> DeleteRecordsPartitionResult:
    partition = ctx.broker.catalogue.partition(name, index)
    try:
        if partition is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if name in INTERNAL or name == CLUSTER_METADATA:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        if not ctx.broker.topic_config(name).delete:
            raise KafkaError(ErrorCode.POLICY_VIOLATION)
        call = DeleteRecords(partition.slot, offset)
        start = await ctx.broker.links.call_worker(partition.worker, call)
        return DeleteRecordsPartitionResult(index, start)
    except KafkaError as error:
        return DeleteRecordsPartitionResult(index, NO_WATERMARK, error.code)
