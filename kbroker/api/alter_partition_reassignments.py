"""AlterPartitionReassignments (key 45), v0-1: move replicas between nodes.

v1 the replication factor may be kept. Nodes are the replica sites of this host; with one site a
target of only that node changes nothing and succeeds, any other is INVALID_REPLICA_ASSIGNMENT.
"""

from kbroker.api.authorization.guard import text_of
from kbroker.api.context import RequestContext
from kbroker.api.later import check_time, running
from kbroker.api.row import Api
from kbroker.control.changes.log_closings import names_are_free
from kbroker.control.log_openings import opened_by
from kbroker.control.metadata.topic_plan import check_replicas
from kbroker.control.replication.reassignment import reassign
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


@running
async def handle(
    ctx: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Begin or cancel a reassignment of each partition."""
    if not request.topics:  # Kafka's controller answers this one with its defaults
        return AlterPartitionReassignmentsResponse(allow_replication_factor_change=True, error_message="")
    check_time(request.timeout_ms)
    if len(ctx.broker.nodes.sites) > 1:  # once for all partitions, which may be thousands
        begun = [topic.name for topic in request.topics if any(each.replicas for each in topic.partitions)]
        await names_are_free(ctx.broker, begun)
    responses = []
    options = request.allow_replication_factor_change, opened_by(request.timeout_ms)
    for topic in request.topics:
        results = [await _result(ctx, topic.name, partition, *options) for partition in topic.partitions]
        responses.append(ReassignableTopicResponse(topic.name, results))
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
        responses=responses,
    )


def refuse(
    request: AlterPartitionReassignmentsRequest, error: KafkaError, version: int
) -> AlterPartitionReassignmentsResponse:
    """The request failed as a whole: every partition carries the error, too."""
    return AlterPartitionReassignmentsResponse(
        error_code=error.code,
        error_message=text_of(error),
        responses=[
            ReassignableTopicResponse(
                topic.name,
                [
                    ReassignablePartitionResponse(each.partition_index, error.code, text_of(error))
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


async def _result(
    ctx: RequestContext, name: str, spec: ReassignablePartition, may_change_factor: bool, end_s: float
) -> ReassignablePartitionResponse:
    try:
        await _reassign(ctx, name, spec, may_change_factor, end_s)
    except KafkaError as error:
        message = None if error.code is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS else error.message
        return ReassignablePartitionResponse(spec.partition_index, error.code, message)
    return ReassignablePartitionResponse(spec.partition_index, ErrorCode.NONE, None)


async def _reassign(
    ctx: RequestContext, name: str, spec: ReassignablePartition, may_change_factor: bool, end_s: float
) -> None:
    broker = ctx.broker
    topic = broker.catalogue.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
    partition = broker.catalogue.partition(name, spec.partition_index)
    if partition is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{spec.partition_index}."
        )
    if spec.replicas is not None:
        check_replicas(spec.replicas, [site.node_id for site in broker.nodes.sites], None)
        now = len([replica for replica in partition.replicas if replica not in partition.removing])
        if len(spec.replicas) != now and not may_change_factor:
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"The replication factor is changed from {now} to {len(spec.replicas)}",
            )
    elif not partition.adding and not partition.removing:
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    if len(broker.nodes.sites) > 1:
        await reassign(ctx.services.replication, topic, partition, spec.replicas, end_s)
