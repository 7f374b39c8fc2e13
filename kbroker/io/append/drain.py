"""The arrays around the drain kernel, and its results as Python values.

Runs in: io. Owner: the IO worker. Not thread-safe.
"""

import time
from collections.abc import Callable
from functools import partial

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from kbroker.io.append import delayed_produce_kernel as delayed_kernel
from kbroker.io.append import drain_kernel, group_commit_kernel, publish_kernel, wait_kernel
from kbroker.io.append.producer_table import EndTxnMarker, ProducerTable
from kbroker.io.append.rows import (
    AppendRow,
    Batch,
    Chain,
    Client,
    Drained,
    Environment,
    Held,
    SyncJob,
    SyncRow,
)
from kbroker.ipc.ring import acks_of, pack_acks, timeout_ms_of
from kbroker.ipc.shared import Shared
from kbroker.kernels.libc import Epoll
from kbroker.kernels.search import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES
from kbroker.metrics.slots import Slots
from kbroker.protocol.records import ControlType, read_batches, read_marker
from kbroker.protocol.schema import ProtocolError
from kbroker.purgatory.delayed_produce_layout import DelayedList, DelayedProduce

Words = NDArray[np.int64]
NEVER = AppendRow.NEVER


class HeldAppend(Struct, frozen=True):
    """A written append that Python answers, or holds until its records are safe. acks and
    timeout_ms are the request's; append_time_ms: -1 for CreateTime."""

    client: int
    token: int
    slot: int
    base_offset: int
    last_offset: int
    append_time_ms: int
    acks: int
    timeout_ms: int


class MarkerAppend(Struct, frozen=True):
    """A written control batch; the transaction ends in memory after it. marker: see `marker_of`."""

    append: HeldAppend
    marker: EndTxnMarker | None


class ReadAhead(Struct, frozen=True):
    """A network process requests [position, position + length) of a segment in the page cache."""

    client: int
    token: int
    slot: int
    segment_base: int
    position: int
    length: int


