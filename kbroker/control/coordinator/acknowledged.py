"""Waits until records in a log cannot be lost: they are on disk (write.caching=false or
flush.messages=1), and on all in-sync replicas. Else a coordinator would act on a record that a
power cut removes."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from kbroker.control.broker import Broker
from kbroker.control.metadata.catalogue import Partition
from kbroker.ipc.layout import Slot
from kbroker.protocol.errors import ErrorCode, KafkaError

CHECK_S, MAX_CHECK_S = 0.005, 1.0
"""First and longest pause between two checks of a log: a sync takes milliseconds, but a disk may
hang for hours."""


def acknowledged_below(broker: Broker, partition: Partition) -> int:
    """The offset below which the records in the leader's log are acknowledged. With
    flush.messages=1 the high watermark does not wait for the disk, but acknowledgements do."""
    high_watermark = broker.slots.word(partition.slot, Slot.HIGH_WATERMARK)
    if broker.topic_config(partition.topic).flush_messages > 1:
        return high_watermark
    return min(high_watermark, broker.slots.word(partition.slot, Slot.DURABLE))


def is_acknowledged(broker: Broker, partition: Partition) -> bool:
    """Whether every record in the leader's log is acknowledged."""
    return acknowledged_below(broker, partition) >= broker.slots.word(partition.slot, Slot.LOG_END)


def acknowledged(broker: Broker, partition: Partition) -> Coroutine[Any, Any, None]:
    """Wait until every record that is in the leader's log now is acknowledged. Raises
    NOT_LEADER_OR_FOLLOWER when the log closes, loses records, or another replica leads."""
    return _acknowledged(broker, partition, broker.slots.word(partition.slot, Slot.LOG_END))


async def _acknowledged(broker: Broker, partition: Partition, end: int) -> None:
    slot, generation, pause_s = partition.slot, partition.generation, CHECK_S
    while True:
        present = broker.catalogue.partition(partition.topic, partition.index)
        is_same = present is not None and (present.slot, present.generation) == (slot, generation)
        if not (is_same and broker.is_online(partition) and broker.slots.word(slot, Slot.LOG_END) >= end):
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{partition.folder} has changed")
        if acknowledged_below(broker, partition) >= end:
            return
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, MAX_CHECK_S)
