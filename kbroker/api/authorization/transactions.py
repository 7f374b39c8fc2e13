"""Guards of the APIs about producers, transactions and coordinators."""

from typing import Any

from kbroker.api import add_partitions_to_txn, describe_transactions, find_coordinator, txn_offset_commit
from kbroker.api.authorization.guard import (
    REFUSALS,
    Serve,
    changed,
    divided,
    extend,
    may,
    may_all,
    narrowed,
    on_each,
    require,
    serve_rest,
    visible,
)
from kbroker.api.cached_answers import cached_answers
from kbroker.api.context import RequestContext
from kbroker.api.later import then
from kbroker.config import acls
from kbroker.control.metadata.topic_name import INTERNAL
from kbroker.ipc.layout import AnswerVersion
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from kbroker.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from kbroker.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from kbroker.protocol.slices import Names, emptied, paced

TOPIC_REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
COORDINATED = {0: acls.GROUP, 1: acls.TRANSACTIONAL_ID}
"""Resource types of FindCoordinator's keys, by key type."""


def guard_init_producer_id(ctx: RequestContext, request: InitProducerIdRequest, serve: Serve) -> Any:
    """WRITE on the transactional id; without one IDEMPOTENT_WRITE on the cluster, or WRITE on any
    topic."""
    if request.transactional_id is not None:
        require(ctx, acls.WRITE, acls.TRANSACTIONAL_ID, request.transactional_id)
        if request.enable2_pc:
            require(ctx, acls.TWO_PHASE_COMMIT, acls.TRANSACTIONAL_ID, request.transactional_id)
    elif not may_all(ctx, acls.IDEMPOTENT_WRITE):
        authorizer, client = ctx.broker.authorizer, ctx.client
        if authorizer is not None and not authorizer.allows_some(
            client.principal, client.client_host, acls.WRITE, acls.TOPIC
        ):
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return serve(ctx, request)


def guard_add_partitions(ctx: RequestContext, request: AddPartitionsToTxnRequest, serve: Serve) -> Any:
    """Clients: WRITE on the transactional id and on each topic, all or nothing. Version 4 is for
    brokers."""
    if ctx.version >= add_partitions_to_txn.BATCHED_FROM:
        if not may_all(ctx, acls.CLUSTER_ACTION):
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return serve(ctx, request)
    require(ctx, acls.WRITE, acls.TRANSACTIONAL_ID, request.v3_and_below_transactional_id)
    topics = request.v3_and_below_topics

    def is_refused(topic: AddPartitionsToTxnTopic) -> bool:
        return topic.name in INTERNAL or not may(ctx, acls.WRITE, acls.TOPIC, topic.name)

    refused = Names(topic.name for topic in topics if is_refused(topic))
    if not refused:
        return serve(ctx, request)

    return add_partitions_to_txn.refused_topics(ctx, topics, refused)


def guard_add_offsets(ctx: RequestContext, request: Any, serve: Serve) -> Any:
    """WRITE on the transactional id, READ on the group."""
    require(ctx, acls.WRITE, acls.TRANSACTIONAL_ID, request.transactional_id)
    require(ctx, acls.READ, acls.GROUP, request.group_id)
    return serve(ctx, request)


def guard_txn_offset_commit(ctx: RequestContext, request: TxnOffsetCommitRequest, serve: Serve) -> Any:
    """WRITE on the transactional id, READ on the group and on each topic."""
    require(ctx, acls.WRITE, acls.TRANSACTIONAL_ID, request.transactional_id)
    require(ctx, acls.READ, acls.GROUP, request.group_id)
    parts = divided(request.topics, lambda topic: may(ctx, acls.READ, acls.TOPIC, topic.name))
    return serve_rest(ctx, txn_offset_commit, request, serve, ("topics", "topics"), parts, TOPIC_REFUSED)


def guard_describe_transactions(ctx: RequestContext, request: Any, serve: Serve) -> Any:
    """DESCRIBE on each id; topics that the client may not see are left out of its state."""

    def described(inner: RequestContext, rest: Any) -> Any:
        response = serve(narrowed(inner), rest)
        for state in paced(response.transaction_states):
            state.topics = visible(
                state.topics, lambda topic: may(ctx, acls.DESCRIBE, acls.TOPIC, topic.topic)
            )
        return response

    guard = on_each(
        describe_transactions,
        acls.DESCRIBE,
        acls.TRANSACTIONAL_ID,
        "transactional_ids",
        "transaction_states",
        "",
    )
    return guard(ctx, request, described)


def guard_list_transactions(ctx: RequestContext, request: ListTransactionsRequest, serve: Serve) -> Any:
    """Ids that the client may describe."""

    def finish(response: ListTransactionsResponse) -> Any:
        response.transaction_states = visible(
            response.transaction_states,
            lambda state: may(ctx, acls.DESCRIBE, acls.TRANSACTIONAL_ID, state.transactional_id),
        )
        return (
            response
            if request.duration_filter >= 0
            else cached_answers(ctx, response, AnswerVersion.TRANSACTIONS)
        )

    return then(serve(narrowed(ctx), request), finish)


def guard_find_coordinator(ctx: RequestContext, request: FindCoordinatorRequest, serve: Serve) -> Any:
    """DESCRIBE on groups and transactional ids; coordinators of share groups are for brokers."""
    kind = COORDINATED.get(request.key_type)
    if kind is None:
        shared = request.key_type == find_coordinator.SHARE and ctx.version >= find_coordinator.SHARE_FROM
        if shared and not may_all(ctx, acls.CLUSTER_ACTION):
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return serve(ctx, request)
    if ctx.version < find_coordinator.MANY_KEYS_FROM:
        require(ctx, acls.DESCRIBE, kind, request.key)
        return serve(ctx, request)
    resource = kind
    allowed, refused = divided(request.coordinator_keys, lambda key: may(ctx, acls.DESCRIBE, resource, key))
    if not refused:
        return serve(ctx, request)
    code = REFUSALS[kind]
    refusal = find_coordinator.refuse(
        changed(request, "coordinator_keys", refused), KafkaError(code), ctx.version
    )
    for each in paced(refusal.coordinators):
        each.error_message = ""
    if not allowed:
        return refusal

    def finish(response: Any) -> Any:
        extend(response.coordinators, refusal.coordinators)
        emptied(allowed)
        return response

    return then(serve(narrowed(ctx), changed(request, "coordinator_keys", allowed)), finish)