class Drain:
    """Owns the append rows, the producer table and the scratch of the drain kernel (env).

    producers: the first capacity of the producer table."""

    def __init__(self, shared: Shared, worker: int, producers: int = 1024) -> None:
        partitions = shared.sizes.max_partitions
        self.shared = shared
        self.producers = ProducerTable(producers, self.bind)
        self.rows: Words = AppendRow.table(partitions)
        self.counters = shared.counters[shared.worker_process(worker)]
        self.metrics = Slots(shared.metrics[shared.worker_process(worker)])
        self.out: Words = Drained.row()
        self._batches: Words = Batch.table(Batch.ROWS)
        self._chains: Words = Chain.declared(np.full((partitions, Chain.WORDS), -1, np.int64))
        self._touched: Words = np.zeros(Batch.ROWS, np.int64)
        self._failed: Words = np.zeros((Batch.ROWS, 2), np.int64)
        self._one: Words = np.ones(1, np.int64)
        self._scratch: NDArray[np.uint8] = np.zeros(
            16 * Environment.MAX_IOV + (OFFSET_ENTRY_BYTES + TIME_ENTRY_BYTES) * Batch.ROWS + 16,
            np.uint8,
        )
        self._syncs_scratch: NDArray[np.uint8] = np.zeros(SyncJob.STRIDE * SyncJob.MAX_JOBS, np.uint8)
        self._sync_results: Words = np.zeros((3 * SyncJob.MAX_JOBS, 3), np.int64)
        self.syncs: Words = SyncRow.table(partitions)
        self._delayed: Words = DelayedProduce.table(1)
        self._lists: Words = DelayedList.table(partitions + 1)
        self._events: NDArray[np.uint8] = np.zeros(Epoll.STRIDE * Environment.MAX_EVENTS, np.uint8)
        self._line = shared.processes[shared.worker_process(worker)]
        self.env = self._environment()
        self._clients: Words = Client.table(shared.sizes.clients)
        for client in range(shared.sizes.clients):
            row = self._clients[client]
            row[Client.APPEND_RING] = shared.append_ring(client, worker)
            row[Client.COMPLETION_RING] = shared.completion_ring(client, worker)
            row[Client.ARENA] = shared.arenas[client].address
            row[Client.ARENA_BYTES] = shared.arenas[client].size
            row[Client.PROCESS_LINE] = shared.processes[client].ctypes.data
            row[Client.EVENT_FD] = shared.event_fds[client]
        env, clients = int(self.env.ctypes.data), (int(self._clients.ctypes.data), len(self._clients))
        self.waiting: Callable[[], int] = partial(wait_kernel.waiting_entries, *clients)
        """Entries in the append rings now."""
        self.wait: Callable[[int, int], int] = partial(wait_kernel.wait, env, *clients)
        """wait(due_ms, until_ms): sleep until there are entries or other work; returns bits of
        `WaitResult`."""
        self.poll: Callable[[int], int] = partial(wait_kernel.poll_entries, env, *clients)
        """poll(time_ns): look for entries without sleeping; returns how many there are."""
        self.run: Callable[[], int]
        """One kernel call; returns how many entries it took. ``out`` holds its other results."""
        self._grow()

    def bind(self) -> None:
        """Give the kernel its tables; again when one of them has grown."""
        self.run = partial(
            drain_kernel.drain,
            *(self.env, self._clients, self.shared.slots, self.rows, self.producers.rows, self._batches),
            *(self._chains, self._touched, self._failed, self._delayed, self._lists, self.syncs),
            *(self.counters, self.out),
        )

    def _environment(self) -> Words:
        env: Words = Environment.row()
        scratch = int(self._scratch.ctypes.data)
        env[Environment.CAPACITY] = self.shared.sizes.ring_entries
        env[Environment.ONE] = self._one.ctypes.data
        env[Environment.CLOCK] = scratch
        env[Environment.METRICS] = self.metrics.address
        env[Environment.IOV] = scratch + 16
        env[Environment.INDEX_BYTES] = env[Environment.IOV] + 16 * Environment.MAX_IOV
        env[Environment.TIME_INDEX_BYTES] = env[Environment.INDEX_BYTES] + OFFSET_ENTRY_BYTES * Batch.ROWS
        env[Environment.DELAYED_DUE_MS] = NEVER
        env[Environment.SYNC_JOBS] = env[Environment.SYNC_RESULTS] = -1
        env[Environment.SYNC_SCRATCH] = self._syncs_scratch.ctypes.data
        env[Environment.EVENTS] = self._events.ctypes.data
        env[Environment.PROCESS_LINE] = self._line.ctypes.data
        env[Environment.EPOLL_FD] = env[Environment.EVENT_FD] = -1
        return env

    def _grow(self) -> None:
        """Double the room for delayed produces, and make it enough for one call."""
        old = self._delayed
        first = max(len(old), 1)  # row 0 is never used
        count = first + max(first, 2 * Batch.ROWS)
        self._delayed = DelayedProduce.table(count)
        self._delayed[: len(old)] = old
        self._delayed[first if len(old) > 1 else 0 :, DelayedProduce.SLOT] = -1
        free = np.arange(first + 1, count + 1)
        free[-1] = self.env[Environment.DELAYED_FREE]
        self._delayed[first:, DelayedProduce.NEXT] = free
        self.env[Environment.DELAYED_FREE] = first
        self.env[Environment.DELAYED_MAX] = count - Batch.ROWS - 1
        self.bind()

    def make_room(self) -> None:
        """Let the tables grow that have no room for another call."""
        self.producers.make_room(Batch.ROWS)
        if self.env[Environment.DELAYED_COUNT] > self.env[Environment.DELAYED_MAX]:
            self._grow()

    def waits_for(self, epoll_fd: int, event_fd: int) -> None:
        """The descriptors of `wait`: the worker's epoll, and in it the eventfd that its peers
        write."""
        self.env[Environment.EPOLL_FD], self.env[Environment.EVENT_FD] = epoll_fd, event_fd

    @property
    def blocked(self) -> bool:
        """Whether the last run took nothing because its clients have no room for answers."""
        return bool(self.env[Environment.BLOCKED])

    def touched_slots(self) -> list[int]:
        """Slots that the last run appended to."""
        touched = self._touched[: self.out[Drained.TOUCHED]]
        return [slot for slot in touched.tolist() if slot >= 0]

    def failures(self) -> list[tuple[int, int]]:
        """(slot, errno) of the last run's failed writes; their rows are closed."""
        return [(slot, error) for slot, error in self._failed[: self.out[Drained.FAILED]].tolist()]

    def held(self) -> list[MarkerAppend | ReadAhead]:
        """Entries of the last run that Python must complete, in order."""
        batches = self._batches[: self.out[Drained.COUNT]]
        held: list[MarkerAppend | ReadAhead] = []
        for row in batches[batches[:, Batch.HELD] > Held.APPEND].tolist():
            held.append(_read_ahead(row) if row[Batch.HELD] == Held.READ_AHEAD else self._marker(row))
        return held

    def _marker(self, row: list[int]) -> MarkerAppend:
        arena = self.shared.arenas[row[Batch.CLIENT]]
        start = row[Batch.ADDRESS] - arena.address
        data = arena.bytes[start : start + row[Batch.LENGTH]].tobytes()
        return MarkerAppend(_held_append(row), marker_of(data))

    def complete(self, held: HeldAppend, error: int) -> bool:
        """Answer a held append; False when the client's ring is full (try again). The caller then
        calls ``wake``."""
        failed = error != 0
        return bool(
            publish_kernel.complete_one(
                self.env, self._clients, self.shared.slots, held.client, held.token, error,
                -1 if failed else held.base_offset, held.append_time_ms, held.slot,
            )
        )  # fmt: skip

    def complete_token(self, client: int, token: int, slot: int, error: int) -> bool:
        """Answer any other entry; False when the client's ring is full."""
        return bool(
            publish_kernel.complete_one(
                self.env, self._clients, self.shared.slots, client, token, error, -1, -1, slot
            )
        )  # fmt: skip

    def wake(self) -> None:
        """Wake the clients that were answered from Python."""
        publish_kernel.wake_all(self.env, self._clients)

    def notify(self, slot: int) -> int:
        """Notify waiting network processes that a slot advanced; returns bits that found a full
        ring."""
        return int(publish_kernel.notify_slot(self.env, self._clients, self.shared.slots, slot))

    # --- delayed produces and syncs: called by Durability ----------------------------------------------

    @property
    def delayed(self) -> int:
        """Delayed produces: appends that wait for the disk or for replicas."""
        return int(self.env[Environment.DELAYED_COUNT])

    @property
    def unanswered(self) -> bool:
        """Whether delayed produces have their answer, but no room for it in their client's ring."""
        return bool(self._lists[-1, DelayedList.HEAD])

    def hold(self, held: HeldAppend) -> None:
        """Add a delayed produce for an append that Python handles."""
        if self.env[Environment.DELAYED_COUNT] > self.env[Environment.DELAYED_MAX]:
            self._grow()
        batch: Words = Batch.row()
        batch[Batch.CLIENT], batch[Batch.TOKEN], batch[Batch.SLOT] = (
            held.client,
            held.token,
            held.slot,
        )
        batch[Batch.BASE_OFFSET], batch[Batch.LAST_OFFSET] = held.base_offset, held.last_offset
        batch[Batch.APPEND_TIME] = held.append_time_ms
        batch[Batch.ACKS] = pack_acks(held.acks, held.timeout_ms)
        delayed_kernel.hold_one(self.env, self._delayed, self._lists, batch, time.monotonic_ns())

    def release(self, slot: int) -> int:
        """Answer the delayed produces that a slot's durable offset or high watermark has reached;
        returns how many. The caller then calls ``wake``."""
        return int(
            delayed_kernel.release_slot(
                self.env, self._clients, self.shared.slots, self.rows, self._delayed, self._lists, slot
            )
        )

    def fail(self, slot: int, error: int) -> int:
        """Answer all delayed produces of a slot with an error; returns how many. The caller then
        calls ``wake``."""
        return int(
            delayed_kernel.fail_slot(
                self.env, self._clients, self.shared.slots, self._delayed, self._lists, slot, error
            )
        )

    def expire(self, now_ms: int) -> int:
        """Answer the expired delayed produces with REQUEST_TIMED_OUT; returns how many. The caller
        then calls ``wake``."""
        return int(
            delayed_kernel.expire_due(
                self.env, self._clients, self.shared.slots, self._delayed, self._lists, now_ms
            )
        )

    def answer_late(self) -> None:
        """Retry the answers whose client's ring was full. The caller then calls ``wake``."""
        delayed_kernel.answer_late(self.env, self._clients, self.shared.slots, self._delayed, self._lists)

    def take_synced(self, flush_seconds: int) -> list[tuple[int, int, int]]:
        """Publish the results of the sync threads and answer the appends that waited for them;
        returns the results that Python must handle (``take_synced``).

        flush_seconds: slot of the metric of a sync's time."""
        count = group_commit_kernel.take_synced(
            self.env, self._clients, self.shared.slots, self.rows, self._delayed, self._lists, self.syncs,
            self.counters, self._sync_results, flush_seconds,
        )  # fmt: skip
        return [(token, error, time_ns) for token, error, time_ns in self._sync_results[:count].tolist()]


