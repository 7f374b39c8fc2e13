"""The tables of a network process, made once at its start: the kernels and the Python side share
them.

Runs in: network. Owner: the process; nothing here is visible to other processes.
"""

import os
import select
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kbroker.config.broker import BrokerConfig
from kbroker.ipc.layout import AppendEntry, ProcessLine, Slot
from kbroker.ipc.shared import Shared
from kbroker.kernels.codec_libraries import CodecLibraries
from kbroker.kernels.keyed_hash import random_key
from kbroker.kernels.lz4 import SLACK_BYTES
from kbroker.metrics.slots import Slots
from kbroker.net.produce.compressed_kernel import PLAIN_BYTES
from kbroker.net.rows import (
    Answer,
    AnswerTable,
    Chunk,
    Connection,
    Context,
    Event,
    Part,
    PartialRecord,
    Plan,
    Request,
    Result,
    Worker,
    signed,
)
from kbroker.net.rows.connection_kernel import begin_row

Words = NDArray[np.int64]

CHUNK_BYTES: Final = 2 << 20
RUN_CHUNKS: Final = 2
"""Chunks besides those of the largest request: the current one, and the rest of the last one."""
OUT_BYTES: Final = 1 << 20
RECEIVE_BYTES: Final = 256 << 10
REQUESTS: Final = 16384
RESULTS: Final = 65536
EVENTS: Final = 65536
EPOLL_EVENTS: Final = 128
PIPELINE: Final = 256
PLAN_ROWS: Final = 4096
MAX_FETCH_BYTES: Final = (1 << 31) - (256 << 20)
"""Maximum bytes of records in an answer, whatever fetch.max.bytes allows. The size of a frame has
31 bits, and the rest of an answer may have MAX_SLICED_BYTES."""
FIRST_CONNECTIONS: Final = 64
"""The table doubles when it is full. The work of each second reads all of it."""


