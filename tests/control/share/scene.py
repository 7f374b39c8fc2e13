"""A share group's partitions without a broker."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from kbroker.control.coordinator.machine import Operation
from kbroker.control.coordinator.timers import WheelTimers
from kbroker.control.groups.settings import GroupOverrides
from kbroker.control.metadata.catalogue import Partition
from kbroker.control.metadata.topic_name import SHARE_GROUP_STATE
from kbroker.control.share.acknowledging import AcknowledgedBatch, AcknowledgeType
from kbroker.control.share.acquiring import Spec
from kbroker.control.share.partitions import SharePartitions
from kbroker.control.share.share_partition import SharePartition
from kbroker.control.share.state_shard import ShareKey, ShareStateShard
from kbroker.ipc.clock import monotonic_ms
from kbroker.metrics.slots import bind
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.records import read_all
from tests.control.fakes import World

STATE, LETTER = "state", "letter"


class Scene:
    """Partitions of a group with a dead-letter topic. events: what was written, in order;
    left_to_fail: of the next letters."""

    def __init__(self, made: World, settings: dict[str, str] | None = None) -> None:
        self.broker, self.shared = made.broker, made.shared
        self.events: list[str] = []
        self.left_to_fail = 0
        self.state_fails = False
        self.is_loading = False
        self.freed: list[ShareKey] = []
        self.shard = ShareStateShard()
        self.key = ShareKey("team", self.broker.catalogue.topics["orders"].topic_id, 0)
        overrides = GroupOverrides()
        dead_letters = {"errors.deadletterqueue.topic.name": "dlq.team"}
        overrides.put("team", {"share.auto.offset.reset": "earliest", **(settings or dead_letters)})
        groups: Any = SimpleNamespace(shard=SimpleNamespace(table=SimpleNamespace(overrides=overrides)))
        runtime: Any = self
        self.partitions = SharePartitions(
            self.broker,
            groups,
            runtime,
            self.shard,
            WheelTimers(asyncio.get_running_loop()),
            self.freed.append,
            self.append,
        )

    # --- the runtime

    topic = SHARE_GROUP_STATE

    async def ready_for(self, key: str) -> None:
        """Raises while states are being loaded."""
        self.check_loaded(key)

    def check_loaded(self, _: str) -> None:
        """Raises while states are being loaded."""
        self.check_all_loaded()

    def check_all_loaded(self) -> None:
        """Raises while states are being loaded."""
        if self.is_loading:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    async def run(self, _: str, operation: Operation) -> None:
        if self.state_fails:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        for record in operation(5).records:
            self.shard.replay(0, record.key, record.value, 5)
        self.events.append(STATE)

    def start(self, key: str, operation: Operation) -> None:
        asyncio.get_running_loop().create_task(self.run(key, operation))

    async def append(self, partition: Partition, batch: bytes, *, timeout_ms: int) -> int:
        await asyncio.sleep(0)
        if self.left_to_fail:
            self.left_to_fail -= 1
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        self.events += [LETTER] * len(list(read_all(batch)))
        return 0

    async def taken(self) -> SharePartition:
        """The partition with ten records that member a has."""
        partition = await self.partitions.open(self.key)
        now_ms = monotonic_ms()
        partition.acquire("a", [(0, 9)], Spec(10), self.partitions.limits("team"), now_ms)
        self.events.clear()
        return partition

    async def reject(self, partition: SharePartition, first: int, last: int) -> None:
        batch = AcknowledgedBatch(first, last, [AcknowledgeType.REJECT])
        partition.acknowledge("a", [batch], self.partitions.limits("team"), 0)
        await self.partitions.settle(self.key, partition)

    async def end(self, partition: SharePartition, kind: AcknowledgeType, first: int, last: int) -> None:
        batch = AcknowledgedBatch(first, last, [kind])
        limits = self.partitions.limits("team")
        partition.acknowledge("a", [batch], limits, monotonic_ms())
        await self.partitions.settle(self.key, partition)

    def waiting(self) -> int:
        """Letters that wait, on /metrics."""
        return self.broker.metrics.words[bind("kbroker_dead_letters_waiting")]

    def failures(self, reason: str) -> int:
        """Attempts that failed, on /metrics."""
        return self.broker.metrics.words[bind("kbroker_dead_letter_failures_total", reason=reason)]

    def start_offset(self) -> int:
        """The first unfinished record, as a restart finds it."""
        stored = self.shard.get(self.key)
        assert stored is not None
        return SharePartition(stored.start_offset, list(stored.ranges)).start_offset

    async def until(self, reached: Callable[[], bool]) -> None:
        for _ in range(1000):
            if reached():
                return
            await asyncio.sleep(0)
        raise AssertionError(self.events)
