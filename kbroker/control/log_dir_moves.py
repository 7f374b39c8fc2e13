"""Moves of partitions between log dirs (KIP-113), as control leads them.

An IO worker copies the log to a ``-future`` folder while it goes on. When little is left: the worker holds appends off
and completes the copy; the new log dir is stored, which decides; the network processes are told; the worker goes on
there. What dies in between is found at the next start: the stored log dir is the truth, and a copy elsewhere is begun
anew.
"""

import asyncio
import logging
from dataclasses import dataclass, replace

from kbroker.control.broker import Broker
from kbroker.control.catalogue import Partition
from kbroker.control.retirement import retire_all
from kbroker.control.store import Change, Deletion
from kbroker.ipc import layout
from kbroker.ipc.move_messages import (
    BeginMove,
    CancelMove,
    FinishMove,
    MoveCaughtUp,
    MoveFailed,
    MoveProgress,
    MovesUnderWay,
    SwitchMove,
)
from kbroker.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FutureReplica:
    """A copy that is being made. lag: records that it lacks."""

    partition: Partition
    log_dir: str
    bytes: int
    lag: int


class LogDirMoves:
    """Runs in: control. Kept by the Broker. At most one move a partition."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._targets: dict[int, str] = {}  # by slot
        self._switching: set[int] = set()

    @classmethod
    def of(cls, broker: Broker) -> "LogDirMoves":
        """The broker's."""
        found = broker.attachments.get(cls)
        if found is None:
            found = broker.attachments[cls] = cls(broker)
        assert isinstance(found, cls)
        return found

    async def alter(self, name: str, index: int, log_dir: str) -> None:
        """Begin to move a partition; to where it is: end a move. Raises KafkaError."""
        broker = self._broker
        if log_dir not in broker.log_dirs:
            raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND, f"{log_dir} is none of log.dirs")
        if broker.dir_errors.of(log_dir):
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{log_dir} is offline")
        partition = broker.catalogue.partition(name, index)
        if partition is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if partition.replicated:
            why = "a partition with replicas on other sites is moved by reassigning it"
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)
        if broker.site_of(log_dir) is not broker.site_of(partition.log_dir):
            raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND, f"{log_dir} is none of this node's log.dirs")
        if broker.slots.state(partition.slot) == layout.STATE_OFFLINE:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{partition.folder} is offline")
        if log_dir == partition.log_dir:
            if self._targets.pop(partition.slot, None) is not None:
                await broker.links.call_worker(partition.worker, CancelMove(partition.slot))
            return
        if self._targets.get(partition.slot) == log_dir:
            return
        if broker.dir_errors.failed:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no log is moved while a log dir is offline")
        self._targets[partition.slot] = log_dir
        try:
            await self._begin(partition, log_dir)
        except BaseException:
            self._targets.pop(partition.slot, None)
            raise

    async def _begin(self, partition: Partition, log_dir: str) -> None:
        call = BeginMove(partition.slot, partition.generation, log_dir)
        await self._broker.links.call_worker(partition.worker, call)

    async def begin_again(self, worker: int) -> None:
        """A worker has started: what its predecessor was copying, or the last run of the broker."""
        for partition in self._broker.catalogue.partitions():
            target = self._targets.get(partition.slot)
            if partition.worker == worker and target is not None and target != partition.log_dir:
                try:
                    await self._begin(partition, target)
                except KafkaError as error:
                    log.error("%s is not moved to %s: %s", partition.folder, target, error)
                    self._targets.pop(partition.slot, None)

    def remember(self, partition: Partition, log_dir: str) -> None:
        """A ``-future`` folder was found at start."""
        self._targets[partition.slot] = log_dir

    def failed(self, told: MoveFailed) -> None:
        """A worker gives up."""
        self._targets.pop(told.slot, None)

    async def caught_up(self, told: MoveCaughtUp) -> None:
        """A worker's copy lacks little: switch."""
        partition = self._partition(told.slot, told.generation)
        if partition is None or told.slot in self._switching:
            return
        wanted = self._targets.setdefault(told.slot, told.log_dir)  # control may have restarted meanwhile
        if wanted != told.log_dir:
            return
        self._switching.add(told.slot)
        try:
            async with self._broker.changing:
                await self._switch(partition, told.log_dir)
        except KafkaError as error:
            log.error("%s is not moved to %s: %s", partition.folder, told.log_dir, error)
            if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
                self._targets.pop(told.slot, None)
        finally:
            self._switching.discard(told.slot)

    async def _switch(self, partition: Partition, log_dir: str) -> None:
        broker = self._broker
        topic = broker.catalogue.get(partition.topic)
        if topic is None or self._partition(partition.slot, partition.generation) is None:
            return
        switch = SwitchMove(partition.slot, partition.generation)
        if not await broker.links.call_worker(partition.worker, switch):
            return
        old = replace(partition.leader)
        moved = partition.moved_to(log_dir)
        try:
            await broker.in_store(lambda store: store.apply(Change(moved_partitions=[moved])))
        except KafkaError:
            await broker.links.call_worker(partition.worker, CancelMove(partition.slot))
            raise
        partition.leader.log_dir = log_dir
        self._targets.pop(partition.slot, None)
        broker.catalogue.put(topic)
        await broker.links.announce(broker.next_image((topic.image(),)))
        await broker.links.call_worker(partition.worker, FinishMove(partition.slot, log_dir))
        await broker.logs.forget([old.folder])
        # usually the worker has put it out of the way, unless it died just now
        await asyncio.to_thread(retire_all, [Deletion(topic.topic_id, old)])
        log.info("%s was moved from %s", partition.folder, old.log_dir)

    def _partition(self, slot: int, generation: int) -> Partition | None:
        found = (one for one in self._broker.catalogue.partitions() if one.slot == slot)
        partition = next(found, None)
        return partition if partition is not None and partition.generation == generation else None

    async def future_replicas(self) -> list[FutureReplica]:
        """Copies under way."""
        broker = self._broker
        mine = [one for one in broker.catalogue.partitions() if one.slot in self._targets]
        progress: dict[int, MoveProgress] = {}
        for worker in {partition.worker for partition in mine}:
            told: tuple[MoveProgress, ...] = await broker.links.call_worker(worker, MovesUnderWay())
            progress |= {one.slot: one for one in told}
        found = []
        for partition in mine:
            end = broker.slots.word(partition.slot, layout.SLOT_LOG_END)
            one = progress.get(partition.slot, MoveProgress(partition.slot, 0, 0))
            target = self._targets.get(partition.slot)
            if target is not None:
                found.append(FutureReplica(partition, target, one.bytes, max(0, end - one.next_offset)))
        return found
