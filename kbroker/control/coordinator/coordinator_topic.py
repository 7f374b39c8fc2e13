"""The internal topic of a coordinator: the partition of each key, and the partitions that are
loaded."""

import asyncio
import logging
from collections.abc import Awaitable

from kbroker.control.broker import Broker
from kbroker.control.changes.internal_topic import ensure
from kbroker.control.coordinator.acknowledged import acknowledged, is_acknowledged
from kbroker.control.coordinator.key_hash import positive_hash
from kbroker.control.coordinator.machine import ActingMachine, Machine
from kbroker.control.coordinator.replay import load_partition, windows_of
from kbroker.control.metadata.catalogue import Partition, Topic
from kbroker.ipc.background import Background
from kbroker.ipc.layout import SlotState
from kbroker.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)


class CoordinatorTopic:
    """Runs in: control. Owner: the process's main, as the Runtime that it is a part of.

    loaded: partitions of the topic whose records have been replayed; others answer
    COORDINATOR_LOAD_IN_PROGRESS.
    """

    def __init__(self, broker: Broker, topic: str) -> None:
        self.topic = topic
        self.loaded: set[int] = set()
        self._broker = broker
        self._machine: Machine | None = None
        self._loading = asyncio.Lock()
        self._replayed: set[int] = set()
        """Partitions that are not loaded because their last records are not acknowledged."""
        self._waits = Background(log, f"{topic}: a partition could not be loaded")
        broker.listeners.deletion.append(self._deleted)

    def attach(self, machine: Machine) -> None:
        """Set the machine, which needs this runtime for its timers."""
        assert machine.topic == self.topic
        self._machine = machine

    @property
    def machine(self) -> Machine:
        """The machine; `attach` must have been called."""
        assert self._machine is not None
        return self._machine

    def partition_for(self, key: str) -> int:
        """Partition of the topic for a key: absolute hash modulo the number of partitions."""
        topic = self._broker.catalogue.get(self.topic)
        if topic is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return positive_hash(key) % len(topic.partitions)

    @property
    def is_ready(self) -> bool:
        """Whether the topic exists and is loaded: ``ready`` has nothing to do."""
        topic = self._broker.catalogue.get(self.topic)
        return topic is not None and len(self.loaded) >= len(topic.partitions)

    def check_topic(self) -> None:
        """Check that the topic exists: it is created by the first FindCoordinator.

        Raises NOT_COORDINATOR.
        """
        if self._broker.catalogue.get(self.topic) is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)

    def check_loaded(self, key: str) -> None:
        """Raises NOT_COORDINATOR, or COORDINATOR_LOAD_IN_PROGRESS while the key's partition is
        being loaded."""
        self.check_topic()
        if self.partition_for(key) not in self.loaded:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def is_loaded(self, key: str) -> bool:
        """Whether the partition of a key that was replayed is loaded: see `ActingMachine`."""
        return self.partition_for(key) in self.loaded

    def check_all_loaded(self) -> None:
        """Raises COORDINATOR_LOAD_IN_PROGRESS while any partition is being loaded."""
        topic = self._broker.catalogue.get(self.topic)
        if topic is not None and len(self.loaded) < len(topic.partitions):
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    async def ready(self) -> None:
        """Create the topic if it does not exist, and load its new partitions. Raises KafkaError."""
        await ensure(self._broker, self.topic)
        await self.load()

    async def load(self) -> None:
        """Replay every partition of the topic that is not loaded yet; an unreadable partition stays
        unloaded, and those of a topic that is deleted meanwhile."""
        async with self._loading:
            topic = self._broker.catalogue.get(self.topic)
            tables = None
            for partition in topic.partitions if topic else ():
                if partition.index in self.loaded or partition.index in self._replayed:
                    continue
                tables = tables or windows_of(self.machine)
                try:
                    await load_partition(self._broker, partition, self.machine, tables)
                except KafkaError as error:
                    log.error("%s cannot be loaded: %s", partition.folder, error)
                    if self._is_current(topic):
                        continue
                if not self._is_current(topic):
                    self.machine.unloaded(partition.index)  # `_deleted` does not know the partition
                    return
                if isinstance(self.machine, ActingMachine) and not is_acknowledged(self._broker, partition):
                    self._replayed.add(partition.index)
                    safe = acknowledged(self._broker, partition)
                    self._waits.start(self._begin_late(topic, partition, safe))
                else:
                    self._begin(partition)

    async def _begin_late(self, topic: Topic | None, partition: Partition, safe: Awaitable[None]) -> None:
        """Begin when the last records of a predecessor are acknowledged; if they are lost, load the
        partition again."""
        log.info("%s: waiting until its last records are acknowledged", partition.folder)
        failure: KafkaError | None = None
        try:
            await safe
        except KafkaError as error:
            failure = error
        if not self._is_current(topic):
            return
        self._replayed.discard(partition.index)
        if failure is None:
            self._begin(partition)
        else:
            log.warning("%s is loaded again: %s", partition.folder, failure)
            self.machine.unloaded(partition.index)
            await self.load()

    def _is_current(self, topic: Topic | None) -> bool:
        """Whether a topic has not been deleted, nor created again."""
        current = self._broker.catalogue.get(self.topic)
        return current is not None and topic is not None and current.topic_id == topic.topic_id

    def _begin(self, partition: Partition) -> None:
        """Serve it, and let the machine start the timers of the loaded state. If that fails, it
        serves nevertheless: control would only restart and fail again."""
        self.loaded.add(partition.index)
        try:
            self.machine.loaded(partition.index, self._broker.now_ms())
        except Exception:
            log.exception("%s: not every timer was started", partition.folder)

    def _deleted(self, topic: Topic) -> None:
        """The coordinator's own topic was deleted, and all of its state with it."""
        if topic.name == self.topic:
            replayed = self.loaded | self._replayed
            self.loaded, self._replayed = set(), set()
            self._forget_all()
            for index in replayed:
                self.machine.unloaded(index)

    def _forget_all(self) -> None:
        """The topic is gone: drop the state of all keys."""

    def _partition(self, key: str) -> Partition:
        """The loaded partition of a key. Raises COORDINATOR_NOT_AVAILABLE,
        COORDINATOR_LOAD_IN_PROGRESS."""
        number = self.partition_for(key)
        partition = self._broker.catalogue.topics[self.topic].partitions[number]
        if number not in self.loaded:
            offline = self._broker.slots.state(partition.slot) == SlotState.OFFLINE
            raise KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE if offline else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            )
        return partition
