"""The tables of a network process, made once at its start: what the kernels and the Python side share.

Runs in: network. Owner: the process; nothing here is visible to another one.
"""

import os
import select
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kbroker.config.broker import BrokerConfig
from kbroker.ipc import layout as sm
from kbroker.ipc.shared import Shared
from kbroker.kernels.codec_libraries import CodecLibraries
from kbroker.kernels.lz4 import SLACK_BYTES
from kbroker.metrics.slots import Slots
from kbroker.net.produce.compressed_kernel import PLAIN_BYTES
from kbroker.net.produce.partial_record_kernel import PARTIAL_WORDS
from kbroker.net.rows import fetch_layout as fl
from kbroker.net.rows import layout as nl
from kbroker.net.rows.chunk_kernel import RESERVED_SHARE

Words = NDArray[np.int64]

CHUNK_BYTES: Final = 2 << 20
OUT_BYTES: Final = 1 << 20
RECEIVE_BYTES: Final = 256 << 10
REQUESTS: Final = 16384
RESULTS: Final = 65536
EVENTS: Final = 65536
EPOLL_EVENTS: Final = 128
PIPELINE: Final = 256
PLAN_ROWS: Final = 4096
FIRST_CONNECTIONS: Final = 1024


def free_list(table: Words, link: int) -> None:
    """A table of zeros as the list of its free rows (kernels/rows.py): only the last one has to be written."""
    table[-1, link] = -1 - len(table)


class Context:
    """The arrays behind a context row, and the row itself (``words``; ``address`` is what kernels take)."""

    def __init__(self, shared: Shared, client: int, config: BrokerConfig) -> None:
        self.shared = shared
        self.client = client
        self.words: Words = np.zeros(nl.CONTEXT_WORDS, np.int64)
        self.address = int(self.words.ctypes.data)
        self.metrics = Slots(shared.metrics[client])
        self.arena = shared.arenas[client]
        self.arena_bytes = memoryview(self.arena.map)
        self.connections: Words = np.zeros((0, nl.CONNECTION_WORDS), np.int64)
        self.free_rows: list[int] = []
        self.requests: Words = np.zeros((REQUESTS, nl.REQUEST_WORDS), np.int64)
        self.results: Words = np.zeros((RESULTS, nl.RESULT_WORDS), np.int64)
        self.events: Words = np.zeros((EVENTS, nl.EVENT_WORDS), np.int64)
        self.workers: Words = np.zeros((shared.sizes.workers, nl.WORKER_WORDS), np.int64)
        self.out: NDArray[np.uint8] = np.zeros(OUT_BYTES, np.uint8)
        self.epoll_events: NDArray[np.uint8] = np.zeros(EPOLL_EVENTS * 16, np.uint8)
        self.scratch: Words = np.zeros(16, np.int64)
        self.epoll = select.epoll()
        self.plan: Words = np.zeros((PLAN_ROWS, fl.PLAN_WORDS), np.int64)
        self._parts: Words = np.zeros((fl.PARTS, fl.PART_WORDS), np.int64)
        self._plain: NDArray[np.uint8] = np.zeros(PLAIN_BYTES + SLACK_BYTES, np.uint8)
        self._partial: Words = np.zeros(PARTIAL_WORDS, np.int64)
        self._libraries = CodecLibraries()
        self._unused = 0
        self._snapshot: Words = np.zeros(sm.SLOT_WORDS, np.int64)
        self._start_chunks()
        self._start_words(config)
        self.grow_connections(FIRST_CONNECTIONS)

    def _start_chunks(self) -> None:
        count = self.arena.size // CHUNK_BYTES
        self.chunks: Words = np.zeros((count, nl.CHUNK_WORDS), np.int64)
        self.free_chunks: Words = np.arange(count - 1, -1, -1, dtype=np.int64)
        words = self.words
        words[nl.CX_CHUNKS] = self.chunks.ctypes.data
        words[nl.CX_FREE_CHUNKS] = self.free_chunks.ctypes.data
        words[nl.CX_FREE_CHUNK_COUNT] = words[nl.CX_FREE_CHUNK_LOW] = words[nl.CX_CHUNK_COUNT] = count
        words[nl.CX_CHUNK_BYTES] = CHUNK_BYTES
        words[nl.CX_ARENA] = self.arena.address
        words[nl.CX_CURRENT] = -1

    def _start_words(self, config: BrokerConfig) -> None:
        shared, words, client = self.shared, self.words, self.client
        free_list(self.requests, nl.RQ_NEXT)
        free_list(self.results, nl.RS_NEXT)
        process = shared.processes[client]
        for worker, row in enumerate(self.workers):
            row[nl.WK_APPEND] = shared.append_ring(client, worker)
            row[nl.WK_COMPLETION] = shared.completion_ring(client, worker)
            row[nl.WK_LINE] = shared.processes[shared.worker_process(worker)].ctypes.data
            row[nl.WK_EVENT_FD] = shared.event_fds[shared.worker_process(worker)]
        self.scratch[8] = 1
        values = {
            nl.CX_REQUESTS: self.requests.ctypes.data,
            nl.CX_RESULTS: self.results.ctypes.data,
            nl.CX_EVENTS: self.events.ctypes.data,
            nl.CX_EVENT_CAPACITY: EVENTS,
            nl.CX_SLOTS: shared.slots.ctypes.data,
            nl.CX_WORKERS: self.workers.ctypes.data,
            nl.CX_WORKER_COUNT: shared.sizes.workers,
            nl.CX_RING_ENTRIES: shared.sizes.ring_entries,
            nl.CX_OUT: self.out.ctypes.data,
            nl.CX_OUT_BYTES: OUT_BYTES,
            nl.CX_EPOLL_FD: self.epoll.fileno(),
            nl.CX_EPOLL_EVENTS: self.epoll_events.ctypes.data,
            nl.CX_EPOLL_CAPACITY: EPOLL_EVENTS,
            nl.CX_EVENT_FD: shared.event_fds[client],
            nl.CX_PROCESS_LINE: process.ctypes.data,
            nl.CX_TOKEN_EPOCH: nl.signed((int(process[sm.PROCESS_EPOCH]) & 0xFFFF) << sm.TOKEN_EPOCH_SHIFT),
            nl.CX_MAX_FRAME: min(
                config.get_int("socket.request.max.bytes"),
                self.arena.size - (2 + len(self.chunks) // RESERVED_SHARE) * CHUNK_BYTES,
            ),
            nl.CX_MAX_FIRST_FRAME: min(
                config.get_int("sasl.server.max.receive.size"), config.get_int("socket.request.max.bytes")
            ),
            nl.CX_FREE_REQUESTS: REQUESTS,
            nl.CX_FREE_RESULTS: RESULTS,
            nl.CX_DIRTY: -1,
            nl.CX_STALLED: -1,
            nl.CX_ONE: self.scratch[8:].ctypes.data,
            nl.CX_SCRATCH: self.scratch.ctypes.data,
            nl.CX_COUNTERS: shared.counters[client].ctypes.data,
            nl.CX_PIPELINE: PIPELINE,
            nl.CX_CLIENT: client,
            nl.CX_PLAIN: self._plain.ctypes.data,
            nl.CX_PARTIAL: self._partial.ctypes.data,
            nl.CX_LIBRARIES: self._libraries.address,
            nl.CX_PRODUCER_IDS: shared.producer_ids.ctypes.data,
            nl.CX_RECEIVE_BYTES: RECEIVE_BYTES,
            nl.CX_METRICS: self.metrics.address,
            nl.CX_SENDFILE_MIN: config.get_int("kbroker.sendfile.min.bytes"),
            nl.CX_FETCH_MAX_BYTES: config.get_int("fetch.max.bytes"),
            fl.CX_PLAN: self.plan.ctypes.data,
            fl.CX_PLAN_CAPACITY: PLAN_ROWS,
            fl.CX_PARTS: self._parts.ctypes.data,
            fl.CX_SNAPSHOT: self._snapshot.ctypes.data,
        }
        for word, value in values.items():
            words[word] = value
        os.set_blocking(shared.event_fds[client], False)

    def grow_connections(self, count: int) -> None:
        """Make room for ``count`` connections; only between kernel calls."""
        old = len(self.connections)
        grown: Words = np.zeros((count, nl.CONNECTION_WORDS), np.int64)
        grown[:old] = self.connections
        grown[old:, nl.CN_FD] = -1
        self.connections = grown
        self.words[nl.CX_CONNECTIONS] = grown.ctypes.data
        self.free_rows += range(count - 1, old - 1, -1)

    def take_row(self, fd: int, flags: int, now_ns: int) -> int:
        """A connection row for a descriptor."""
        if not self.free_rows:
            self.grow_connections(2 * len(self.connections))
        number = self.free_rows.pop()
        row = self.connections[number]
        generation = int(row[nl.CN_GENERATION]) + 1
        linked = int(row[nl.CN_FLAGS]) & (nl.FLAG_DIRTY | nl.FLAG_STALLED)  # it may still be in a list
        links = row[[nl.CN_DIRTY_NEXT, nl.CN_STALLED_NEXT]]
        row[:] = 0
        row[[nl.CN_DIRTY_NEXT, nl.CN_STALLED_NEXT]] = links
        row[nl.CN_FD] = fd
        row[nl.CN_FLAGS] = flags | linked | nl.FLAG_OPEN
        row[[nl.CN_CHUNK, nl.CN_HEAD, nl.CN_TAIL]] = -1
        row[nl.CN_LAST_NS] = now_ns
        row[nl.CN_GENERATION] = generation
        return number

    def give_row(self, number: int) -> None:
        """The connection is closed."""
        self.connections[number, nl.CN_FD] = -1
        self.free_rows.append(number)

    def trim(self) -> None:
        """Let ``give_back`` have the free chunks that were not used since the last call.

        Untouched pages cost nothing: a burst must not keep its memory for good."""
        words = self.words
        self._unused = int(words[nl.CX_FREE_CHUNK_LOW])
        words[nl.CX_FREE_CHUNK_LOW] = words[nl.CX_FREE_CHUNK_COUNT]

    def give_back(self) -> bool:
        """Give back the memory of one of them; False when there is none left. Not all at once: it costs 0.25 ms of
        kernel time for each MiB, which whoever waits for an answer would wait for."""
        unused = min(self._unused, int(self.words[nl.CX_FREE_CHUNK_LOW]))
        free = self.free_chunks[:unused]
        touched = np.flatnonzero(self.chunks[free, nl.CH_TOUCHED])
        if not len(touched):
            return False
        chunk = int(free[touched[0]])
        self.arena.map.madvise(MADV_REMOVE, chunk * CHUNK_BYTES, CHUNK_BYTES)
        self.chunks[chunk, nl.CH_TOUCHED] = 0
        return True


MADV_REMOVE: Final = 9  # mmap.MADV_REMOVE, which not every build of Python names
