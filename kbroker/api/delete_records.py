"""DeleteRecords (key 21), v0-2: delete the records below an offset; -1 is the high watermark.

v2 flexible. The answer has the new log start offset of each partition. It is sent when every online
replica has that offset.
"""

from typing import Any

from kbroker.api.context import RequestContext
from kbroker.api.later import Answer, of_distinct
from kbroker.api.row import Api
from kbroker.control.coordinator.machine import Deferred
from kbroker.control.metadata.topic_name import CLUSTER_METADATA, INTERNAL
from kbroker.control.replication.low_watermark import deleted_everywhere
from kbroker.control.services import Services
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


def handle(ctx: RequestContext, request: DeleteRecordsRequest) -> Answer:
    """Advance the log start of each partition; each has its own result."""
    return of_distinct(
        request.topics,
        lambda name, part: _delete(ctx.services, name, part, request.timeout_ms),
        DeleteRecordsTopicResult,
        lambda topics: DeleteRecordsResponse(topics=topics),
    )


def refuse(request: DeleteRecordsRequest, error: KafkaError, version: int) -> DeleteRecordsResponse:
    """The request failed as a whole: every partition carries the error."""
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                topic.name,
                [_failed(partition.partition_index, error.code) for partition in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _delete(
    services: Services, name: str, part: DeleteRecordsPartition, timeout_ms: int
) -> DeleteRecordsPartitionResult | Deferred:
    broker = services.broker
    index = part.partition_index
    partition = broker.catalogue.partition(name, index)
    if partition is None:
        return _failed(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if name in INTERNAL or name == CLUSTER_METADATA:
        return _failed(index, ErrorCode.INVALID_TOPIC_EXCEPTION)
    config = broker.topic_config(name)
    if config.compact and not config.delete:  # with neither, records are kept until a request deletes them
        return _failed(index, ErrorCode.POLICY_VIOLATION)

    answer = Deferred()

    def answered(found: Any) -> None:
        if isinstance(found, KafkaError):
            answer.complete(_failed(index, found.code))
        else:
            answer.complete(DeleteRecordsPartitionResult(index, found))

    def deleted(log_start: Any) -> None:
        if isinstance(log_start, KafkaError) or not partition.replicated:
            answered(log_start)
        else:
            deleted_everywhere(services.replication, partition, log_start, timeout_ms).on_complete(answered)

    broker.links.ask_worker(partition.worker, DeleteRecords(partition.slot, part.offset), deleted)
    return answer


def _failed(index: int, code: int) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(index, NO_WATERMARK, code)
