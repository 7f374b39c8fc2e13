"""WriteTxnMarkers (key 27), v1-2: end a transaction on partitions, without its coordinator.

For administrators who abort a hanging transaction (kafka-transactions abort, KIP-664). v1 flexible;
v2 the transaction version of the producer: from 2 on the marker's epoch must be newer than the
partition's while a transaction is open there (KIP-1228). A partition that is named twice gets two
markers; Apache Kafka then never answers.
"""

from collections.abc import Awaitable, Callable, Iterable
from functools import partial

from kbroker.api.context import RequestContext
from kbroker.api.later import results_of, running
from kbroker.api.row import Api
from kbroker.control.transactions.metadata import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kbroker.protocol.slices import paced

API = Api(ApiKey.WRITE_TXN_MARKERS, 1, 2)


@running
async def handle(ctx: RequestContext, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    """A code per marker and partition. Raises UNKNOWN_SERVER_ERROR."""
    if any(_has_no_producer(ctx, marker) for marker in paced(request.markers)):
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    results = await results_of(_result(ctx, marker) for marker in paced(request.markers))
    return WriteTxnMarkersResponse(markers=results)


def refuse(request: WriteTxnMarkersRequest, error: KafkaError, version: int) -> WriteTxnMarkersResponse:
    """The request failed as a whole: every partition carries the error."""
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                marker.producer_id,
                [
                    WritableTxnMarkerTopicResult(
                        topic.name,
                        [
                            WritableTxnMarkerPartitionResult(index, error.code)
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


def _has_no_producer(ctx: RequestContext, marker: WritableTxnMarker) -> bool:
    """Whether it has a log to be written to, and no producer or epoch: no batch can hold it
    (MemoryRecordsBuilder.validateProducerState)."""
    if marker.producer_id != NO_PRODUCER_ID and marker.producer_epoch != NO_PRODUCER_EPOCH:
        return False
    catalogue = ctx.broker.catalogue
    return any(
        catalogue.partition(topic.name, index) is not None
        for topic in marker.topics
        for index in paced(topic.partition_indexes)
    )


def _result(
    ctx: RequestContext, marker: WritableTxnMarker
) -> WritableTxnMarkerResult | Callable[[], Awaitable[WritableTxnMarkerResult]]:
    """The result of a marker, at once if it has no log to be written to: no task for a partition
    that does not exist."""
    parts = [
        _code(ctx, marker, topic.name, index)
        for topic in marker.topics
        for index in paced(topic.partition_indexes)
    ]
    codes = [part for part in parts if isinstance(part, ErrorCode)]
    return _of(marker, codes) if len(codes) == len(parts) else partial(_written, marker, parts)


def _code(
    ctx: RequestContext, marker: WritableTxnMarker, topic: str, index: int
) -> ErrorCode | Callable[[], Awaitable[ErrorCode]]:
    if ctx.broker.catalogue.partition(topic, index) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return partial(_one, ctx, marker, topic, index)


async def _written(
    marker: WritableTxnMarker, parts: list[ErrorCode | Callable[[], Awaitable[ErrorCode]]]
) -> WritableTxnMarkerResult:
    return _of(marker, await results_of(parts))


def _of(marker: WritableTxnMarker, codes: Iterable[ErrorCode]) -> WritableTxnMarkerResult:
    left = iter(codes)
    return WritableTxnMarkerResult(
        marker.producer_id,
        [
            WritableTxnMarkerTopicResult(
                topic.name,
                [
                    WritableTxnMarkerPartitionResult(index, next(left))
                    for index in paced(topic.partition_indexes)
                ],
            )
            for topic in marker.topics
        ],
    )


async def _one(ctx: RequestContext, marker: WritableTxnMarker, topic: str, index: int) -> ErrorCode:
    try:
        await ctx.services.transactions.writer.write(
            (topic, index),
            marker.producer_id,
            marker.producer_epoch,
            marker.coordinator_epoch,
            marker.transaction_result,
            marker.transaction_version,
        )
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE
