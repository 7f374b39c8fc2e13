"""WriteTxnMarkers (key 27), v1-2: end a transaction on partitions, without its coordinator.

For administrators who abort a hanging transaction (kafka-transactions abort, KIP-664). v1 flexible;
v2 the transaction version of the producer: from 2 on the marker's epoch must be newer than the
partition's while a transaction is open there (KIP-1228). The answer has each producer, topic and
partition once, also for several markers of one producer; of two codes the later marker's. A marker
without partitions is not in it. A partition that a marker names twice gets two markers; Apache
Kafka then never answers.
"""

from collections.abc import Callable, Coroutine, Iterable, Iterator
from functools import partial
from itertools import repeat
from typing import Any

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
from kbroker.protocol.slices import Table, emptied, paced

API = Api(ApiKey.WRITE_TXN_MARKERS, 1, 2)


@running
async def handle(ctx: RequestContext, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    """A code per marker and partition. Raises UNKNOWN_SERVER_ERROR."""
    if any(_has_no_producer(ctx, marker) for marker in paced(request.markers)):
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    results = await results_of(_codes(ctx, marker) for marker in paced(request.markers))
    answer = _each_once(zip(paced(request.markers), paced(results), strict=True))
    emptied(results)
    return answer


def refuse(request: WriteTxnMarkersRequest, error: KafkaError, version: int) -> WriteTxnMarkersResponse:
    """The request failed as a whole: every partition of each producer's last marker carries the
    error."""
    last = Table((marker.producer_id, marker) for marker in request.markers)
    answer = _each_once((marker, repeat(error.code)) for _, marker in last.items())
    empty = [
        key for key, marker in last.items() if not any(topic.partition_indexes for topic in marker.topics)
    ]
    answer.markers += [WritableTxnMarkerResult(producer_id, []) for producer_id in empty]
    last.clear()
    return answer


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


def _codes(
    ctx: RequestContext, marker: WritableTxnMarker
) -> list[ErrorCode] | Callable[[], Coroutine[Any, Any, list[ErrorCode]]]:
    """A code for each partition of a marker, at once if it has no log to be written to: no task for
    a partition that does not exist."""
    parts = [
        _code(ctx, marker, topic.name, index)
        for topic in marker.topics
        for index in paced(topic.partition_indexes)
    ]
    codes = [part for part in paced(parts) if isinstance(part, ErrorCode)]
    if len(codes) < len(parts):
        return partial(results_of, parts)
    emptied(parts)
    return codes


def _code(
    ctx: RequestContext, marker: WritableTxnMarker, topic: str, index: int
) -> ErrorCode | Callable[[], Coroutine[Any, Any, ErrorCode]]:
    if ctx.broker.catalogue.partition(topic, index) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return partial(_one, ctx, marker, topic, index)


def _each_once(results: Iterable[tuple[WritableTxnMarker, Iterable[int]]]) -> WriteTxnMarkersResponse:
    """The answer of markers and the codes of their partitions. Three tables in turn, as one of
    tables would need a table for each of very many producers."""
    codes = Table(
        ((marker.producer_id, name, index), code)
        for marker, found in results
        for (name, index), code in zip(_partitions(marker), found, strict=False)
    )
    partitions: Table[tuple[int, str], list[WritableTxnMarkerPartitionResult]] = Table()
    for (producer_id, name, index), code in codes.items():
        partitions.setdefault((producer_id, name), list).append(WritableTxnMarkerPartitionResult(index, code))
    codes.clear()
    topics: Table[int, list[WritableTxnMarkerTopicResult]] = Table()
    for (producer_id, name), each in partitions.items():
        topics.setdefault(producer_id, list).append(WritableTxnMarkerTopicResult(name, each))
    partitions.clear()
    answer = [WritableTxnMarkerResult(producer_id, each) for producer_id, each in topics.items()]
    topics.clear()
    return WriteTxnMarkersResponse(markers=answer)


def _partitions(marker: WritableTxnMarker) -> Iterator[tuple[str, int]]:
    return ((topic.name, index) for topic in marker.topics for index in topic.partition_indexes)


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
