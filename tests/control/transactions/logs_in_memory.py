"""The logs of a transaction coordinator, its group coordinator and their data, in memory."""

import asyncio

from kbroker.control.links.appender import Done
from kbroker.control.metadata.catalogue import Partition
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.records import ControlType, RecordBatch, read_batches, read_marker
from tests.control.coordinator.runtime_scene import submit


class Log:
    """Stands for the Appender. errors: raised once each by appends to a topic; held: appends to it
    wait."""

    def __init__(self) -> None:
        self.batches: list[tuple[str, int, RecordBatch]] = []
        self.errors: dict[str, list[ErrorCode]] = {}
        self.held: dict[str, asyncio.Event] = {}

    async def append(self, partition: Partition, batch: bytes, timeout_ms: int = 0) -> int:
        if (event := self.held.get(partition.topic)) is not None:
            await event.wait()
        if errors := self.errors.get(partition.topic):
            raise KafkaError(errors.pop(0))
        (parsed,) = read_batches(batch)
        self.batches.append((partition.topic, partition.index, parsed))
        return len(self.batches) - 1

    def submit(self, partition: Partition, batch: bytes, done: Done, timeout_ms: int = 0) -> None:
        submit(self.append(partition, batch), done)

    def markers(self) -> list[tuple[str, int, ControlType, int]]:
        """(topic, partition, kind, epoch) of every marker."""
        return [
            (topic, index, read_marker(batch)[0], batch.producer_epoch)
            for topic, index, batch in self.batches
            if batch.is_control
        ]
