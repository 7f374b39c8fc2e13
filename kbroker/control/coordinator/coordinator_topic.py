"""The internal topic of a coordinator: the partition of each key, and the partitions that are
loaded."""

import asyncio
import logging
from collections.abc import Awaitable
from typing import Final, NamedTuple

from kbroker.control.broker import Broker
from kbroker.control.changes.internal_topic import ensure
from kbroker.control.coordinator.acknowledged import CHECK_S, MAX_CHECK_S, acknowledged, is_acknowledged
from kbroker.control.coordinator.key_hash import positive_hash
from kbroker.control.coordinator.log_windows import LogWindows
from kbroker.control.coordinator.machine import Machine
from kbroker.control.coordinator.replay import load_partition, windows_of
from kbroker.control.metadata.catalogue import Partition, Topic
from kbroker.ipc.background import Background
from kbroker.ipc.layout import SlotState
from kbroker.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)

READY_S: Final = 2.0
"""Maximum time that a request waits for the load of partitions after its beginning: most need
milliseconds, but a disk may hang."""
WorkerDir = tuple[int, str]
"""The IO worker and the log dir of a partition's log."""


class Loads(NamedTuple):
    """Loads from one worker and log dir, one after the other. began_s: of the loop's clock."""

    task: "asyncio.Task[None]"
    began_s: float


