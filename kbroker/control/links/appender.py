"""Appends to internal topics: control's own arena and rings, like a network process's, with futures
at the end."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from kbroker.control import failpoint
from kbroker.control.metadata.catalogue import Partition
from kbroker.ipc.layout import AppendEntry, Completion, Operation
from kbroker.ipc.ring import Sleeper, ring_length, ring_push, ring_take, wake_process
from kbroker.ipc.shared import Shared
from kbroker.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)

ALIGN = 64
"""A batch in the arena begins at a multiple of so many bytes."""
TAKEN_AT_ONCE = 256
"""Maximum of completions that are read from a ring in one call."""
RETRY_S = 0.01
"""Seconds until an append is repeated that an IO worker refused, because it restarts."""
FULL_S = 0.001
"""Seconds between two tries when the ring or the arena is full."""
TOKEN_MASK = (1 << AppendEntry.TOKEN_EPOCH_SHIFT) - 1
DEFAULT_TIMEOUT_MS = 30_000
SLOT_ADVANCED = -1
"""The token of a completion for a slot whose waiter bit was set."""

Settled = Callable[[int, int], None]
"""Called with the error of an append, 0 for none, and its base offset."""
Done = Callable[[KafkaError | None], None]
"""Called with None once the records are in the log, or with the error."""


@dataclass(slots=True, eq=False)
class Space:
    """Bytes [start, end) of the arena; reusable once it and everything before it are freed."""

    start: int
    end: int
    free: bool = False


class ArenaQueue:
    """Space in control's arena for pending batches: allocated in order, freed in any order.

    Runs in: control. Owner: the Appender.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._taken: deque[Space] = deque()

    def take(self, length: int) -> Space | None:
        """Contiguous bytes, None when there is no room now. ValueError for more than the whole
        arena."""
        if length > self._size:
            raise ValueError(f"{length} bytes do not fit into an arena of {self._size}")
        length = -(-length // ALIGN) * ALIGN
        if not self._taken:
            start = 0
        else:
            first, last = self._taken[0], self._taken[-1]
            start = last.end
            if last.end > first.start:  # the free part is after the last and before the first
                if start + length > self._size:
                    start = 0
                    if length >= first.start:
                        return None
            elif start + length >= first.start:
                return None
        if start + length > self._size:
            return None
        space = Space(start, start + length)
        self._taken.append(space)
        return space

    def give(self, space: Space) -> None:
        """Free a space."""
        space.free = True
        while self._taken and self._taken[0].free:
            self._taken.popleft()

    def __len__(self) -> int:
        return len(self._taken)


class IoWorker(NamedTuple):
    """An IO worker as control reaches it. appends, completions: addresses of the rings; process:
    its row in the table of processes."""

    appends: int
    completions: int
    process: int


@dataclass(slots=True)
class Pending:
    """A batch pushed to an IO worker. number: the count of entries pushed to its ring before."""

    settled: Settled
    space: Space
    worker: int
    number: int = -1


class Appender:
    """Runs in: control. Owner: the process's main. One loop; nothing here blocks.

    An append that an IO worker refuses because it does not have the partition (it restarts) is
    retried until its timeout; a batch that a worker took before it died may thus be in the log
    twice, which replay tolerates. slot_listeners: called with each slot that has advanced since
    this process set its waiter bit.
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
        self._tasks: set[asyncio.Task[None]] = set()
        self._workers = [
            IoWorker(
                shared.append_ring(client, worker),
                shared.completion_ring(client, worker),
                shared.worker_process(worker),
            )
            for worker in range(shared.sizes.workers)
        ]
        self._pushed = [0] * len(self._workers)
        self._to_wake: set[int] = set()
        self.slot_listeners: list[Callable[[int], None]] = []
        self._out = AppendEntry.table(TAKEN_AT_ONCE)
        self._entry = AppendEntry.row()

    async def start(self) -> None:
        """Take over from a dead predecessor, whose batches may still be read from the arena, then
        listen."""
        while any(ring_length(worker.appends) for worker in self._workers):
            self._drain()
            await asyncio.sleep(FULL_S)
        asyncio.get_running_loop().add_reader(self._sleeper.event_fd, self._on_event)
        self._on_event()

    def stop(self) -> None:
        """Stop listening; pending appends fail."""
        asyncio.get_running_loop().remove_reader(self._sleeper.event_fd)
        self._pending.clear()
        for future in self._futures:
            future.cancel()
        for task in self._tasks:
            task.cancel()

    async def append(
        self, partition: Partition, batch: bytes, acks: int = -1, timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> int:
        """Append one batch; its base offset. Raises KafkaError, NOT_LEADER_OR_FOLLOWER only after
        the timeout."""
        deadline = time.monotonic() + timeout_ms / 1000
        while True:
            left_ms = int((deadline - time.monotonic()) * 1000)
            try:
                offset = await self._append_once(partition, batch, acks, max(1, left_ms))
                failpoint.reach("appended")
                return offset
            except KafkaError as error:
                if error.code is not ErrorCode.NOT_LEADER_OR_FOLLOWER or left_ms <= 0:
                    raise
            await asyncio.sleep(RETRY_S)

    def submit(
        self, partition: Partition, batch: bytes, done: Done, timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> None:
        """As `append`, but `done` is called at the end, and no task is needed unless something
        fails."""

        def settled(error: int, _: int) -> None:
            if error == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                self._start(self._submit_again(partition, batch, done, timeout_ms))
                return
            if not error:
                failpoint.reach("appended")
            done(KafkaError(ErrorCode(error)) if error else None)

        space = self._space.take(len(batch))
        if space is None:
            self._start(self._submit_again(partition, batch, done, timeout_ms))
            return
        self._arena[space.start : space.start + len(batch)] = batch
        if not self._push(partition, space, len(batch), -1, timeout_ms, settled):
            self._space.give(space)
            self._start(self._submit_again(partition, batch, done, timeout_ms))

    async def _submit_again(self, partition: Partition, batch: bytes, done: Done, timeout_ms: int) -> None:
        await asyncio.sleep(RETRY_S)
        try:
            await self.append(partition, batch, timeout_ms=timeout_ms)
        except KafkaError as error:
            done(error)
        else:
            done(None)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _append_once(self, partition: Partition, batch: bytes, acks: int, timeout_ms: int) -> int:
        while (space := self._space.take(len(batch))) is None:
            await asyncio.sleep(FULL_S)
        self._arena[space.start : space.start + len(batch)] = batch
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        settled = partial(_settle_future, future)
        while not self._push(partition, space, len(batch), acks, timeout_ms, settled):
            await asyncio.sleep(FULL_S)
        self._futures.add(future)
        future.add_done_callback(self._futures.discard)
        return await future

    def _push(
        self, partition: Partition, space: Space, length: int, acks: int, timeout_ms: int, settled: Settled
    ) -> bool:
        """Give a batch to its IO worker; False while the ring is full."""
        leader = partition.leader
        token = _signed(self._epoch | self._next_token)
        entry = self._entry
        entry[AppendEntry.OPERATION] = Operation.APPEND
        entry[AppendEntry.SLOT] = leader.slot
        entry[AppendEntry.GENERATION] = leader.generation
        entry[AppendEntry.ADDRESS] = space.start
        entry[AppendEntry.LENGTH] = length
        entry[AppendEntry.TOKEN] = token
        entry[AppendEntry.ACKS] = (acks & 0xFFFF) | (timeout_ms << 16)
        entry[AppendEntry.NANOSECONDS] = time.monotonic_ns()
        if not ring_push(self._workers[leader.worker].appends, self._shared.sizes.ring_entries, entry):
            return False
        self._next_token = (self._next_token + 1) & TOKEN_MASK
        number = self._pushed[leader.worker]
        self._pending[token] = Pending(settled, space, leader.worker, number)
        self._pushed[leader.worker] += 1
        self._wake_soon(leader.worker)
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
            if pending.worker == worker and 0 <= pending.number < taken:
                self._settle(token, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)

    def _on_event(self) -> None:
        self._sleeper.clear()
        self._drain()
        self._sleeper.announce()
        self._drain()

    def _drain(self) -> None:
        for worker in self._workers:
            while count := ring_take(worker.completions, self._shared.sizes.ring_entries, self._out):
                for row in self._out[:count].tolist():
                    if row[Completion.TOKEN] == SLOT_ADVANCED:
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
