"""The guard of each API: Kafka's table of operations. Produce and Fetch are checked by network
processes."""

from collections.abc import Mapping
from typing import Any

from kbroker.api import (
    alter_configs,
    consumer_group_describe,
    create_partitions,
    delete_groups,
    delete_records,
    describe_configs,
    describe_producers,
    incremental_alter_configs,
    list_offsets,
    offset_for_leader_epoch,
    share_acknowledge,
    share_fetch,
    share_group_describe,
    streams_group_describe,
    sync_group,
)
from kbroker.api.authorization.configs import on_configs
from kbroker.api.authorization.groups import (
    describing,
    guard_alter_share_group_offsets,
    guard_delete_share_group_offsets,
    guard_describe_groups,
    guard_describe_share_group_offsets,
    guard_heartbeat_with_topics,
    guard_list_groups,
    guard_offset_commit,
    guard_offset_delete,
    guard_offset_fetch,
    guard_streams_heartbeat,
)
from kbroker.api.authorization.guard import (
    REFUSALS,
    Guard,
    Serve,
    changed,
    divided,
    may,
    may_all,
    narrowed,
    on_cluster,
    on_each,
    on_one,
    serve_rest,
)
from kbroker.api.authorization.share import on_shared
from kbroker.api.authorization.tokens import guard_create_token, guard_describe_tokens
from kbroker.api.authorization.topics import (
    cluster_operations,
    guard_create_topics,
    guard_delete_topics,
    guard_describe_topic_partitions,
    guard_metadata,
)
from kbroker.api.authorization.transactions import (
    guard_add_offsets,
    guard_add_partitions,
    guard_describe_transactions,
    guard_find_coordinator,
    guard_init_producer_id,
    guard_list_transactions,
    guard_txn_offset_commit,
)
from kbroker.api.cached_answers import cached_answers
from kbroker.api.context import RequestContext
from kbroker.config import acls
from kbroker.control.broker import Broker
from kbroker.control.metadata.topic_name import is_valid
from kbroker.ipc.messages import ClientRequest
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.slices import Repeated, SlicedList, distinct


def guard_describe_cluster(ctx: RequestContext, request: Any, serve: Serve) -> Any:
    """Needs no permission; the client's authorized operations are added if it requests them."""
    if not request.include_cluster_authorized_operations:
        return serve(ctx, request)
    response = serve(narrowed(ctx), request)
    response.cluster_authorized_operations = cluster_operations(ctx)
    return cached_answers(ctx, response)


def guard_offset_for_leader_epoch(ctx: RequestContext, request: Any, serve: Serve) -> Any:
    """CLUSTER_ACTION, as replicas have it, or DESCRIBE on each topic."""
    return serve(ctx, request) if may_all(ctx, acls.CLUSTER_ACTION) else _EPOCHS(ctx, request, serve)


_EPOCHS = on_each(offset_for_leader_epoch, acls.DESCRIBE, acls.TOPIC, "topics", "topics", "topic")
_DELETE_GROUPS = on_each(delete_groups, acls.DELETE, acls.GROUP, "groups_names", "results", "")
_READ_GROUP = on_one(acls.READ, acls.GROUP, "group_id")


def guard_delete_groups(ctx: RequestContext, request: Any, serve: Serve) -> Any:
    """DELETE on each group; a group that is named twice is answered once, also when it is
    refused."""
    names = SlicedList(distinct(request.groups_names))
    return _DELETE_GROUPS(ctx, changed(request, "groups_names", names), serve)


def guard_create_partitions(ctx: RequestContext, request: Any, serve: Serve) -> Any:
    """ALTER on each topic. The handler refuses topics that are named twice."""
    repeated = Repeated(topic.name for topic in request.topics)
    parts = divided(
        request.topics,
        lambda topic: topic.name in repeated or may(ctx, acls.ALTER, acls.TOPIC, topic.name),
    )
    repeated.clear()
    fields = "topics", "results"
    return serve_rest(ctx, create_partitions, request, serve, fields, parts, REFUSALS[acls.TOPIC])


def guard_describe_producers(ctx: RequestContext, request: Any, serve: Serve) -> Any:
    """READ on each topic; the handler refuses names that no topic can have."""
    parts = divided(
        request.topics,
        lambda topic: not is_valid(topic.name) or may(ctx, acls.READ, acls.TOPIC, topic.name),
    )
    fields = "topics", "topics"
    return serve_rest(ctx, describe_producers, request, serve, fields, parts, REFUSALS[acls.TOPIC])


def guard_sync_group(ctx: RequestContext, request: Any, serve: Serve) -> Any:
    """READ on the group; as in Kafka a request must name its protocol first."""
    if not sync_group.names_protocol(request, ctx.version):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    return _READ_GROUP(ctx, request, serve)


