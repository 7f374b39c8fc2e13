"""DescribeLogDirs (key 35), v1-5: log directories, the sizes of their logs, and the space of their
disks.

v1 throttle time (v0 was removed in Kafka 4.0); v2 flexible; v3 top-level error; v4 total and usable
bytes (KIP-827); v5 cordoned directories (KIP-1066).
"""

import asyncio
import os

from kbroker.api.context import RequestContext
from kbroker.api.later import running
from kbroker.api.row import Api
from kbroker.control.broker import Broker
from kbroker.control.changes.log_dir_moves import FutureReplica
from kbroker.control.metadata.catalogue import Replica
from kbroker.ipc.layout import Slot
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kbroker.protocol.slices import distinct, paced

API = Api(ApiKey.DESCRIBE_LOG_DIRS, 1, 5)


@running
async def handle(ctx: RequestContext, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    """Every log directory; null topics are all topics."""
    broker = ctx.broker
    replicas = _replicas(broker, request)
    takes_new = set(broker.dirs_for_new_partitions())
    results = []
    futures = await ctx.services.moves.future_replicas()
    if futures:
        named = {id(replica) for replica in replicas}
        futures = [one for one in futures if id(one.replica) in named]
    for log_dir in broker.nodes.sites[ctx.client.site].log_dirs:
        space = await asyncio.to_thread(_space, log_dir)
        if space is None or broker.dir_errors.of(log_dir):
            results.append(DescribeLogDirsResult(ErrorCode.KAFKA_STORAGE_ERROR, log_dir))
            continue
        topics = _topics(
            broker,
            [replica for replica in paced(replicas) if replica.log_dir == log_dir],
            [one for one in futures if one.log_dir == log_dir],
        )
        result = DescribeLogDirsResult(ErrorCode.NONE, log_dir, topics, *space, log_dir not in takes_new)
        results.append(result)
    return DescribeLogDirsResponse(results=results)


def refuse(request: DescribeLogDirsRequest, error: KafkaError, version: int) -> DescribeLogDirsResponse:
    """The request failed as a whole."""
    return DescribeLogDirsResponse(error_code=error.code)


def _replicas(broker: Broker, request: DescribeLogDirsRequest) -> list[Replica]:
    """The requested replicas, each once."""
    if request.topics is None:
        return list(broker.catalogue.replicas())
    found = (
        broker.catalogue.partition(*each)
        for each in paced(
            distinct((topic.topic, index) for topic in request.topics for index in topic.partitions)
        )
    )
    return [replica for partition in found if partition is not None for replica in partition.replicas]


def _space(log_dir: str) -> tuple[int, int] | None:
    """(total, usable) bytes of the directory's file system; None if it cannot be read."""
    try:
        found = os.statvfs(log_dir)
    except OSError:
        return None
    return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize


def _topics(
    broker: Broker, replicas: list[Replica], futures: list[FutureReplica]
) -> list[DescribeLogDirsTopic]:
    topics: dict[str, DescribeLogDirsTopic] = {}
    for replica in paced(replicas):
        size = broker.slots.word(replica.slot, Slot.LOG_BYTES)
        topic = topics.setdefault(replica.topic, DescribeLogDirsTopic(replica.topic))
        topic.partitions.append(DescribeLogDirsPartition(replica.index, size))
    for one in futures:
        topic = topics.setdefault(one.replica.topic, DescribeLogDirsTopic(one.replica.topic))
        topic.partitions.append(DescribeLogDirsPartition(one.replica.index, one.bytes, one.lag, True))
    return list(topics.values())
