"""ElectLeaders (key 43), v0-2: elect the preferred replica, or any online one, as the leader.

v1 election type (KIP-460); v2 flexible. A partition that already has this leader answers
ELECTION_NOT_NEEDED, or is left out of a request for all partitions.
"""

from kbroker.api.context import RequestContext
from kbroker.api.later import in_groups, running
from kbroker.api.row import Api
from kbroker.ipc.layout import SlotState
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from kbroker.protocol.slices import paced

API = Api(ApiKey.ELECT_LEADERS, 0, 2)
PREFERRED, UNCLEAN = 0, 1


@running
async def handle(ctx: RequestContext, request: ElectLeadersRequest) -> ElectLeadersResponse:
    """One result per partition; null is all partitions."""
    if request.election_type not in (PREFERRED, UNCLEAN):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}")
    if request.topic_partitions is None:
        wanted = {
            name: [p.index for p in topic.partitions] for name, topic in ctx.broker.catalogue.topics.items()
        }
    else:
        wanted = {topic.topic: list(topic.partitions) for topic in request.topic_partitions}
    results = []
    for name, indexes in paced(wanted.items()):
        found = await in_groups(_result(ctx, name, i, request.election_type) for i in paced(indexes))
        if request.topic_partitions is None:
            found = [result for result in found if result.error_code != ErrorCode.ELECTION_NOT_NEEDED]
        results.append(ReplicaElectionResult(name, found))
    return ElectLeadersResponse(replica_election_results=results)


def refuse(request: ElectLeadersRequest, error: KafkaError, version: int) -> ElectLeadersResponse:
    """The request failed as a whole."""
    results = []
    for topic in request.topic_partitions or ():
        partitions = [PartitionResult(index, error.code, error.message) for index in topic.partitions]
        results.append(ReplicaElectionResult(topic.topic, partitions))
    return ElectLeadersResponse(error_code=error.code, replica_election_results=results)


async def _result(ctx: RequestContext, name: str, index: int, election_type: int) -> PartitionResult:
    try:
        await _elect(ctx, name, index, election_type == UNCLEAN)
    except KafkaError as error:
        return PartitionResult(index, error.code, error.message)
    return PartitionResult(index, ErrorCode.NONE, None)


async def _elect(ctx: RequestContext, name: str, index: int, unclean: bool) -> None:
    broker = ctx.broker
    if broker.catalogue.get(name) is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
    partition = broker.catalogue.partition(name, index)
    if partition is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}")
    if partition.replicated:
        await ctx.services.replication.elect_on_demand(partition, unclean)
    elif broker.slots.state(partition.slot) != SlotState.OFFLINE:
        raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED)
    else:
        raise KafkaError(
            ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE if unclean else ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        )
