"""The memory that all processes share, mapped once by the parent before the first fork.

Runs in: all processes. Owner: the supervisor, which creates it and never reads or writes a slot or
a ring afterwards, so that no child's crash can reach it.

Anonymous shared mappings are used rather than named segments: they cannot outlive the processes,
and a child that is forked later sees them at the same address.
"""

import mmap
import os
from weakref import finalize

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from kbroker.ipc.layout import (
    AnswerVersion,
    AppendEntry,
    Completion,
    Counter,
    FreeSpace,
    ProcessLine,
    ProducerIds,
    Ring,
    SensorRow,
    Slot,
    sensor_words,
)
from kbroker.kernels.row import RowType
from kbroker.metrics.slots import ROW_WORDS

Words = NDArray[np.int64]


class Sizes(Struct, frozen=True):
    """Size of the shared memory. Untouched pages cost nothing, so maxima may be generous.

    clients: processes that own an arena and append (the network processes, then control). workers:
    IO workers. entries: of one ring, a power of two. arena_bytes: of one arena. log_dirs: entries
    of log.dirs. quota_samples: samples that a client's rate is measured by.
    """

    clients: int
    workers: int
    max_partitions: int
    ring_entries: int
    arena_bytes: int
    log_dirs: int = 16
    quota_samples: int = 11


class Region:
    """One anonymous shared mapping: address, size and views of it."""

    def __init__(self, size: int) -> None:
        self.size = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        self.map = mmap.mmap(-1, self.size, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS)
        self.bytes: NDArray[np.uint8] = np.frombuffer(self.map, np.uint8)
        self.address = int(self.bytes.ctypes.data)

    def words(self, shape: tuple[int, ...]) -> Words:
        """The start of the mapping as an int64 array."""
        count = int(np.prod(shape))
        return np.frombuffer(self.map, np.int64, count).reshape(shape)

    def rows(self, row: RowType, count: int, first: int = 0) -> Words:
        """`count` rows of a table. first: byte at which they begin."""
        words = np.frombuffer(self.map, np.int64, count * row.WORDS, first)
        return row.declared(words.reshape(count, row.WORDS))


def _close(fds: tuple[int, ...]) -> None:
    for fd in fds:
        os.close(fd)


