"""AlterReplicaLogDirs (key 34), v1-2: move this broker's replicas between its log directories
(KIP-113).

v2 flexible. Answered when moves have begun; DescribeLogDirs shows them as future replicas until
they are done. A move to the replica's present directory ends a move in progress. While a directory
of the node is offline no move begins. The node that is asked moves its own replicas; a partition
that has none there answers REPLICA_NOT_AVAILABLE.
"""

from kbroker.api.context import RequestContext
from kbroker.api.later import running
from kbroker.api.row import Api
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from kbroker.protocol.slices import paced

API = Api(ApiKey.ALTER_REPLICA_LOG_DIRS, 1, 2)


@running
async def handle(ctx: RequestContext, request: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
    """Each partition's result, by topic; a partition named for several directories moves to the
    last."""
    specs = {
        (topic.name, index): one.path
        for one in request.dirs
        for topic in one.topics
        for index in topic.partitions
    }
    moves = ctx.services.moves
    results: dict[str, AlterReplicaLogDirTopicResult] = {}
    for (name, index), log_dir in paced(specs.items()):
        code = ErrorCode.NONE
        try:
            await moves.alter(name, index, log_dir, ctx.client.site)
        except KafkaError as error:
            code = error.code
        topic = results.setdefault(name, AlterReplicaLogDirTopicResult(name))
        topic.partitions.append(AlterReplicaLogDirPartitionResult(index, code))
    return AlterReplicaLogDirsResponse(results=list(results.values()))


def refuse(
    request: AlterReplicaLogDirsRequest, error: KafkaError, version: int
) -> AlterReplicaLogDirsResponse:
    """The request failed as a whole."""
    specified = {
        (topic.name, index) for one in request.dirs for topic in one.topics for index in topic.partitions
    }
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(
                name,
                [
                    AlterReplicaLogDirPartitionResult(index, error.code)
                    for other, index in specified
                    if other == name
                ],
            )
            for name in dict.fromkeys(name for name, _ in sorted(specified))
        ]
    )
