"""TxnOffsetCommit (key 28), v0-5: store offsets of a group as part of a transaction.

v1 throttle time; v2 leader epoch; v3 flexible, member, generation, instance (KIP-447); v4
TRANSACTION_ABORTABLE (KIP-890); v5 adds the group's partition to the transaction by itself
(transactions v2). The offsets are pending until the transaction's marker: OffsetFetch with
require_stable waits for it.
"""

from kbroker.api.context import RequestContext
from kbroker.api.later import running
from kbroker.api.row import Api
from kbroker.control.coordinator.machine import Outcome
from kbroker.control.transactions.metadata import TV_2
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kbroker.protocol.slices import SlicedList, Table, freed, paced

API = Api(ApiKey.TXN_OFFSET_COMMIT, 0, 5)
LOADING_FROM = 2
ABORTABLE_FROM = 4
ADDS_FROM = 5


@running
async def handle(ctx: RequestContext, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
    """Commit offsets; returns a code per partition. Missing topics and partitions are refused
    here."""
    known, response = _known_topics(ctx, request)
    if not known:
        return response
    known_only = TxnOffsetCommitRequest(
        request.transactional_id,
        request.group_id,
        request.producer_id,
        request.producer_epoch,
        request.generation_id,
        request.member_id,
        request.group_instance_id,
        known,
    )
    try:
        answer = await _commit(ctx, known_only)
    except KafkaError as error:
        answer = refuse(known_only, error, ctx.version)
    _merge(response, answer)
    freed(known)
    return response


def refuse(request: TxnOffsetCommitRequest, error: KafkaError, version: int) -> TxnOffsetCommitResponse:
    """The request failed as a whole: every partition carries the error."""
    code = error.code
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < LOADING_FROM:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE  # clients before 2.0 lack the other code
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                topic.name,
                [TxnOffsetCommitResponsePartition(part.partition_index, code) for part in topic.partitions],
            )
            for topic in request.topics
        ]
    )


async def _commit(ctx: RequestContext, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
    """Verify and commit in one turn of the group, so that no marker comes between."""
    groups = ctx.services.groups
    transactions = ctx.services.transactions
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    where = (groups.runtime.topic, groups.runtime.partition_for(request.group_id))
    producer = (request.producer_id, request.producer_epoch)
    wants_verification = ctx.version >= ADDS_FROM or ctx.broker.config.get_bool(
        "transaction.partition.verification.enable"
    )
    if wants_verification:
        transactions.check_exists()
    if ctx.version >= ADDS_FROM:
        code = await transactions.add_partitions(
            request.transactional_id, *producer, frozenset((where,)), TV_2
        )
        if code:
            raise KafkaError(_client_code(code, ctx.version))

    def commit(now_ms: int) -> Outcome:
        if wants_verification:
            found = transactions.verify_partitions(request.transactional_id, *producer, frozenset((where,)))
            if found[where]:
                raise KafkaError(found[where])
        return groups.shard.commit_offsets_in_transaction(request, ctx.version, now_ms)

    try:
        with transactions.commits.one(request.producer_id):
            response: TxnOffsetCommitResponse = await groups.runtime.run(request.group_id, commit, producer)
    except KafkaError as error:
        raise KafkaError(_client_code(error.code, ctx.version), error.message) from error
    return response


def _client_code(code: ErrorCode, version: int) -> ErrorCode:
    """The error code that producers expect here (AddPartitionsToTxnManager)."""
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_FROM:
        return ErrorCode.INVALID_TXN_STATE
    return code


def _known_topics(
    ctx: RequestContext, request: TxnOffsetCommitRequest
) -> tuple[list[TxnOffsetCommitRequestTopic], TxnOffsetCommitResponse]:
    """The offsets to commit, and the answer with the refused ones."""
    response = TxnOffsetCommitResponse()
    known = SlicedList()
    for topic in request.topics:
        found = ctx.broker.catalogue.get(topic.name)
        count = 0 if found is None else len(found.partitions)
        there = SlicedList(part for part in topic.partitions if 0 <= part.partition_index < count)
        if there:
            known.append(TxnOffsetCommitRequestTopic(topic.name, there))
        missing = [
            TxnOffsetCommitResponsePartition(part.partition_index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            for part in topic.partitions
            if not 0 <= part.partition_index < count
        ]
        if missing or found is None:
            response.topics.append(TxnOffsetCommitResponseTopic(topic.name, missing))
    return known, response


def _merge(response: TxnOffsetCommitResponse, answer: TxnOffsetCommitResponse) -> None:
    """Add the group's answer to what was answered before it, topic by topic."""
    seen = Table((topic.name, topic) for topic in response.topics)
    for topic in paced(answer.topics):
        if topic.name in seen:
            seen[topic.name].partitions += topic.partitions
        else:
            response.topics.append(topic)
    seen.clear()