class CoordinatorTopic:
    """Runs in: control. Owner: the process's main, as the Runtime that it is a part of.

    loaded: partitions of the topic whose records have been replayed and cannot be lost; others
    answer COORDINATOR_LOAD_IN_PROGRESS. Coordinators would else answer, and act, with records that
    a power cut or another leader takes back. Kafka's answer below the high watermark.
    """

    def __init__(self, broker: Broker, topic: str) -> None:
        self.topic = topic
        self.loaded: set[int] = set()
        self._broker = broker
        self._machine: Machine | None = None
        self._loading: dict[WorkerDir, Loads] = {}
        self._again: set[WorkerDir] = set()
        """Places whose loads begin again when they have ended."""
        self._replaying: dict[int, WorkerDir] = {}
        self._replayed: set[int] = set()
        """Partitions that are not loaded because their last records are not acknowledged."""
        self._uncertain: dict[int, bool] = {}
        """Loaded partitions with a timed-out append that is replayed, but not acknowledged; whether
        another one has timed out since the wait for the first began."""
        self._awaits_logs = False
        self._background = Background(log, f"{topic}: a partition could not be loaded")
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
        being loaded, or has replayed records that may be lost."""
        self.check_topic()
        index = self.partition_for(key)
        if index not in self.loaded or index in self._uncertain:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def is_loaded(self, key: str) -> bool:
        """Whether the partition of a key that was replayed is loaded."""
        return self.partition_for(key) in self.loaded

    def check_all_loaded(self) -> None:
        """Raises COORDINATOR_LOAD_IN_PROGRESS while any partition is being loaded."""
        topic = self._broker.catalogue.get(self.topic)
        if topic is not None and len(self.loaded) < len(topic.partitions):
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    async def ready(self) -> None:
        """Create the topic if it does not exist, and load its new partitions; those on a disk that
        hangs are loaded later. Raises KafkaError."""
        await ensure(self._broker, self.topic)
        self._begin_loads()
        now_s = asyncio.get_running_loop().time()
        waits = [one.task for one in self._loading.values() if one.began_s + READY_S > now_s]
        if waits:
            await asyncio.wait(waits, timeout=READY_S)

    async def ready_for(self, key: str) -> None:
        """As `ready`, for the partition of a key: does not wait for others. Raises KafkaError,
        COORDINATOR_LOAD_IN_PROGRESS while it is being loaded."""
        if self._broker.catalogue.get(self.topic) is None or not self.is_loaded(key):
            await self.ready()
        self.check_loaded(key)

    async def load(self, timeout_s: float | None = None) -> None:
        """Replay every partition of the topic that is not loaded yet, and whose IO worker has
        opened its logs; an unreadable partition stays unloaded, and those of a topic that is
        deleted meanwhile. No log dir is waited for by the others: its disk may hang. timeout_s: the
        maximum time to wait; the loads continue."""
        self._begin_loads()
        if self._loading:
            await asyncio.wait([one.task for one in self._loading.values()], timeout=timeout_s)

    def _begin_loads(self) -> None:
        topic = self._broker.catalogue.get(self.topic)
        if topic is None:
            return
        due = [_worker_dir(each) for each in topic.partitions if self._is_due(each)]
        for source in dict.fromkeys([*due, *self._replaying.values()]):
            if source in self._loading:
                self._again.add(source)
            else:
                began_s = asyncio.get_running_loop().time()
                self._loading[source] = Loads(self._background.start(self._load_from(source)), began_s)
        if self._broker.log_openings.pending(self.topic) and not self._awaits_logs:
            self._awaits_logs = True
            self._background.start(self._load_when_open())

    async def _load_when_open(self) -> None:
        """Load new partitions whose logs are opened late: their disk may hang."""
        await self._broker.log_openings.wait([self.topic])
        self._awaits_logs = False
        self._begin_loads()

    def _is_due(self, partition: Partition) -> bool:
        """Whether to load a partition now. Before its IO worker has opened it, and has taken what a
        predecessor of this process appended, a log may look shorter than it is."""
        busy = (self.loaded, self._replayed, self._replaying)
        if any(partition.index in each for each in busy) or not self._broker.links.worker(partition.worker):
            return False
        return self._broker.is_online(partition) or not self._broker.log_openings.pending(self.topic)

    async def _load_from(self, source: WorkerDir) -> None:
        """Load the partitions of one worker and log dir."""
        tables = windows_of(self.machine)
        try:
            while True:
                self._again.discard(source)
                topic = self._broker.catalogue.get(self.topic)
                for partition in topic.partitions if topic else ():
                    if _worker_dir(partition) == source and self._is_due(partition):
                        await self._load_one(topic, partition, tables)
                    if not self._is_current(topic):
                        break
                if source not in self._again:
                    return
        finally:
            del self._loading[source]

    async def _load_one(self, topic: Topic | None, partition: Partition, tables: LogWindows) -> None:
        self._replaying[partition.index] = _worker_dir(partition)
        try:
            await load_partition(self._broker, partition, self.machine, tables)
        except KafkaError as error:
            log.error("%s cannot be loaded: %s", partition.folder, error)
            if self._is_current(topic):
                return
        finally:
            del self._replaying[partition.index]
        if not self._is_current(topic):
            self.machine.unloaded(partition.index)  # `_deleted` does not know the partition
            self._begin_loads()
        elif is_acknowledged(self._broker, partition):
            self._begin(partition)
        else:
            self._replayed.add(partition.index)
            safe = acknowledged(self._broker, partition)
            self._background.start(self._begin_late(topic, partition, safe))

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
        if failure is None:
            self._replayed.discard(partition.index)
            self._begin(partition)
        else:
            log.warning("%s is loaded again: %s", partition.folder, failure)
            await self._load_again(topic, partition.index)

    async def _load_again(self, topic: Topic | None, index: int) -> None:
        """A partition, which is not loaded, has replayed records that are lost: forget them, and
        replay its log as soon as that is open, as another leader's."""
        self._replayed.discard(index)
        self.machine.unloaded(index)
        pause_s = CHECK_S
        while self._is_current(topic):
            partition = self._broker.catalogue.partition(self.topic, index)
            if partition is not None and self._broker.is_online(partition):
                await self.load()
                return
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, MAX_CHECK_S)

    def replayed_late(self, index: int) -> None:
        """Records of a partition were replayed whose append has timed out: no answer is read from
        them before they are acknowledged."""
        topic = self._broker.catalogue.get(self.topic)
        if topic is None or is_acknowledged(self._broker, topic.partitions[index]):
            return
        waits = index in self._uncertain
        self._uncertain[index] = waits
        if not waits:
            self._background.start(self._until_certain(topic, topic.partitions[index]))

    async def _until_certain(self, topic: Topic, partition: Partition) -> None:
        try:
            await acknowledged(self._broker, partition)
            while self._uncertain[partition.index]:
                self._uncertain[partition.index] = False
                await acknowledged(self._broker, partition)
        except KafkaError as error:
            log.warning(
                "%s is loaded again, records whose append timed out may be lost: %s", partition.folder, error
            )
            await self._forget_lost(topic, partition.index)
        finally:
            del self._uncertain[partition.index]

    async def _forget_lost(self, topic: Topic, index: int) -> None:
        """A loaded partition has replayed records that may be lost. Its state must agree with its
        log, so both are compared as at a start."""
        if not self._is_current(topic) or index not in self.loaded:
            return
        self.loaded.discard(index)
        self._replayed.add(index)
        self._forget_all()
        await self._settled(index)
        if self._is_current(topic):
            await self._load_again(topic, index)

    async def _settled(self, index: int) -> None:
        """Wait until no operation of a partition that is not loaded is pending: its end would be
        replayed before the log's older records."""

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


def _worker_dir(partition: Partition) -> WorkerDir:
    return partition.worker, partition.leader.log_dir