GUARDS: Mapping[int, Guard] = {
    ApiKey.LIST_OFFSETS: on_each(list_offsets, acls.DESCRIBE, acls.TOPIC, "topics", "topics"),
    ApiKey.METADATA: guard_metadata,
    ApiKey.OFFSET_COMMIT: guard_offset_commit,
    ApiKey.OFFSET_FETCH: guard_offset_fetch,
    ApiKey.FIND_COORDINATOR: guard_find_coordinator,
    ApiKey.JOIN_GROUP: _READ_GROUP,
    ApiKey.HEARTBEAT: _READ_GROUP,
    ApiKey.LEAVE_GROUP: _READ_GROUP,
    ApiKey.SYNC_GROUP: guard_sync_group,
    ApiKey.DESCRIBE_GROUPS: guard_describe_groups,
    ApiKey.LIST_GROUPS: guard_list_groups,
    ApiKey.CREATE_TOPICS: guard_create_topics,
    ApiKey.DELETE_TOPICS: guard_delete_topics,
    ApiKey.DELETE_RECORDS: on_each(delete_records, acls.DELETE, acls.TOPIC, "topics", "topics"),
    ApiKey.INIT_PRODUCER_ID: guard_init_producer_id,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: guard_offset_for_leader_epoch,
    ApiKey.ADD_PARTITIONS_TO_TXN: guard_add_partitions,
    ApiKey.ADD_OFFSETS_TO_TXN: guard_add_offsets,
    ApiKey.END_TXN: on_one(acls.WRITE, acls.TRANSACTIONAL_ID, "transactional_id"),
    ApiKey.WRITE_TXN_MARKERS: on_cluster(acls.ALTER, acls.CLUSTER_ACTION),
    ApiKey.TXN_OFFSET_COMMIT: guard_txn_offset_commit,
    ApiKey.DESCRIBE_ACLS: on_cluster(acls.DESCRIBE),
    ApiKey.CREATE_ACLS: on_cluster(acls.ALTER),
    ApiKey.DELETE_ACLS: on_cluster(acls.ALTER),
    ApiKey.DESCRIBE_CONFIGS: on_configs(describe_configs, acls.DESCRIBE_CONFIGS, "results"),
    ApiKey.ALTER_CONFIGS: on_configs(alter_configs, acls.ALTER_CONFIGS, "responses"),
    ApiKey.ALTER_REPLICA_LOG_DIRS: on_cluster(acls.ALTER),
    ApiKey.DESCRIBE_LOG_DIRS: on_cluster(acls.DESCRIBE),
    ApiKey.CREATE_PARTITIONS: guard_create_partitions,
    ApiKey.CREATE_DELEGATION_TOKEN: guard_create_token,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: guard_describe_tokens,
    ApiKey.DELETE_GROUPS: guard_delete_groups,
    ApiKey.ELECT_LEADERS: on_cluster(acls.ALTER),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: on_configs(incremental_alter_configs, acls.ALTER_CONFIGS, "responses"),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: on_cluster(acls.ALTER),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: on_cluster(acls.DESCRIBE),
    ApiKey.OFFSET_DELETE: guard_offset_delete,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: on_cluster(acls.DESCRIBE_CONFIGS),
    ApiKey.ALTER_CLIENT_QUOTAS: on_cluster(acls.ALTER_CONFIGS),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: on_cluster(acls.DESCRIBE),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: on_cluster(acls.ALTER),
    ApiKey.DESCRIBE_QUORUM: on_cluster(acls.DESCRIBE),
    ApiKey.UPDATE_FEATURES: on_cluster(acls.ALTER),
    ApiKey.DESCRIBE_CLUSTER: guard_describe_cluster,
    ApiKey.DESCRIBE_PRODUCERS: guard_describe_producers,
    ApiKey.UNREGISTER_BROKER: on_cluster(acls.ALTER),
    ApiKey.DESCRIBE_TRANSACTIONS: guard_describe_transactions,
    ApiKey.LIST_TRANSACTIONS: guard_list_transactions,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: guard_heartbeat_with_topics,
    ApiKey.CONSUMER_GROUP_DESCRIBE: describing(consumer_group_describe),
    ApiKey.LIST_CONFIG_RESOURCES: on_cluster(acls.DESCRIBE_CONFIGS),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: guard_describe_topic_partitions,
    ApiKey.SHARE_GROUP_HEARTBEAT: guard_heartbeat_with_topics,
    ApiKey.SHARE_GROUP_DESCRIBE: describing(share_group_describe),
    ApiKey.SHARE_FETCH: on_shared(share_fetch),
    ApiKey.SHARE_ACKNOWLEDGE: on_shared(share_acknowledge),
    ApiKey.STREAMS_GROUP_HEARTBEAT: guard_streams_heartbeat,
    ApiKey.STREAMS_GROUP_DESCRIBE: describing(streams_group_describe),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: guard_describe_share_group_offsets,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: guard_alter_share_group_offsets,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: guard_delete_share_group_offsets,
}

UNGUARDED = frozenset(
    (
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.API_VERSIONS,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
        ApiKey.PUSH_TELEMETRY,
    )
)
"""APIs that are checked elsewhere (Produce, Fetch) or open to all: the handler checks the renewers
of a token, and a client only pushes its own metrics."""


def guard_of(broker: Broker, client: ClientRequest) -> Guard | None:
    """The guard of a request's handler; None for an API without a guard."""
    authorizer = broker.authorizer
    if authorizer is None or client.principal in authorizer.super_users:
        return None
    return GUARDS.get(client.api_key)
