"""AddPartitionsToTxn (key 24), v0-5: partitions join a transaction before something is produced to
them.

v1 throttle time; v2 PRODUCER_FENCED; v3 flexible; v4 many transactions, verify only, for brokers
(KIP-890); v5 TRANSACTION_ABORTABLE. Producers of transactions v2 do not send it: producing adds the
partition.
"""

from collections.abc import Callable, Coroutine, Iterator, Mapping
from functools import partial
from typing import Any

from kbroker.api.context import RequestContext
from kbroker.api.later import Answer, results_of, running, then
from kbroker.api.row import Api
from kbroker.control.metadata.topic_name import INTERNAL
from kbroker.control.transactions.metadata import TV_0, TV_2
from kbroker.control.transactions.partitions import TopicPartition, TransactionPartitions
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
from kbroker.protocol.slices import Names, Table, distinct, emptied, paced

API = Api(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5)
AT_ONCE = 128
"""Partitions between two checks whether other work is due."""
FENCED_FROM = 2
BATCHED_FROM = 4

Found = list[AddPartitionsToTxnTopicResult] | ErrorCode
"""The results of a transaction, or one code for all its partitions."""


def handle(ctx: RequestContext, request: AddPartitionsToTxnRequest) -> Answer:
    """Add the partitions; returns a code for each. All partitions of a transaction are added, or
    none."""
    if ctx.version >= BATCHED_FROM:
        return _batched(ctx, request)
    transactional_id, topics = request.v3_and_below_transactional_id, request.v3_and_below_topics
    if any(topic.name in INTERNAL for topic in topics) or _some_are_missing(ctx, topics):
        return refused_topics(ctx, topics, INTERNAL)
    partitions = _partitions(topics)
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
        results_by_topic_v3_and_below=results(request.v3_and_below_topics, code)
    )


@running
async def _batched(ctx: RequestContext, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
    found: list[Found] = await results_of(_one(ctx, each) for each in paced(request.transactions))
    answer = AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(
                transaction.transactional_id,
                one if isinstance(one, list) else results(transaction.topics, one),
            )
            for transaction, one in zip(paced(request.transactions), found, strict=True)
        ]
    )
    emptied(found)
    return answer


def refuse(request: AddPartitionsToTxnRequest, error: KafkaError, version: int) -> AddPartitionsToTxnResponse:
    """The request failed as a whole."""
    if version >= BATCHED_FROM:
        return AddPartitionsToTxnResponse(error_code=error.code)
    return _whole(request, version, error.code)


def _one(
    ctx: RequestContext, transaction: AddPartitionsToTxnTransaction
) -> Found | Callable[[], Coroutine[Any, Any, Found]]:
    """The results of one transaction, or a function that waits for them."""
    if _some_are_missing(ctx, transaction.topics):
        return _not_attempted(ctx, transaction.topics)
    partitions = _partitions(transaction.topics)
    service = ctx.services.transactions
    producer = transaction.producer_id, transaction.producer_epoch
    if not transaction.verify_only:
        return partial(service.add_partitions, transaction.transactional_id, *producer, partitions, TV_2)
    codes: Mapping[TopicPartition, ErrorCode] = {}
    code = ErrorCode.NONE
    try:
        codes = service.verify_partitions(transaction.transactional_id, *producer, partitions)
    except KafkaError as error:
        code = error.code
    return _each_once(transaction.topics, lambda *each: codes.get(each, code))


def _partitions(topics: list[AddPartitionsToTxnTopic]) -> TransactionPartitions:
    """Partitions that exist; no client can name more of them than there are."""
    return TransactionPartitions.of_topics((topic.name, part) for topic in topics for part in _parts(topic))


def _some_are_missing(ctx: RequestContext, topics: list[AddPartitionsToTxnTopic]) -> bool:
    for topic in topics:
        found = ctx.broker.catalogue.get(topic.name)
        count = 0 if found is None else len(found.partitions)
        if any(min(part) < 0 or max(part) >= count for part in _parts(topic)):
            return True
    return False


def _parts(topic: AddPartitionsToTxnTopic) -> Iterator[list[int]]:
    """The partitions of a topic, AT_ONCE at a time: a step for each of hundreds was most of the
    time of a request."""
    for start in paced(range(0, len(topic.partitions), AT_ONCE)):
        yield topic.partitions[start : start + AT_ONCE]


def refused_topics(
    ctx: RequestContext, topics: list[AddPartitionsToTxnTopic], refused: Names | frozenset[str]
) -> AddPartitionsToTxnResponse:
    """The answer to a client (before v4) when no partition is added. refused: names of the topics
    that it may not write to, among them the internal topics, which no client may add."""
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_not_attempted(ctx, topics, refused))


def _not_attempted(
    ctx: RequestContext, topics: list[AddPartitionsToTxnTopic], refused: Names | frozenset[str] = frozenset()
) -> list[AddPartitionsToTxnTopicResult]:
    """The error because of which no partition is added."""
    catalogue = ctx.broker.catalogue

    def code(name: str, index: int) -> ErrorCode:
        if name in refused:
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if catalogue.partition(name, index) is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.OPERATION_NOT_ATTEMPTED

    return _each_once(topics, code)


def _each_once(
    topics: list[AddPartitionsToTxnTopic], code: Callable[[str, int], ErrorCode]
) -> list[AddPartitionsToTxnTopicResult]:
    """As `results`, but each topic and partition once, however often the request names it: Kafka
    has a map of these codes."""
    found: Table[str, list[AddPartitionsToTxnPartitionResult]] = Table()
    for name, index in distinct((topic.name, index) for topic in topics for index in topic.partitions):
        found.setdefault(name, list).append(AddPartitionsToTxnPartitionResult(index, code(name, index)))
    return [AddPartitionsToTxnTopicResult(name, each) for name, each in found.items()]


def results(topics: list[AddPartitionsToTxnTopic], code: ErrorCode) -> list[AddPartitionsToTxnTopicResult]:
    """A result with the code for each partition."""
    return [
        AddPartitionsToTxnTopicResult(
            topic.name,
            [AddPartitionsToTxnPartitionResult(each, code) for part in _parts(topic) for each in part],
        )
        for topic in paced(topics)
    ]
