"""DeleteRecords of a partition with several replicas: answered when all available replicas have
deleted the records. Otherwise the records would reappear under the next leader. Source: Kafka's
DelayedDeleteRecords and Partition.lowWatermarkIfLeader.
"""

import asyncio
import time

from kbroker.control.coordinator.machine import Deferred
from kbroker.control.metadata.catalogue import Partition
from kbroker.control.replication.service import Replication
from kbroker.ipc.layout import Slot
from kbroker.protocol.errors import ErrorCode, KafkaError

CHECK_S = 0.01


def deleted_everywhere(
    replication: Replication, partition: Partition, log_start: int, timeout_ms: int
) -> Deferred:
    """The log start of the leader's reply, once all available replicas have reached it. Or a
    KafkaError: REQUEST_TIMED_OUT, or NOT_LEADER_OR_FOLLOWER when another replica leads, which may
    still have the records."""
    answer, broker = Deferred(), replication.broker
    leader, epoch = partition.leader, partition.leader_epoch
    deadline = time.monotonic() + timeout_ms / 1000
    loop = asyncio.get_running_loop()

    def check() -> None:
        if broker.catalogue.partition(partition.topic, partition.index) is not partition or (
            partition.leader,
            partition.leader_epoch,
        ) != (leader, epoch):
            answer.complete(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
            return
        others = [r for r in partition.replicas if r is not leader and replication.is_available(r)]
        starts = [broker.slots.word(r.slot, Slot.LOG_START) for r in others]
        low = min(starts, default=log_start)
        if low >= log_start and replication.is_available(leader):
            answer.complete(log_start)
        elif time.monotonic() >= deadline:
            answer.complete(KafkaError(ErrorCode.REQUEST_TIMED_OUT))
        else:
            loop.call_later(CHECK_S, check)

    check()
    return answer
