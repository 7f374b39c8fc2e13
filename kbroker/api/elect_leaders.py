"""ElectLeaders (key 43), v0-2: elect the preferred replica, or any online one, as the leader.

v1 election type (KIP-460); v2 flexible. A partition that already has this leader answers
ELECTION_NOT_NEEDED, or is left out of a request for all partitions.
"""

from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any

from kbroker.api.authorization.guard import text_of
from kbroker.api.context import RequestContext
from kbroker.api.later import check_time, results_of, running
from kbroker.api.row import Api
from kbroker.control.metadata.catalogue import Partition
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
    if request.topic_partitions == []:
        return ElectLeadersResponse()
    check_time(request.timeout_ms)
    if request.election_type not in (PREFERRED, UNCLEAN):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}")
    results = []
    for name, indexes in paced(_requested(ctx, request)):
        found = await _of_topic(ctx, name, indexes, request.election_type == UNCLEAN)
        if request.topic_partitions is None:
            found = [result for result in found if result.error_code != ErrorCode.ELECTION_NOT_NEEDED]
        results.append(ReplicaElectionResult(name, found))
    return ElectLeadersResponse(replica_election_results=results)


def _requested(ctx: RequestContext, request: ElectLeadersRequest) -> Iterable[tuple[str, list[int]]]:
    """Partitions by topic, which has a result for each of its entries."""
    if request.topic_partitions is not None:
        return ((topic.topic, topic.partitions) for topic in request.topic_partitions)
    topics = list(ctx.broker.catalogue.topics.items())
    return ((name, [each.index for each in paced(topic.partitions)]) for name, topic in topics)


def refuse(request: ElectLeadersRequest, error: KafkaError, version: int) -> ElectLeadersResponse:
    """The request failed as a whole."""
    results = []
    for topic in request.topic_partitions or ():
        partitions = [PartitionResult(index, error.code, text_of(error)) for index in topic.partitions]
        results.append(ReplicaElectionResult(topic.topic, partitions))
    return ElectLeadersResponse(error_code=error.code, replica_election_results=results)


async def _of_topic(
    ctx: RequestContext, name: str, indexes: list[int], unclean: bool
) -> list[PartitionResult]:
    """The results of a topic's partitions. Only replicated partitions take a task: a request may
    name any number of others."""

    def begin(index: int) -> PartitionResult | Callable[[], Coroutine[Any, Any, PartitionResult]]:
        partition = ctx.broker.catalogue.partition(name, index)
        if partition is not None and partition.replicated:
            return partial(_elect, ctx, partition, unclean)
        return _refused(ctx, name, index, partition, unclean)

    return await results_of(begin(index) for index in paced(indexes))


async def _elect(ctx: RequestContext, partition: Partition, unclean: bool) -> PartitionResult:
    try:
        await ctx.services.replication.elect_on_demand(partition, unclean)
    except KafkaError as error:
        return PartitionResult(partition.index, error.code, error.message)
    return PartitionResult(partition.index, ErrorCode.NONE, None)


def _refused(
    ctx: RequestContext, name: str, index: int, partition: Partition | None, unclean: bool
) -> PartitionResult:
    """The result of a partition that has no other replica, or that does not exist."""
    if partition is None:
        there = ctx.broker.catalogue.get(name) is not None
        what = f"No such partition as {name}-{index}" if there else f"No such topic as {name}"
        error = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, what)
    elif ctx.broker.slots.state(partition.slot) != SlotState.OFFLINE:
        error = KafkaError(ErrorCode.ELECTION_NOT_NEEDED)
    elif unclean:
        error = KafkaError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)
    else:
        error = KafkaError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)
    return PartitionResult(index, error.code, error.message)