def chunks_of(config: BrokerConfig, arena_bytes: int) -> int:
    """Number of chunks for received requests: all that the arena has, or this process's share of
    queued.max.request.bytes (Kafka's MemoryPool), but always enough for the largest request."""
    all_chunks, queued = arena_bytes // CHUNK_BYTES, config.get_int("queued.max.request.bytes")
    if queued <= 0:
        return all_chunks
    share = queued // config.get_int("num.network.threads") // CHUNK_BYTES
    largest = -(-config.get_int("socket.request.max.bytes") // CHUNK_BYTES) + RUN_CHUNKS
    minimum = -(-largest * Chunk.RESERVED_SHARE // (Chunk.RESERVED_SHARE - 1))
    return min(all_chunks, max(share, minimum))


def free_list(table: Words, link: int) -> None:
    """A table of zeros as the list of its free rows (kernels/rows.py): only the last one has to be
    written."""
    table[-1, link] = -1 - len(table)


def new_answer_table(words: NDArray[np.int64], first: int, capacity: int) -> list[NDArray[Any]]:
    """Make an empty table of answers or parts, described by the context's words from `first` on.
    Returns its arrays, which must live as long as the table."""
    rows: NDArray[np.int64] = Answer.table(capacity)
    index: NDArray[np.int64] = np.zeros(4 * capacity, np.int64)
    pool: NDArray[np.uint8] = np.zeros(AnswerTable.MAX_POOL_BYTES, np.uint8)
    table = words[first : first + AnswerTable.WORDS]
    table[AnswerTable.ROWS] = rows.ctypes.data
    table[AnswerTable.CAPACITY] = capacity
    table[AnswerTable.INDEX] = index.ctypes.data
    table[AnswerTable.INDEX_ENTRIES] = len(index)
    table[AnswerTable.POOL] = pool.ctypes.data
    table[AnswerTable.POOL_BYTES] = len(pool)
    table[AnswerTable.HASH_KEY] = random_key()
    return [rows, index, pool]


class NetworkTables:
    """The arrays that a context row names, and the row itself (``words``; ``address`` is what
    kernels take)."""

    def __init__(self, shared: Shared, client: int, config: BrokerConfig) -> None:
        self.shared = shared
        self.client = client
        self.words: Words = Context.row()
        self.words[Context.NAME_KEY] = random_key()
        self.address = int(self.words.ctypes.data)
        self.metrics = Slots(shared.metrics[client])
        self.arena = shared.arenas[client]
        self.arena_bytes = memoryview(self.arena.map)
        self.connections: Words = Connection.table(0)
        self.free_rows: list[int] = []
        self.requests: Words = Request.table(REQUESTS)
        self.results: Words = Result.table(RESULTS)
        self.events: Words = Event.table(EVENTS)
        self.workers: Words = Worker.table(shared.sizes.workers)
        self.out: NDArray[np.uint8] = np.zeros(OUT_BYTES, np.uint8)
        self.epoll_events: NDArray[np.uint8] = np.zeros(EPOLL_EVENTS * 16, np.uint8)
        self.scratch: Words = np.zeros(16, np.int64)
        self.epoll = select.epoll()
        self.plan: Words = Plan.table(PLAN_ROWS)
        self._parts: Words = Part.table(Part.ROWS)
        self._plain: NDArray[np.uint8] = np.zeros(PLAIN_BYTES + SLACK_BYTES, np.uint8)
        self._partial: Words = PartialRecord.row()
        self._libraries = CodecLibraries()
        self._unused = 0
        self._snapshot: Words = Slot.row(writer="network")
        self._start_chunks(chunks_of(config, self.arena.size))
        self._start_words(config)
        self.grow_connections(FIRST_CONNECTIONS)

    def _start_chunks(self, count: int) -> None:
        self.chunks: Words = Chunk.table(count)
        self.free_chunks: Words = np.arange(count - 1, -1, -1, dtype=np.int64)
        words = self.words
        words[Context.CHUNKS] = self.chunks.ctypes.data
        words[Context.FREE_CHUNKS] = self.free_chunks.ctypes.data
        words[Context.FREE_CHUNK_COUNT] = words[Context.FREE_CHUNK_LOW] = words[Context.CHUNK_COUNT] = count
        words[Context.CHUNK_BYTES] = CHUNK_BYTES
        words[Context.ARENA] = self.arena.address
        words[Context.CURRENT] = -1

    def _start_words(self, config: BrokerConfig) -> None:
        free_list(self.requests, Request.NEXT)
        free_list(self.results, Result.NEXT)
        self._start_workers()
        self.scratch[8] = 1
        for values in (self._own_tables(), self._shared_tables(), self._limits(config)):
            for word, value in values.items():
                self.words[word] = value
        os.set_blocking(self.shared.event_fds[self.client], False)

    def _start_workers(self) -> None:
        """A row for each IO worker: its rings, its line, how to wake it."""
        shared, client = self.shared, self.client
        for worker, row in enumerate(self.workers):
            row[Worker.APPEND] = shared.append_ring(client, worker)
            row[Worker.COMPLETION] = shared.completion_ring(client, worker)
            row[Worker.LINE] = shared.processes[shared.worker_process(worker)].ctypes.data
            row[Worker.EVENT_FD] = shared.event_fds[shared.worker_process(worker)]

    def _own_tables(self) -> dict[int, int]:
        """Set the words that describe tables of this process."""
        return {
            Context.REQUESTS: self.requests.ctypes.data,
            Context.RESULTS: self.results.ctypes.data,
            Context.EVENTS: self.events.ctypes.data,
            Context.EVENT_CAPACITY: EVENTS,
            Context.WORKERS: self.workers.ctypes.data,
            Context.OUT: self.out.ctypes.data,
            Context.OUT_BYTES: OUT_BYTES,
            Context.EPOLL_FD: self.epoll.fileno(),
            Context.EPOLL_EVENTS: self.epoll_events.ctypes.data,
            Context.EPOLL_CAPACITY: EPOLL_EVENTS,
            Context.FREE_REQUESTS: REQUESTS,
            Context.FREE_RESULTS: RESULTS,
            Context.DIRTY: -1,
            Context.STALLED: -1,
            Context.ONE: self.scratch[8:].ctypes.data,
            Context.SCRATCH: self.scratch.ctypes.data,
            Context.PLAIN: self._plain.ctypes.data,
            Context.PARTIAL: self._partial.ctypes.data,
            Context.LIBRARIES: self._libraries.address,
            Context.PLAN: self.plan.ctypes.data,
            Context.PLAN_CAPACITY: PLAN_ROWS,
            Context.PARTS: self._parts.ctypes.data,
            Context.SNAPSHOT: self._snapshot.ctypes.data,
        }

    def _shared_tables(self) -> dict[int, int]:
        """Set the words that describe tables shared with other processes."""
        shared, client = self.shared, self.client
        process = shared.processes[client]
        return {
            Context.SLOTS: shared.slots.ctypes.data,
            Context.WORKER_COUNT: shared.sizes.workers,
            Context.RING_ENTRIES: shared.sizes.ring_entries,
            Context.EVENT_FD: shared.event_fds[client],
            Context.PROCESS_LINE: process.ctypes.data,
            Context.TOKEN_EPOCH: signed(
                (int(process[ProcessLine.EPOCH]) & 0xFFFF) << AppendEntry.TOKEN_EPOCH_SHIFT
            ),
            Context.COUNTERS: shared.counters[client].ctypes.data,
            Context.CLIENT: client,
            Context.PRODUCER_IDS: shared.producer_ids.ctypes.data,
            Context.METRICS: self.metrics.address,
        }

    def _limits(self, config: BrokerConfig) -> dict[int, int]:
        """Set the words with limits, from settings and from this process."""
        return {
            Context.MAX_FRAME: min(
                config.get_int("socket.request.max.bytes"),
                (len(self.chunks) - RUN_CHUNKS - len(self.chunks) // Chunk.RESERVED_SHARE) * CHUNK_BYTES,
            ),
            Context.MAX_FIRST_FRAME: min(
                config.get_int("sasl.server.max.receive.size"), config.get_int("socket.request.max.bytes")
            ),
            Context.PIPELINE: PIPELINE,
            Context.RECEIVE_BYTES: RECEIVE_BYTES,
            Context.SENDFILE_MIN: config.get_int("kbroker.sendfile.min.bytes"),
            Context.FETCH_MAX_BYTES: min(config.get_int("fetch.max.bytes"), MAX_FETCH_BYTES),
        }

    def grow_connections(self, count: int) -> None:
        """Make room for ``count`` connections; only between kernel calls."""
        old = len(self.connections)
        grown: Words = Connection.table(count)
        grown[:old] = self.connections
        grown[old:, Connection.FD] = -1
        self.connections = grown
        self.words[Context.CONNECTIONS] = grown.ctypes.data
        self.free_rows += range(count - 1, old - 1, -1)

    def take_row(self, fd: int, flags: int, now_ns: int) -> int:
        """A connection row for a descriptor."""
        if not self.free_rows:
            self.grow_connections(2 * len(self.connections))
        number = self.free_rows.pop()
        begin_row(self.address, number, fd, flags, now_ns)
        return number

    def give_row(self, number: int) -> None:
        """The connection is closed."""
        self.connections[number, Connection.FD] = -1
        self.free_rows.append(number)

    def trim(self) -> None:
        """Mark the free chunks that were not used since the last call, for ``release_chunk``: so
        the memory that a burst has used is released afterwards."""
        words = self.words
        self._unused = int(words[Context.FREE_CHUNK_LOW])
        words[Context.FREE_CHUNK_LOW] = words[Context.FREE_CHUNK_COUNT]

    def release_chunk(self) -> bool:
        """Release the memory of one marked chunk; False when none is left. One at a time, because
        it costs 0.25 ms of kernel time for each MiB, by which answers are delayed."""
        unused = min(self._unused, int(self.words[Context.FREE_CHUNK_LOW]))
        free = self.free_chunks[:unused]
        touched = np.flatnonzero(self.chunks[free, Chunk.TOUCHED])
        if not len(touched):
            return False
        chunk = int(free[touched[0]])
        self.arena.map.madvise(MADV_REMOVE, chunk * CHUNK_BYTES, CHUNK_BYTES)
        self.chunks[chunk, Chunk.TOUCHED] = 0
        return True


MADV_REMOVE: Final = 9  # mmap.MADV_REMOVE, which not every build of Python names
