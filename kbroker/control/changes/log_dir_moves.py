"""Moves of partitions between log dirs (KIP-113), led by the controller.

An IO worker copies the log to a ``-future`` folder while it stays in use. When little is left, the
worker pauses appends and completes the copy. Control stores the new log dir, which decides the
move; the network processes get an image; the worker continues there. After a crash of control or of
the broker the stored log dir is authoritative, and a ``-future`` folder elsewhere is a move that
continues. Each replica of a partition moves on its own, within its site; the others and the in-sync
set are not affected.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from kbroker.control import failpoint
from kbroker.control.broker import Broker
from kbroker.control.changes.move_targets import key_of
from kbroker.control.changes.retirement import retire_all
from kbroker.control.images import next_image
from kbroker.control.metadata.catalogue import Partition, Replica, Topic
from kbroker.control.replication.service import Replication
from kbroker.control.store.change import Change, Deletion
from kbroker.ipc.background import Background
from kbroker.ipc.layout import Slot, SlotState
from kbroker.ipc.link import AsyncLink, LinkClosed
from kbroker.ipc.move_messages import (
    BeginMove,
    CancelMove,
    FinishMove,
    MoveCaughtUp,
    MoveFailed,
    MoveProgress,
    MovesInProgress,
    SwitchMove,
)
from kbroker.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)

ANSWER_S: Final = 5.0
"""Seconds that a request waits for the IO worker to begin or end its move, or for its progress."""
SWITCH_S: Final = 30.0
"""Maximum time of an IO worker for the end of a copy: other changes wait for it."""


class FutureReplica(Struct, frozen=True):
    """A copy in progress. lag: number of records that it lacks."""

    replica: Replica
    log_dir: str
    bytes: int
    lag: int


class LogDirMoves:
    """Runs in: control. Owner: Services. At most one move a replica."""

    def __init__(self, broker: Broker, replication: Replication) -> None:
        self._broker = broker
        self._replication = replication
        self._targets = broker.move_targets
        self._greetings: Counter[int] = Counter()  # by worker
        self._storing: dict[int, asyncio.Event] = {}  # by slot
        self._steps: dict[tuple[int, int], asyncio.Task[None]] = {}
        """(slot, generation) -> task of a move's begin or end that the IO worker has not answered
        yet."""
        self._late = Background(log, "a log dir move could not be resumed or ended")
        broker.listeners.opened_late.append(self._opened_late)

    async def alter(self, name: str, index: int, log_dir: str, site: int, end_s: float | None = None) -> None:
        """Begin to move a site's replica of a partition; the replica's own log dir as target ends a
        move. end_s: as of `grow_topic`. Raises KafkaError.

        Other changes do not wait for the IO worker. If it hangs in a disk, the request is refused
        with REQUEST_TIMED_OUT, and the step continues; a repetition waits for the same one."""
        broker = self._broker
        async with broker.log_openings.when_topic_opened(broker.changing, name, end_s):  # no replica switches
            step = self._alter(name, index, log_dir, site)
        if step is None:
            return
        await asyncio.wait([step], timeout=ANSWER_S)
        if not step.done():
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "The IO worker has not answered yet; it continues.")
        step.result()

    def _alter(self, name: str, index: int, log_dir: str, site: int) -> "asyncio.Task[None] | None":
        """The step that the request waits for, if any."""
        broker = self._broker
        if log_dir not in broker.nodes.sites[site].log_dirs:
            raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND, f"{log_dir} is none of this node's log.dirs")
        if broker.dir_errors.of(log_dir):
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{log_dir} is offline")
        if log_dir in broker.cordoned_dirs():
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Log directory {log_dir} is cordoned")
        replica = self._replica_of(name, index, site)
        key = key_of(replica)
        if broker.slots.state(replica.slot) == SlotState.OFFLINE:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{replica.folder} is offline")
        if log_dir == replica.log_dir:
            if self._targets.pop(key, None) is None:
                return self._steps.get(key)
            return self._start(key, broker.links.call_worker(replica.worker, CancelMove(replica.slot)))
        if self._targets.get(key) == log_dir:
            return self._steps.get(key)
        if any(broker.dir_errors.of(one) for one in broker.nodes.sites[site].log_dirs):
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no log is moved while a log dir is offline")
        self._targets[key] = log_dir
        return self._start(key, self._begin(replica, log_dir))

    async def _begin(self, replica: Replica, log_dir: str) -> None:
        key = key_of(replica)
        try:
            await self._broker.links.call_worker(replica.worker, _begin(replica, log_dir))
        except BaseException as error:
            if self._targets.get(key) == log_dir:
                del self._targets[key]
            log.error("%s is not moved to %s: %s", replica.folder, log_dir, error)
            raise

    def _start(self, key: tuple[int, int], work: Coroutine[Any, Any, Any]) -> "asyncio.Task[None]":
        """Begin a step of a move, after the one before."""
        before = self._steps.get(key)

        async def run() -> None:
            if before is not None:
                await asyncio.wait([before])
            await work

        step = self._steps[key] = asyncio.get_running_loop().create_task(run())
        step.add_done_callback(partial(self._ended, key))
        return step

    def _ended(self, key: tuple[int, int], step: "asyncio.Task[None]") -> None:
        if self._steps.get(key) is step:
            del self._steps[key]
        if not step.cancelled():
            step.exception()  # the request has it, unless it has stopped to wait

    def _replica_of(self, name: str, index: int, site: int) -> Replica:
        """Raises UNKNOWN_TOPIC_OR_PARTITION, REPLICA_NOT_AVAILABLE."""
        broker = self._broker
        partition = broker.catalogue.partition(name, index)
        if partition is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        here = (
            one for one in partition.replicas if broker.nodes.site_of(one.log_dir) is broker.nodes.sites[site]
        )
        replica = next(here, None)
        if replica is None:
            raise KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE, "the partition has no replica on this node")
        return replica

    def worker_started(self, worker: int) -> None:
        """A worker has sent Hello: its predecessor no longer holds any log, whatever it has
        replied."""
        self._greetings[worker] += 1

    async def decided(self, replica: Replica) -> None:
        """Wait until it is decided in which log dir a starting worker finds the replica."""
        while (storing := self._storing.get(replica.slot)) is not None:
            await storing.wait()

    async def begin_again(self, worker: int, link: AsyncLink) -> None:
        """A worker has opened its logs: resume the copies of its predecessor, or of the last run of
        the broker. Those of logs that found no room are resumed when they are open."""
        for replica in list(self._broker.catalogue.replicas()):
            target = self._targets.get(key_of(replica))
            if replica.worker == worker and target is not None and target != replica.log_dir:
                if key_of(replica) in self._broker.log_openings.without_room:
                    continue
                try:
                    await self._resume(replica, target, link.call)
                except LinkClosed:
                    return

    def _opened_late(self, replica: Replica) -> None:
        target = self._targets.get(key_of(replica))
        if target is not None and target != replica.log_dir:
            call = partial(self._broker.links.call_worker, replica.worker)
            self._late.start(self._resume(replica, target, call))

    async def _resume(
        self, replica: Replica, target: str, call: Callable[[BeginMove], Awaitable[object]]
    ) -> None:
        """Let a worker continue a copy. Raises LinkClosed."""
        try:
            await call(_begin(replica, target))
        except KafkaError as error:
            log.error("%s is not moved to %s: %s", replica.folder, target, error)
            self._targets.pop(key_of(replica), None)

    def failed(self, report: MoveFailed) -> None:
        """A worker cannot complete a move."""
        key = report.slot, report.generation
        if self._targets.get(key) == report.log_dir:
            del self._targets[key]

    async def caught_up(self, report: MoveCaughtUp) -> None:
        """A worker's copy has nearly caught up: switch.

        Not while control opens the topic's logs at the worker: an OpenPartition call on its way,
        with the previous log dir, would end the worker's half of the switch. The worker reports
        again."""
        found = self._find(report.slot, report.generation)
        broker = self._broker
        switching = broker.switching
        if found is None or report.slot in switching or broker.log_openings.pending(found[0].topic):
            return
        key = report.slot, report.generation
        switching.add(report.slot)
        try:
            async with broker.changing:
                if self._targets.get(key) == report.log_dir:  # or else it was ended or replaced just now
                    await self._switch(*found, report.log_dir)
        except KafkaError as error:
            log.error("%s is not moved to %s: %s", found[1].folder, report.log_dir, error)
            if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
                self._targets.pop(key, None)
        finally:
            switching.discard(report.slot)

    async def _switch(self, partition: Partition, replica: Replica, log_dir: str) -> None:
        broker = self._broker
        topic = broker.catalogue.get(partition.topic)
        if topic is None or self._find(*key_of(replica)) is None:
            return
        greeting, link = self._greetings[replica.worker], broker.links.worker(replica.worker)
        try:
            async with asyncio.timeout(SWITCH_S):
                if link is None or not await link.call(SwitchMove(replica.slot, replica.generation)):
                    return
        except LinkClosed:
            return
        except TimeoutError:
            self._give_up(replica)
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the IO worker does not answer") from None
        failpoint.reach("switched")
        old = replace(replica)
        try:
            store = partial(self._store, replica, log_dir, greeting)
            if not await self._replication.move_log(partition, replica, log_dir, store):
                return
        except KafkaError:
            await broker.links.call_worker(replica.worker, CancelMove(replica.slot))
            raise
        self._targets.pop(key_of(replica), None)
        broker.catalogue.put(topic)
        await broker.links.announce(next_image(broker, (topic.image(),)))
        # a step, so that the next move does not begin before it: the old folder may be its target
        step = self._start(key_of(replica), self._finish(topic, partition, replica, old))
        await asyncio.wait([step], timeout=SWITCH_S)
        if step.done():
            step.result()
        else:
            log.error("%s: the IO worker has not ended the move yet; it continues", replica.folder)
            self._late.start(_ended_late(step))

    def _give_up(self, replica: Replica) -> None:
        """End a move whose switch is not answered. When the worker continues it executes the
        switch, which pauses the log, and then the end."""
        key = key_of(replica)
        self._targets.pop(key, None)
        self._start(key, self._broker.links.call_worker(replica.worker, CancelMove(replica.slot)))

    async def _finish(self, topic: Topic, partition: Partition, replica: Replica, old: Replica) -> None:
        """Let the worker continue in the stored log dir, and remove the old folder. If the worker
        cannot, as on a full disk, it has closed the log and opens it there, later if there is no
        room (`late_openings.py`). old: the replica in its former log dir."""
        broker = self._broker
        try:
            await broker.links.call_worker(replica.worker, FinishMove(replica.slot, replica.log_dir))
        except KafkaError as error:
            if error.code is not ErrorCode.KAFKA_STORAGE_ERROR or self._find(*key_of(replica)) is None:
                raise
            log.error("%s is opened again: %s", replica.folder, error)
            await broker.open_logs([(topic, [partition])])
            broker.cached_answers.topics_changed()  # some may show it as offline
        await broker.logs.forget([old.folder])
        # usually the worker has renamed it, unless it has just died
        await asyncio.to_thread(retire_all, [Deletion(topic.topic_id, old)])
        log.info("%s was moved from %s", replica.folder, old.log_dir)

    async def _store(self, replica: Replica, log_dir: str, greeting: int, change: Change) -> bool:
        """Decide that a replica lies in another log dir; False, and it stays, when its worker has
        died. The successor may already have opened the log in the old place and append there. A
        successor that starts while this is being stored waits for the end of it."""
        if self._greetings[replica.worker] != greeting:
            return False
        storing = self._storing[replica.slot] = asyncio.Event()
        try:
            await self._broker.in_store(lambda store: store.apply(change))
            replica.log_dir = log_dir
        finally:
            del self._storing[replica.slot]
            storing.set()
        return True

    def _find(self, slot: int, generation: int) -> tuple[Partition, Replica] | None:
        for partition in self._broker.catalogue.partitions():
            for replica in partition.replicas:
                if key_of(replica) == (slot, generation):
                    return partition, replica
        return None

    async def future_replicas(self) -> list[FutureReplica]:
        """Pending copies to other log dirs; those of a worker that does not answer soon have no
        bytes."""
        broker = self._broker
        if not self._targets:
            return []
        moving = [one for one in broker.catalogue.replicas() if key_of(one) in self._targets]
        workers = {replica.worker for replica in moving}
        progress: dict[int, MoveProgress] = {}
        for report in await asyncio.gather(*(self._progress(worker) for worker in workers)):
            progress |= {one.slot: one for one in report}
        found = []
        for replica in moving:
            end = broker.slots.word(replica.slot, Slot.LOG_END)
            one = progress.get(replica.slot, MoveProgress(replica.slot, 0, 0))
            target = self._targets.get(key_of(replica))
            if target is not None:
                found.append(FutureReplica(replica, target, one.bytes, max(0, end - one.next_offset)))
        return found

    async def _progress(self, worker: int) -> tuple[MoveProgress, ...]:
        try:
            report: tuple[MoveProgress, ...] = await self._broker.links.call_worker(
                worker, MovesInProgress(), ANSWER_S
            )
        except KafkaError as error:
            log.warning("the progress of its moves is not known: %s", error)
            return ()
        return report


def _begin(replica: Replica, log_dir: str) -> BeginMove:
    return BeginMove(replica.slot, replica.generation, log_dir)


async def _ended_late(step: "asyncio.Task[None]") -> None:
    """The end of a step that no request waits for; Background logs its error."""
    await step
