"""Appends to internal topics: control's own arena and rings, like a network process's, with futures
at the end."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from msgspec import Struct

from kbroker.control import failpoint
from kbroker.control.links.append_queue import Append, AppendQueue, ArenaQueue, Ended, Settled, Space
from kbroker.control.metadata.catalogue import Partition, Replica
from kbroker.ipc.layout import AppendEntry, Completion, Operation, Ring
from kbroker.ipc.ring import Sleeper, pack_acks, ring_length, ring_push, ring_take, wake_process
from kbroker.ipc.shared import Shared
from kbroker.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)

TAKEN_AT_ONCE = 256
"""Maximum of completions that are read from a ring in one call."""
RETRY_S = 0.01
"""Seconds until an append is repeated that an IO worker refused, because it restarts."""
FULL_S = 0.001
"""Seconds between two tries when the ring or the arena is full."""
PREDECESSOR_S = 1.0
"""Maximum time that a start waits for the IO workers to take what a dead predecessor appended: most
need a millisecond."""
TOKEN_MASK = (1 << AppendEntry.TOKEN_EPOCH_SHIFT) - 1
DEFAULT_TIMEOUT_MS = 30_000
ACKS_ALL = -1

Done = Callable[[KafkaError | None], None]
"""Called with None once the records are in the log, or with the error."""


class IoWorker(NamedTuple):
    """An IO worker as control reaches it. appends, completions: addresses of the rings; process:
    its row in the table of processes."""

    appends: int
    completions: int
    process: int


class Pending(Struct):
    """A batch pushed to the IO worker of a leader. number: the count of entries pushed to its ring
    before."""

    settled: Settled
    space: Space
    partition: Partition
    leader: Replica
    number: int


class Appender:
    """Runs in: control. Owner: the process's main. One loop; nothing here blocks.

    An append that an IO worker refuses because it does not have the partition (it restarts) is
    retried until its timeout; a batch that a worker took before it died may thus be in the log
    twice, which replay tolerates. The order of a partition's appends stays (`AppendQueue`).
    slot_listeners: called with each slot that has advanced since this process set its waiter bit.
    """

    def __init__(self, shared: Shared, epoch: int) -> None:
        self._shared = shared
        client = shared.control_client
        self._arena = memoryview(shared.arenas[client].map)
        self._space = ArenaQueue(shared.arenas[client].size)
        self._sleeper = Sleeper(shared, client)
        self._epoch = (epoch & 0xFFFF) << AppendEntry.TOKEN_EPOCH_SHIFT
        self._next_token = 0
        self._pending: dict[int, Pending] = {}
        self._futures: set[asyncio.Future[int]] = set()
        self._queues: dict[int, AppendQueue] = {}
        """Queues that have appends, by id() of the partition."""
        self._timers: dict[AppendQueue, asyncio.TimerHandle] = {}
        self._workers = [
            IoWorker(
                shared.append_ring(client, worker),
                shared.completion_ring(client, worker),
                shared.worker_process(worker),
            )
            for worker in range(shared.sizes.workers)
        ]
        self._pushed = [0] * len(self._workers)
        self._left: dict[int, deque[Space]] = {}
        """IO worker -> batches of its dead predecessor that it has not taken yet."""
        self._to_wake: set[int] = set()
        self.slot_listeners: list[Callable[[int], None]] = []
        self._out = AppendEntry.table(TAKEN_AT_ONCE)
        self._entry = AppendEntry.row()

    async def start(self) -> None:
        """Take over from a dead predecessor, whose batches may still be read from the arena, then
        listen. The batches of an IO worker that hangs keep their places until it takes them."""
        give_up = time.monotonic() + PREDECESSOR_S
        while any(ring_length(each.appends) for each in self._workers) and time.monotonic() < give_up:
            self._drain()
            await asyncio.sleep(FULL_S)
        for number, worker in enumerate(self._workers):
            if unread := int(ring_length(worker.appends)):
                log.warning("io %d hangs: it has not taken %d appends of the last control", number, unread)
                self._left[number] = self._space.claim(self._places(number, unread))
        asyncio.get_running_loop().add_reader(self._sleeper.event_fd, self._on_event)
        self._on_event()

    def _places(self, worker: int, unread: int) -> list[tuple[int, int]]:
        """Start and length of the last batches in the ring of an IO worker."""
        head, entries = self._shared.append_entries(self._shared.control_client, worker)
        end = int(head[Ring.HEAD])
        rows = entries[[number % len(entries) for number in range(end - unread, end)]]
        return [(row[AppendEntry.ADDRESS], row[AppendEntry.LENGTH]) for row in rows.tolist()]

    async def taken_over(self, worker: int) -> None:
        """Wait until an IO worker has taken what a dead predecessor appended: before that its logs
        are not complete."""
        while worker in self._left:
            self._drain()
            await asyncio.sleep(RETRY_S)

    def _free_taken(self) -> None:
        for number, spaces in list(self._left.items()):
            unread = int(ring_length(self._workers[number].appends)) - self._pushed[number]
            while len(spaces) > max(0, unread):
                self._space.give(spaces.popleft())
            if not spaces:
                del self._left[number]
                log.info("io %d has taken the appends of the last control", number)

    def stop(self) -> None:
        """Stop listening; pending appends fail."""
        asyncio.get_running_loop().remove_reader(self._sleeper.event_fd)
        self._pending.clear()
        for future in self._futures:
            future.cancel()
        for timer in self._timers.values():
            timer.cancel()

    async def append(self, partition: Partition, batch: bytes, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> int:
        """Append one batch; its base offset. Raises KafkaError, NOT_LEADER_OR_FOLLOWER only after
        the timeout, or when a later batch of the partition is written already. MESSAGE_TOO_LARGE
        for a batch that the arena cannot hold."""
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._add(partition, batch, timeout_ms, partial(_settle_future, future))
        self._futures.add(future)
        future.add_done_callback(self._futures.discard)
        offset = await future
        if failpoint.ARMED:
            failpoint.reach("appended")
        return offset

    def submit(
        self, partition: Partition, batch: bytes, done: Done, timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> None:
        """As `append`, but `done` is called at the end, and no task is needed."""

        def settled(error: int, _: int) -> None:
            if failpoint.ARMED and not error:
                failpoint.reach("appended")
            done(KafkaError(ErrorCode(error)) if error else None)

        self._add(partition, batch, timeout_ms, settled)

    def is_idle(self, partition: Partition) -> bool:
        """Whether no append to a partition is pending."""
        return id(partition) not in self._queues

    # --- the order of a partition's appends -------------------------------------------------------

    def _add(self, partition: Partition, batch: bytes, timeout_ms: int, settled: Settled) -> None:
        if not self._space.may_hold(len(batch)):  # an exception would end no operation that waits for it
            asyncio.get_running_loop().call_soon(settled, int(ErrorCode.MESSAGE_TOO_LARGE), -1)
            return
        queue = self._queues.get(id(partition))
        if queue is None:
            queue = self._queues[id(partition)] = AppendQueue(partition)
        queue.add(Append(batch, time.monotonic_ns() + timeout_ms * 1_000_000, settled))
        self._push_next(queue)

    def _push_next(self, queue: AppendQueue) -> None:
        """Push what may be pushed now; the rest waits for the end of a pushed append, or for a
        timer."""
        full = False
        while (append := queue.next()) is not None:
            if not self._push(queue, append):
                full = True
                break
            queue.pushed()
        if queue.is_waiting:
            if queue not in self._timers:
                delay_s = FULL_S if full else RETRY_S
                self._timers[queue] = asyncio.get_running_loop().call_later(delay_s, self._resume, queue)
        elif not queue and self._queues.get(id(queue.partition)) is queue:
            del self._queues[id(queue.partition)]
            if (timer := self._timers.pop(queue, None)) is not None:
                timer.cancel()

    def _resume(self, queue: AppendQueue) -> None:
        del self._timers[queue]
        self._report(queue.resume(time.monotonic_ns()))
        self._push_next(queue)

    def _ended(self, queue: AppendQueue, append: Append, refused: int, error: int, base_offset: int) -> None:
        if append.refused != refused or append.outcome is not None:
            return  # of a former leader, which is not waited for any more
        self._report(queue.ended(append, error, base_offset))
        self._push_next(queue)

    def _report(self, ended: Iterable[Ended]) -> None:
        for append, error, base_offset in ended:
            append.settled(error, base_offset)

    def _push(self, queue: AppendQueue, append: Append) -> bool:
        """Give a batch to its IO worker; False while the ring or the arena is full."""
        length = len(append.batch)
        space = self._space.take(length)
        if space is None:
            return False
        self._arena[space.start : space.start + length] = append.batch
        leader = queue.partition.leader
        token = _signed(self._epoch | self._next_token)
        now_ns = time.monotonic_ns()
        timeout_ms = max(1, -((now_ns - append.deadline_ns) // 1_000_000))
        entry = self._entry
        entry[AppendEntry.OPERATION] = Operation.APPEND
        entry[AppendEntry.SLOT] = leader.slot
        entry[AppendEntry.GENERATION] = leader.generation
        entry[AppendEntry.ADDRESS] = space.start
        entry[AppendEntry.LENGTH] = length
        entry[AppendEntry.TOKEN] = token
        entry[AppendEntry.ACKS] = pack_acks(ACKS_ALL, timeout_ms)
        entry[AppendEntry.NANOSECONDS] = now_ns
        if not ring_push(self._workers[leader.worker].appends, self._shared.sizes.ring_entries, entry):
            self._space.give(space)
            return False
        self._next_token = (self._next_token + 1) & TOKEN_MASK
        number = self._pushed[leader.worker]
        settled = partial(self._ended, queue, append, append.refused)
        self._pending[token] = Pending(settled, space, queue.partition, leader, number)
        self._pushed[leader.worker] += 1
        self._wake_soon(leader.worker)
        if failpoint.ARMED:
            failpoint.reach("pushed")
        return True

    def _wake_soon(self, worker: int) -> None:
        """Wake the IO workers once per loop turn: a wake-up costs more than an append."""
        if not self._to_wake:
            asyncio.get_running_loop().call_soon(self._wake)
        self._to_wake.add(worker)

    def _wake(self) -> None:
        for worker in self._to_wake:
            wake_process(self._shared, self._workers[worker].process)
        self._to_wake.clear()

    def worker_restarted(self, worker: int) -> None:
        """An IO worker sends Hello: batches that its predecessor took and did not answer are lost.

        Must be called before the successor gets its first OpenPartition: until then it refuses
        every entry without reading it, so no space that is freed here is still being read.
        """
        unread = int(ring_length(self._workers[worker].appends))
        taken = self._pushed[worker] - unread
        self._drain()
        for token, pending in list(self._pending.items()):
            if pending.leader.worker == worker and pending.number < taken:
                self._settle(token, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)

    def leaders_changed(self) -> None:
        """Partitions have other leaders: batches that a former one has not answered are pushed to
        the new one. Later batches would wait for them as long as the former leader hangs or
        restarts. It may still read them, so their space is not free before it answers."""
        self._drain()
        pushed = self._pending.values()
        self._space.set_aside(each.space for each in pushed if each.leader is not each.partition.leader)
        for queue in list(self._queues.values()):
            self._report(queue.abandon())
            self._push_next(queue)

    def _on_event(self) -> None:
        self._sleeper.clear()
        self._drain()
        self._sleeper.announce()
        self._drain()

    def _drain(self) -> None:
        if self._left:
            self._free_taken()
        for worker in self._workers:
            while count := ring_take(worker.completions, self._shared.sizes.ring_entries, self._out):
                for row in self._out[:count].tolist():
                    if row[Completion.TOKEN] == Completion.SLOT_ADVANCED:
                        for listener in self.slot_listeners:
                            listener(row[Completion.SLOT])
                        continue
                    self._settle(row[Completion.TOKEN], row[Completion.ERROR], row[Completion.BASE_OFFSET])

    def _settle(self, token: int, error: int, base_offset: int) -> None:
        pending = self._pending.pop(token, None)
        if pending is None:
            return  # of a predecessor, or answered already
        self._space.give(pending.space)
        pending.settled(error, base_offset)


async def completion_of(begin: Callable[[Done], None]) -> None:
    """Begin something and wait until its Done is called. Raises KafkaError."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def done(failure: KafkaError | None) -> None:
        if future.done():
            return
        if failure is None:
            future.set_result(None)
        else:
            future.set_exception(failure)

    begin(done)
    await future


def _settle_future(future: "asyncio.Future[int]", error: int, base_offset: int) -> None:
    if future.done():
        return
    if error:
        future.set_exception(KafkaError(ErrorCode(error)))
    else:
        future.set_result(base_offset)


def _signed(token: int) -> int:
    return token - (1 << 64) if token >= 1 << 63 else token
