"""OffsetForLeaderEpoch (key 23), v2-4: the end offset of a leader epoch, by which consumers detect
truncation.

v2 current leader epoch (v0-1 were removed in Kafka 4.0); v3 replica id; v4 flexible. The current
epoch ends at the log end; an unknown epoch is (-1, -1); an older one ends where the next
one starts (KIP-101, KIP-320).
"""

from kbroker.api.context import RequestContext
from kbroker.api.later import Answer, by_topic, of_worker
from kbroker.api.partition_check import check_leader_epoch, online
from kbroker.api.row import Api
from kbroker.control.coordinator.machine import Deferred
from kbroker.ipc.layout import Slot
from kbroker.ipc.messages import EpochEndOffset as Ask
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import KafkaError
from kbroker.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

API = Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4)


def handle(ctx: RequestContext, request: OffsetForLeaderEpochRequest) -> Answer:
    """One end offset per partition."""
    ends = [
        (topic.topic, [_end(ctx, topic.topic, partition) for partition in topic.partitions])
        for topic in request.topics
    ]
    return by_topic(
        ends, OffsetForLeaderTopicResult, lambda topics: OffsetForLeaderEpochResponse(topics=topics)
    )


def refuse(
    request: OffsetForLeaderEpochRequest, error: KafkaError, version: int
) -> OffsetForLeaderEpochResponse:
    """The request failed as a whole: every partition carries the error."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic.topic,
                [EpochEndOffset(error.code, partition.partition) for partition in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _end(ctx: RequestContext, name: str, part: OffsetForLeaderPartition) -> EpochEndOffset | Deferred:
    """The current epoch, by far the most requested, comes from shared memory; earlier epochs from
    the IO worker."""
    broker = ctx.broker
    try:
        partition = online(broker, name, part.partition)
        check_leader_epoch(broker, partition, part.current_leader_epoch)
        words = broker.slots.group(partition.slot)
    except KafkaError as error:
        return EpochEndOffset(error.code, part.partition)
    if part.leader_epoch == words[Slot.LEADER_EPOCH]:
        return EpochEndOffset(0, part.partition, part.leader_epoch, int(words[Slot.LOG_END]))

    return of_worker(
        broker,
        partition,
        Ask(partition.slot, part.leader_epoch),
        lambda end: EpochEndOffset(0, part.partition, *end),
        lambda error: EpochEndOffset(error.code, part.partition),
    )
