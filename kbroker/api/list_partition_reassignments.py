"""ListPartitionReassignments (key 46), v0: pending moves of replicas between the sites of this
host."""

from kbroker.api.context import RequestContext
from kbroker.api.row import Api
from kbroker.control.metadata.catalogue import Partition
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import KafkaError
from kbroker.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from kbroker.protocol.slices import Names, paced

API = Api(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0)


def handle(
    ctx: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """Pending reassignments of the requested partitions, or of all (null)."""
    requested = None
    if request.topics is not None:
        requested = Names(
            (topic.name, index) for topic in request.topics for index in topic.partition_indexes
        )
    found: dict[str, list[OngoingPartitionReassignment]] = {}
    for partition in paced(list(ctx.broker.catalogue.partitions())):
        moving = partition.adding or partition.removing
        if moving and (requested is None or (partition.topic, partition.index) in requested):
            found.setdefault(partition.topic, []).append(_ongoing(ctx, partition))
    if requested is not None:
        requested.clear()
    topics = [OngoingTopicReassignment(name, partitions) for name, partitions in found.items()]
    return ListPartitionReassignmentsResponse(error_message=None, topics=topics)


def refuse(
    request: ListPartitionReassignmentsRequest, error: KafkaError, version: int
) -> ListPartitionReassignmentsResponse:
    """The request failed as a whole."""
    return ListPartitionReassignmentsResponse(error_code=error.code, error_message=error.message)


def _ongoing(ctx: RequestContext, partition: Partition) -> OngoingPartitionReassignment:
    nodes = ctx.broker.nodes.of
    return OngoingPartitionReassignment(
        partition.index, nodes(partition.replicas), nodes(partition.adding), nodes(partition.removing)
    )
