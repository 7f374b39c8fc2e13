"""The internal topic of a coordinator: the partition of each key, and the partitions that are
loaded."""

import asyncio
import logging

from kbroker.control.broker import Broker
from kbroker.control.changes.internal_topic import ensure
from kbroker.control.coordinator.key_hash import positive_hash
from kbroker.control.coordinator.machine import Machine
from kbroker.control.coordinator.replay import load_partition, windows_of
from kbroker.control.metadata.catalogue import Partition, Topic
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
                if partition.index in self.loaded:
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
                self.loaded.add(partition.index)
                self._begin(partition)

    def _is_current(self, topic: Topic | None) -> bool:
        """Whether a topic has not been deleted, nor created again."""
        current = self._broker.catalogue.get(self.topic)
        return current is not None and topic is not None and current.topic_id == topic.topic_id

    def _begin(self, partition: Partition) -> None:
        """Let the machine start the timers of the loaded state. If that fails, the coordinator
        serves nevertheless: control would only restart and fail again."""
        try:
            self.machine.loaded(partition.index, self._broker.now_ms())
        except Exception:
            log.exception("%s: not every timer was started", partition.folder)

    def _deleted(self, topic: Topic) -> None:
        """The coordinator's own topic was deleted, and all of its state with it."""
        if topic.name == self.topic:
            loaded, self.loaded = self.loaded, set()
            self._forget_all()
            for index in loaded:
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
