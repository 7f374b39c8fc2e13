"""AlterPartitionReassignments (key 45), v0-1: move replicas between nodes.

v1 the replication factor may be kept. One node: a target that is this node alone changes nothing and succeeds, any
other is INVALID_REPLICA_ASSIGNMENT; there is never a reassignment to cancel.
"""

from kbroker.api.context import RequestContext
from kbroker.api.row import Api
from kbroker.control.topic_plan import check_replicas
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

API = Api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1)


def handle(
    ctx: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Check each wish; none changes anything."""
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
        responses=[
            ReassignableTopicResponse(
                topic.name, [_result(ctx, topic.name, partition) for partition in topic.partitions]
            )
            for topic in request.topics
        ],
    )


def refuse(
    request: AlterPartitionReassignmentsRequest, error: KafkaError, version: int
) -> AlterPartitionReassignmentsResponse:
    """The request failed as a whole."""
    return AlterPartitionReassignmentsResponse(error_code=error.code, error_message=error.message)


def _result(ctx: RequestContext, name: str, wish: ReassignablePartition) -> ReassignablePartitionResponse:
    try:
        _check(ctx, name, wish)
    except KafkaError as error:
        message = None if error.code is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS else error.message
        return ReassignablePartitionResponse(wish.partition_index, error.code, message)
    return ReassignablePartitionResponse(wish.partition_index, ErrorCode.NONE, None)


def _check(ctx: RequestContext, name: str, wish: ReassignablePartition) -> None:
    catalogue = ctx.broker.catalogue
    if catalogue.get(name) is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
    if catalogue.partition(name, wish.partition_index) is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{wish.partition_index}."
        )
    if wish.replicas is None:
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    check_replicas(wish.replicas, ctx.broker.node_id, None)
