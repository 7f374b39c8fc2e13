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
from kbroker.control.log_openings import opened_by
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from kbroker.protocol.slices import Table, distinct

API = Api(ApiKey.ALTER_REPLICA_LOG_DIRS, 1, 2)


@running
async def handle(ctx: RequestContext, request: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
    """Each partition's result, by topic; a partition named for several directories moves to the
    last."""
    specs = Table(
        ((topic.name, index), one.path)
        for one in request.dirs
        for topic in one.topics
        for index in topic.partitions
    )
    moves, end_s = ctx.services.moves, opened_by()
    results: Table[str, list[AlterReplicaLogDirPartitionResult]] = Table()
    for (name, index), log_dir in specs.items():
        code = ErrorCode.NONE
        try:
            await moves.alter(name, index, log_dir, ctx.client.site, end_s)
        except KafkaError as error:
            code = error.code
        results.setdefault(name, list).append(AlterReplicaLogDirPartitionResult(index, code))
    specs.clear()
    return _response(results)


def refuse(
    request: AlterReplicaLogDirsRequest, error: KafkaError, version: int
) -> AlterReplicaLogDirsResponse:
    """The request failed as a whole."""
    results: Table[str, list[AlterReplicaLogDirPartitionResult]] = Table()
    specified = distinct(
        (topic.name, index) for one in request.dirs for topic in one.topics for index in topic.partitions
    )
    for name, index in specified:
        results.setdefault(name, list).append(AlterReplicaLogDirPartitionResult(index, error.code))
    return _response(results)


def _response(results: Table[str, list[AlterReplicaLogDirPartitionResult]]) -> AlterReplicaLogDirsResponse:
    topics = [AlterReplicaLogDirTopicResult(name, partitions) for name, partitions in results.items()]
    results.clear()
    return AlterReplicaLogDirsResponse(results=topics)