def marker_of(data: bytes) -> EndTxnMarker | None:
    """The transaction marker in a control batch; None for another type of control batch, and for a
    batch that compaction has emptied."""
    batch = next(read_batches(data, check_crc=False))
    if not batch.record_count:
        return None
    try:
        type_, coordinator_epoch = read_marker(batch)
    except ProtocolError:
        return None
    return EndTxnMarker(
        batch.producer_id,
        batch.producer_epoch,
        type_ == ControlType.COMMIT,
        coordinator_epoch,
        batch.max_timestamp,
        batch.last_offset,
    )


def _held_append(row: list[int]) -> HeldAppend:
    return HeldAppend(
        client=row[Batch.CLIENT],
        token=row[Batch.TOKEN],
        slot=row[Batch.SLOT],
        base_offset=row[Batch.BASE_OFFSET],
        last_offset=row[Batch.LAST_OFFSET],
        append_time_ms=row[Batch.APPEND_TIME],
        acks=acks_of(row[Batch.ACKS]),
        timeout_ms=timeout_ms_of(row[Batch.ACKS]),
    )


def _read_ahead(row: list[int]) -> ReadAhead:
    return ReadAhead(
        client=row[Batch.CLIENT],
        token=row[Batch.TOKEN],
        slot=row[Batch.SLOT],
        segment_base=row[Batch.GENERATION],
        position=row[Batch.ADDRESS],
        length=row[Batch.LENGTH],
    )
