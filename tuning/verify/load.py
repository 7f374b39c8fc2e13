"""The load of a turn: paced acks, bulk produce with acks beside it, reads from the page cache,
reads from the disk. Each part is bounded in time and bytes."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tuning.bench.disk import percentile
from tuning.verify import wire
from tuning.verify.batch import record_batch
from tuning.verify.client import Connection
from tuning.verify.figures import (
    ACK_P50,
    ACK_P99,
    ACKS_PER_SECOND,
    BUSY_P99,
    CACHED,
    COLD,
    CPU,
    PRODUCE,
    Figures,
)

MB = 1e6
GB = 1e9
BULK, PACED = "bulk", "paced"
CONNECTIONS = 4  # each with a partition of its own
RECORD_BYTES = 1024
PACED_RECORDS = 4
MIN_BATCH, MAX_BATCH = 4 << 10, 512 << 10
FETCH_BYTES = 1 << 20
WARM = 20  # requests of each connection that are not counted
ACKS, PRODUCES, READS, COLD_READS = 0.3, 0.35, 0.15, 0.2  # shares of the time
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Load:
    """seconds: of all parts together. batch_bytes: size of a bulk produce request. max_bytes:
    maximum that a turn writes."""

    seconds: float
    batch_bytes: int = 256 << 10
    max_bytes: int = 512 << 20

    @property
    def records(self) -> int:
        """Records of a bulk batch."""
        return max(1, min(max(self.batch_bytes, MIN_BATCH), MAX_BATCH) // RECORD_BYTES)


@dataclass(slots=True)
class Bulk:
    """The log that bulk produce wrote. batches: of each partition. batch: its bytes."""

    batch: bytes
    records: int
    batches: list[int] = field(default_factory=lambda: [0] * CONNECTIONS)

    def end(self, partition: int) -> int:
        """The offset after the last record."""
        return self.batches[partition] * self.records

    def next_offset(self, offset: int, record_bytes: int) -> int:
        """The offset to fetch after `record_bytes` bytes from `offset` on; an incomplete batch at
        their end is fetched again."""
        return offset + record_bytes // len(self.batch) * self.records


class Parts:
    """The parts of one turn's load. Owner: the turn."""

    def __init__(self, address: tuple[str, int], load: Load, clock: Clock = time.perf_counter) -> None:
        self._address = address
        self._load = load
        self._clock = clock
        self._over = threading.Event()
        self._paced = wire.produce(PACED, 0, record_batch(PACED_RECORDS, RECORD_BYTES))
        self._bulk = Bulk(record_batch(load.records, RECORD_BYTES), load.records)

    def run(self, cpu: Callable[[], float], data_dir: Path) -> Figures:
        """All parts in their order. cpu: seconds that the broker used so far. Raises OSError,
        Refused."""
        for topic, partitions in ((PACED, 1), (BULK, CONNECTIONS)):
            with Connection(self._address, topic) as connection:
                connection.create_topic(partitions)
        figures: Figures = {}
        with self._threads() as pool:
            alone = pool.submit(self.acks, ACKS).result()
            figures[ACK_P50.key], figures[ACK_P99.key] = percentile(alone, 0.5), percentile(alone, 0.99)
            begun, used, produced = self._clock(), cpu(), threading.Event()
            beside = pool.submit(self.acks, PRODUCES, produced)
            written = sum(pool.map(self.produce, range(CONNECTIONS)))
            produced.set()
            figures[PRODUCE.key] = written / MB / (self._clock() - begun)
            figures[BUSY_P99.key] = percentile(beside.result(), 0.99)
            produce_cpu, used, begun = cpu() - used, cpu(), self._clock()
            read = sum(pool.map(self.read, range(CONNECTIONS)))
            figures[CACHED.key] = read / MB / (self._clock() - begun)
            figures[CPU.key] = produce_cpu / written * GB + (cpu() - used) / read * GB
            evict(data_dir / f"{BULK}-0")
            figures[COLD.key] = pool.submit(self.read_cold).result()
        return figures

    @contextmanager
    def _threads(self) -> Iterator[ThreadPoolExecutor]:
        """A thread for each connection. The threads end soon after the turn, also after an
        error."""
        with ThreadPoolExecutor(CONNECTIONS + 1) as pool:
            try:
                yield pool
            finally:
                self._over.set()

    def acks(self, share: float, beside: threading.Event | None = None) -> list[float]:
        """Milliseconds of acks at a fixed pace: from when each was due, where the one before it
        came late. beside: set when the work beside them is done; later acks would be those of an
        idle broker, the more of them the faster the work was."""
        times: list[float] = []
        with Connection(self._address, PACED) as connection:
            for _ in range(WARM):
                connection.produce(self._paced)
            begun = free = self._clock()
            while (due := begun + len(times) / ACKS_PER_SECOND) < begun + self._load.seconds * share:
                if self._over.is_set() or (times and beside is not None and beside.is_set()):
                    break
                if due > self._clock():
                    time.sleep(max(0.0, due - self._clock()))
                sent = self._clock() if free <= due else due
                connection.produce(self._paced)
                free = self._clock()
                times.append((free - sent) * 1000)
        return times

    def produce(self, partition: int) -> int:
        """Bytes that were acknowledged, as fast as they are."""
        bulk, written = self._bulk, 0
        request = wire.produce(BULK, partition, bulk.batch)
        until = self._clock() + self._load.seconds * PRODUCES
        with Connection(self._address, BULK) as connection:
            while written < self._load.max_bytes / CONNECTIONS and not self._over.is_set():
                connection.produce(request)
                bulk.batches[partition] += 1
                written += len(bulk.batch)
                if self._clock() > until:
                    break
        return written

    def read(self, partition: int) -> int:
        """Bytes read of what was just written, from the start again at its end."""
        read = offset = 0
        until = self._clock() + self._load.seconds * READS
        with Connection(self._address, BULK) as connection:
            while not read or (self._clock() < until and not self._over.is_set()):
                got = connection.fetch(partition, offset, FETCH_BYTES)
                read += got
                offset = self._bulk.next_offset(offset, got)
                if offset >= self._bulk.end(partition):
                    offset = 0
        return read

    def read_cold(self) -> float:
        """MB/s of one consumer that reads a partition whose bytes only the disk has."""
        read = offset = 0
        begun = self._clock()
        with Connection(self._address, BULK) as connection:
            while offset < self._bulk.end(0) and not self._over.is_set():
                got = connection.fetch(0, offset, FETCH_BYTES)
                read += got
                offset = self._bulk.next_offset(offset, got)
                if self._clock() > begun + self._load.seconds * COLD_READS:
                    break
        return read / MB / (self._clock() - begun)


def evict(folder: Path) -> None:
    """Has the bytes of a log on the disk and in no page cache."""
    for log in folder.glob("*.log"):
        with open(log, "rb") as file:
            os.fdatasync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
