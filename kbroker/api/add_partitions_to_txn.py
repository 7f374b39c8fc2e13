"""AddPartitionsToTxn (key 24), v0-5: partitions join a transaction before something is produced to
them.

v1 throttle time; v2 PRODUCER_FENCED; v3 flexible; v4 many transactions, verify only, for brokers
(KIP-890); v5 TRANSACTION_ABORTABLE. Producers of transactions v2 do not send it: producing adds the
partition.
"""

from collections.abc import Mapping
from functools import partial

from kbroker.api.context import RequestContext
from kbroker.api.later import Answer, in_groups, running, then
from kbroker.api.row import Api
from kbroker.control.transactions.metadata import TV_0, TV_2, TopicPartition
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from kbroker.protocol.slices import paced

API = Api(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5)
FENCED_FROM = 2
BATCHED_FROM = 4


def handle(ctx: RequestContext, request: AddPartitionsToTxnRequest) -> Answer:
    """Add the partitions; returns a code for each. All partitions of a transaction are added, or
    none."""
    if ctx.version >= BATCHED_FROM:
        return _batched(ctx, request)
    transactional_id, topics = request.v3_and_below_transactional_id, request.v3_and_below_topics
    partitions = _partitions(topics)
    if missing := _missing(ctx, partitions):
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_not_attempted(topics, missing))
    if not transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    service = ctx.services.transactions
    producer = request.v3_and_below_producer_id, request.v3_and_below_producer_epoch
    answer = service.ask(
        transactional_id,
        lambda now_ms: service.shard.add_partitions(transactional_id, *producer, partitions, TV_0, now_ms),
    )
    return then(answer, partial(_whole, request, ctx.version))


def _whole(request: AddPartitionsToTxnRequest, version: int, code: ErrorCode) -> AddPartitionsToTxnResponse:
    if code is ErrorCode.PRODUCER_FENCED and version < FENCED_FROM:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=results(request.v3_and_below_topics, {}, code)
    )


@running
async def _batched(ctx: RequestContext, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
    found = await in_groups(_one(ctx, each) for each in request.transactions)
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(transaction.transactional_id, topics)
            for transaction, topics in zip(request.transactions, found, strict=True)
        ]
    )


def refuse(request: AddPartitionsToTxnRequest, error: KafkaError, version: int) -> AddPartitionsToTxnResponse:
    """The request failed as a whole."""
    if version >= BATCHED_FROM:
        return AddPartitionsToTxnResponse(error_code=error.code)
    return _whole(request, version, error.code)


async def _one(
    ctx: RequestContext, transaction: AddPartitionsToTxnTransaction
) -> list[AddPartitionsToTxnTopicResult]:
    partitions = _partitions(transaction.topics)
    if missing := _missing(ctx, partitions):
        return _not_attempted(transaction.topics, missing)
    codes: Mapping[TopicPartition, ErrorCode] = {}
    code = ErrorCode.NONE
    service = ctx.services.transactions
    if transaction.verify_only:
        try:
            codes = service.verify_partitions(
                transaction.transactional_id, transaction.producer_id, transaction.producer_epoch, partitions
            )
        except KafkaError as error:
            code = error.code
    else:
        code = await service.add_partitions(
            transaction.transactional_id,
            transaction.producer_id,
            transaction.producer_epoch,
            partitions,
            TV_2,
        )
    return results(transaction.topics, codes, code)


def _partitions(topics: list[AddPartitionsToTxnTopic]) -> frozenset[TopicPartition]:
    return frozenset((topic.name, partition) for topic in topics for partition in paced(topic.partitions))


def _missing(ctx: RequestContext, partitions: frozenset[TopicPartition]) -> list[TopicPartition]:
    catalogue = ctx.broker.catalogue
    return [each for each in paced(partitions) if catalogue.partition(*each) is None]


def _not_attempted(
    topics: list[AddPartitionsToTxnTopic], missing: list[TopicPartition]
) -> list[AddPartitionsToTxnTopicResult]:
    unknown = dict.fromkeys(missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return results(topics, unknown, ErrorCode.OPERATION_NOT_ATTEMPTED)


def results(
    topics: list[AddPartitionsToTxnTopic], codes: Mapping[TopicPartition, ErrorCode], otherwise: ErrorCode
) -> list[AddPartitionsToTxnTopicResult]:
    """A result for each partition."""
    return [
        AddPartitionsToTxnTopicResult(
            topic.name,
            [
                AddPartitionsToTxnPartitionResult(partition, codes.get((topic.name, partition), otherwise))
                for partition in paced(topic.partitions)
            ],
        )
        for topic in topics
    ]
