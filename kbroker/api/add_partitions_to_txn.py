"""AddPartitionsToTxn (key 24), v0-5: partitions join a transaction before something is produced to them.

v1 throttle time; v2 PRODUCER_FENCED; v3 flexible; v4 many transactions, verify only, for brokers (KIP-890);
v5 TRANSACTION_ABORTABLE. Producers of transactions v2 do not send it: producing adds the partition.
"""

import asyncio
from collections.abc import Mapping

from kbroker.api.context import RequestContext
from kbroker.api.row import Api
from kbroker.control.transactions.metadata import TV_0, TV_2, TopicPartition
from kbroker.control.transactions.service import TransactionService
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

API = Api(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5)
FENCED_FROM = 2
BATCHED_FROM = 4


async def handle(ctx: RequestContext, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
    """A code per partition; a transaction takes all of its partitions or none."""
    if ctx.version >= BATCHED_FROM:
        results = await asyncio.gather(*(_one(ctx, each) for each in request.transactions))
        return AddPartitionsToTxnResponse(
            results_by_transaction=[
                AddPartitionsToTxnResult(transaction.transactional_id, topics)
                for transaction, topics in zip(request.transactions, results, strict=True)
            ]
        )
    transaction = AddPartitionsToTxnTransaction(
        request.v3_and_below_transactional_id,
        request.v3_and_below_producer_id,
        request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=await _one(ctx, transaction))


def refuse(request: AddPartitionsToTxnRequest, error: KafkaError, version: int) -> AddPartitionsToTxnResponse:
    """The request failed as a whole."""
    if version >= BATCHED_FROM:
        return AddPartitionsToTxnResponse(error_code=error.code)
    everything = _results(request.v3_and_below_topics, {}, error.code)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=everything)


async def _one(
    ctx: RequestContext, transaction: AddPartitionsToTxnTransaction
) -> list[AddPartitionsToTxnTopicResult]:
    partitions = frozenset(
        (topic.name, partition) for topic in transaction.topics for partition in topic.partitions
    )
    missing = {each for each in partitions if ctx.broker.catalogue.partition(*each) is None}
    if missing:
        unknown = dict.fromkeys(missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return _results(transaction.topics, unknown, ErrorCode.OPERATION_NOT_ATTEMPTED)
    codes: Mapping[TopicPartition, ErrorCode] = {}
    code = ErrorCode.NONE
    service = TransactionService.of(ctx.broker)
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
            TV_2 if ctx.version >= BATCHED_FROM else TV_0,
        )
    if code is ErrorCode.PRODUCER_FENCED and ctx.version < FENCED_FROM:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return _results(transaction.topics, codes, code)


def _results(
    topics: list[AddPartitionsToTxnTopic], codes: Mapping[TopicPartition, ErrorCode], otherwise: ErrorCode
) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            topic.name,
            [
                AddPartitionsToTxnPartitionResult(partition, codes.get((topic.name, partition), otherwise))
                for partition in topic.partitions
            ],
        )
        for topic in topics
    ]