class Shared:
    """All shared memory of one broker, and the eventfd of each process; both are freed with the
    last reference to it.

    slots[max_partitions, Slot.WORDS]; processes[clients + workers + 2, ProcessLine.WORDS] (clients
    first, then workers, then http, then the cleaner); append_ring(client, worker),
    completion_ring(client, worker): addresses; counters[clients + workers][max_partitions,
    Counter.WORDS], and counter_bases[max_partitions, Counter.WORDS]: the sums of a slot's counters
    when its partition got it (control writes them); metrics[clients + workers + 3, ROW_WORDS]: the
    rows of `processes`, then the supervisor's; log_dir_errors[log_dirs]: see log_dir_errors.py;
    store_copies[log_dirs]: see store_copy_states.py; replication_rates[sites, 2],
    replication_bytes[workers, sites, 2]: see replication_rates.py;
    cached_answers[AnswerVersion.WORDS]: see cached_answers.py; producer_ids[ProducerIds.WORDS]: see
    producer_id_kernel.py; free_space[log_dirs][FreeSpace.SAMPLES, FreeSpace.WORDS]: see
    time_to_full.py; in_sync[max_partitions]: whether a slot's replica is in the in-sync set, or
    about to be (control writes it).
    """

    def __init__(self, sizes: Sizes) -> None:
        if sizes.ring_entries & (sizes.ring_entries - 1):
            raise ValueError(f"ring entries must be a power of two, not {sizes.ring_entries}")
        self.sizes = sizes
        self.process_count = sizes.clients + sizes.workers
        self._slots = Region(sizes.max_partitions * Slot.STRIDE)
        self.slots = self._slots.rows(Slot, sizes.max_partitions)
        self._processes = Region((self.process_count + 2) * ProcessLine.STRIDE)
        self.processes = self._processes.rows(ProcessLine, self.process_count + 2)
        self._ring_bytes = Ring.STRIDE + sizes.ring_entries * AppendEntry.STRIDE
        self._rings = Region(2 * sizes.clients * sizes.workers * self._ring_bytes)
        self._declare_rings()
        self.arenas = [Region(sizes.arena_bytes) for _ in range(sizes.clients)]
        self._counters = [Region(sizes.max_partitions * Counter.STRIDE) for _ in range(self.process_count)]
        self.counters = [region.rows(Counter, sizes.max_partitions) for region in self._counters]
        self._counter_bases = Region(sizes.max_partitions * Counter.STRIDE)
        self.counter_bases = self._counter_bases.rows(Counter, sizes.max_partitions)
        self._log_dir_errors = Region(max(1, sizes.log_dirs) * 8)
        self.log_dir_errors = self._log_dir_errors.words((max(1, sizes.log_dirs),))
        self._store_copies = Region(max(1, sizes.log_dirs) * 8)
        self.store_copies = self._store_copies.words((max(1, sizes.log_dirs),))
        self._free_space = [
            Region(FreeSpace.SAMPLES * FreeSpace.STRIDE) for _ in range(max(1, sizes.log_dirs))
        ]
        self.free_space = [region.rows(FreeSpace, FreeSpace.SAMPLES) for region in self._free_space]
        sites = max(1, sizes.log_dirs)  # at most
        self._replication_rates = Region(sites * 2 * 8)
        self.replication_rates = self._replication_rates.words((sites, 2))
        self._replication_bytes = Region(sizes.workers * sites * 2 * 8)
        self.replication_bytes = self._replication_bytes.words((sizes.workers, sites, 2))
        self._in_sync = Region(sizes.max_partitions * 8)
        self.in_sync = self._in_sync.words((sizes.max_partitions,))
        self._cached_answers = Region(AnswerVersion.STRIDE)
        self.cached_answers = self._cached_answers.rows(AnswerVersion, 1)[0]
        self._producer_ids = Region(ProducerIds.STRIDE)
        self.producer_ids = self._producer_ids.rows(ProducerIds, 1)[0]
        self._metrics = Region((self.process_count + 3) * ROW_WORDS * 8)
        self.metrics = self._metrics.words((self.process_count + 3, ROW_WORDS))
        table = (SensorRow.TABLE_ROWS, sensor_words(sizes.quota_samples))
        self._sensors = [Region(table[0] * table[1] * 8) for _ in range(sizes.clients)]
        self.sensors = [region.words(table) for region in self._sensors]
        self.event_fds = [os.eventfd(0, os.EFD_NONBLOCK) for _ in range(self.process_count)]
        self.cleaner_event_fd = os.eventfd(0, os.EFD_NONBLOCK)
        finalize(self, _close, (*self.event_fds, self.cleaner_event_fd)).atexit = False

    def _declare_rings(self) -> None:
        rings = self.sizes.clients * self.sizes.workers
        for number in range(2 * rings):
            entry = AppendEntry if number < rings else Completion
            first = number * self._ring_bytes
            self._rings.rows(Ring, 1, first)
            self._rings.rows(entry, self.sizes.ring_entries, first + Ring.STRIDE)

    def append_ring(self, client: int, worker: int) -> int:
        """Address of the ring that carries requests from a client process to an IO worker."""
        return self._rings.address + (client * self.sizes.workers + worker) * self._ring_bytes

    def append_entries(self, client: int, worker: int) -> tuple[Words, Words]:
        """The head of that ring, and its entries."""
        first = (client * self.sizes.workers + worker) * self._ring_bytes
        entries = self._rings.rows(AppendEntry, self.sizes.ring_entries, first + Ring.STRIDE)
        return self._rings.rows(Ring, 1, first)[0], entries

    def completion_ring(self, client: int, worker: int) -> int:
        """Address of the ring that carries completions from an IO worker to a client process."""
        half = self.sizes.clients * self.sizes.workers * self._ring_bytes
        return self.append_ring(client, worker) + half

    def worker_process(self, worker: int) -> int:
        """Row of an IO worker in ``processes``, ``event_fds`` and ``counters``."""
        return self.sizes.clients + worker

    @property
    def control_client(self) -> int:
        """Client number of the control process: the last one."""
        return self.sizes.clients - 1

    @property
    def http_process(self) -> int:
        """Row of the http process in ``processes`` and ``metrics``; it has no ring and no
        eventfd."""
        return self.process_count

    @property
    def cleaner_process(self) -> int:
        """Row of the cleaner in ``processes`` and ``metrics``; it has no ring, its eventfd wakes
        it."""
        return self.process_count + 1

    @property
    def supervisor_row(self) -> int:
        """Row of the supervisor in ``metrics``."""
        return self.process_count + 2
