"""ElectLeaders (key 43), v0-2: make the preferred replica, or any that is left, the leader.

v1 election type (KIP-460); v2 flexible. One node leads everything it has, so an existing partition answers
ELECTION_NOT_NEEDED; asked for all partitions, those are left out.
"""

from kbroker.api.context import RequestContext
from kbroker.api.row import Api
from kbroker.ipc import layout
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

API = Api(ApiKey.ELECT_LEADERS, 0, 2)
PREFERRED, UNCLEAN = 0, 1


def handle(ctx: RequestContext, request: ElectLeadersRequest) -> ElectLeadersResponse:
    """One result per partition; null is all partitions."""
    if request.election_type not in (PREFERRED, UNCLEAN):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}")
    if request.topic_partitions is None:
        return ElectLeadersResponse(replica_election_results=_of_all(ctx, request.election_type))
    return ElectLeadersResponse(
        replica_election_results=[
            ReplicaElectionResult(
                topic.topic,
                [_result(ctx, topic.topic, index, request.election_type) for index in topic.partitions],
            )
            for topic in request.topic_partitions
        ]
    )


def refuse(request: ElectLeadersRequest, error: KafkaError, version: int) -> ElectLeadersResponse:
    """The request failed as a whole."""
    results = []
    for topic in request.topic_partitions or ():
        partitions = [PartitionResult(index, error.code, error.message) for index in topic.partitions]
        results.append(ReplicaElectionResult(topic.topic, partitions))
    return ElectLeadersResponse(error_code=error.code, replica_election_results=results)


def _of_all(ctx: RequestContext, election_type: int) -> list[ReplicaElectionResult]:
    answers = []
    for topic in ctx.broker.catalogue.topics.values():
        results = [_result(ctx, topic.name, partition.index, election_type) for partition in topic.partitions]
        needed = [result for result in results if result.error_code != ErrorCode.ELECTION_NOT_NEEDED]
        answers.append(ReplicaElectionResult(topic.name, needed))
    return answers


def _result(ctx: RequestContext, name: str, index: int, election_type: int) -> PartitionResult:
    error = _election(ctx, name, index, election_type)
    return PartitionResult(index, error.code, error.message)


def _election(ctx: RequestContext, name: str, index: int, election_type: int) -> KafkaError:
    broker = ctx.broker
    if broker.catalogue.get(name) is None:
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
    partition = broker.catalogue.partition(name, index)
    if partition is None:
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}")
    if broker.slots.state(partition.slot) != layout.STATE_OFFLINE:
        return KafkaError(ErrorCode.ELECTION_NOT_NEEDED)
    if election_type == PREFERRED:
        return KafkaError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)
    return KafkaError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)
