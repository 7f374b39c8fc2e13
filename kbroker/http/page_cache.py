"""Share of the log files in the page cache, by cachestat(2): first of the partitions that are read,
then of a few others, all of them in turn."""

import errno
import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Iterator
from itertools import islice
from mmap import PAGESIZE

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from kbroker.http.directory import Directory
from kbroker.http.families import Families
from kbroker.ipc.layout import Counter
from kbroker.ipc.shared import Shared
from kbroker.log.cachestat import STATES, page_counts

log = logging.getLogger(__name__)

PARTITIONS_PER_SAMPLE = 128
"""Partitions without readers in one sample."""
READ_S = 300.0
"""Time for which a partition keeps its series after its last read."""
READ_BEFORE_OTHER = 8
"""After this number of partitions with readers, one without is sampled: these are reached even if a
second is never enough for all partitions with readers."""
MAX_SAMPLING_S = 1.0
"""Maximum time of a refresh; partitions that are left are sampled by the next one."""
REFUSED = (errno.ENOSYS, errno.EPERM, errno.EACCES)


class _Sample(Struct, frozen=True):
    size: int
    states: tuple[int, ...]
    at_s: float


class PageCache:
    """The last sample of each partition. Runs in: http; filled by its sampling thread,
    read by scrapes. max_partitions: of partitions that have series of their own."""

    def __init__(
        self, shared: Shared, max_partitions: int, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._shared = shared
        self._max_partitions = max_partitions
        self._clock_s = clock_s
        self._samples: dict[str, _Sample] = {}
        self._next = 0
        self._fetches = np.zeros(len(shared.slots), np.int64)
        self._read_s: dict[str, float] = {}
        self._shown: frozenset[str] = frozenset()
        self._lock = threading.Lock()
        self.works = True

    def refresh(self, directory: Directory, lagging: Collection[str] = ()) -> None:
        """Sample the partitions that were read lately and those of lagging groups, by their
        folders; then the next few of the others."""
        count = len(directory.partitions)
        if not self.works or not count:
            return
        now_s = self._clock_s()
        known = {partition.folder for partition in directory.partitions}
        self._note_reads(directory, known.intersection(lagging), now_s)
        kept = {folder: at_s for folder, at_s in self._read_s.items() if folder in known}
        self._read_s = {folder: at_s for folder, at_s in kept.items() if now_s - at_s <= READ_S}
        shown = sorted(self._read_s, key=self._read_s.__getitem__, reverse=True)[: self._max_partitions]
        turn = [(self._next + n) % count for n in range(min(count, PARTITIONS_PER_SAMPLE))]
        others = iter([(directory.partitions[row].folder, row) for row in turn])
        order: list[tuple[str, int | None]] = []
        for number, folder in enumerate(sorted(shown, key=self._sampled_s), 1):
            order.append((folder, None))
            if number % READ_BEFORE_OTHER == 0:
                order += islice(others, 1)
        found: dict[str, _Sample] = {}
        for folder, row in [*order, *others]:
            self._next = self._next if row is None else (row + 1) % count
            if folder not in found and not self._sample(folder, now_s, found):
                return
            if self._clock_s() - now_s > MAX_SAMPLING_S:
                break
        with self._lock:
            self._shown = frozenset(shown)
            self._samples = {
                folder: sample for folder, sample in {**self._samples, **found}.items() if folder in known
            }

    def _sample(self, folder: str, now_s: float, found: dict[str, _Sample]) -> bool:
        """Returns whether the kernel can report it at all."""
        try:
            found[folder] = _sample_of(folder, now_s)
        except OSError as error:
            if error.errno in REFUSED:
                log.info("this kernel cannot report what is in the page cache: %s", error)
                self.works = False
            else:  # its disk failed
                log.debug("page cache of %s: %s", folder, error)
        return self.works

    def _note_reads(self, directory: Directory, lagging: Collection[str], now_s: float) -> None:
        """Note the time for partitions with fetches since the last refresh, and for lagging
        ones."""
        slots = directory.slots
        fetches = sum((counters[slots, Counter.FETCHES] for counters in self._shared.counters), _zeros(slots))
        for row in np.flatnonzero(fetches != self._fetches[slots]).tolist():
            self._read_s[directory.partitions[row].folder] = now_s
        self._fetches[slots] = fetches
        self._read_s.update(dict.fromkeys(lagging, now_s))

    def _sampled_s(self, folder: str) -> float:
        sample = self._samples.get(folder)
        return -1.0 if sample is None else sample.at_s

    def cached_pages_of(self, folder: str) -> int:
        """Pages of a log in the page cache at the last sample; -1 before the first one."""
        sample = self._samples.get(folder)
        return -1 if sample is None else sample.states[0]

    def holds_all_of(self, folder: str) -> bool:
        """Whether the whole log was in the page cache at the last sample."""
        sample = self._samples.get(folder)
        return sample is not None and sample.states[0] * PAGESIZE >= sample.size

    def add(self, families: Families, directory: Directory, shown: Collection[str]) -> None:
        """Add the sums of the topics that are shown, and the partitions that are read."""
        with self._lock:
            samples, read = self._samples, self._shown
        left_out = len(self._read_s) - len(read)
        families.add("kbroker_log_page_cache_left_out", (), max(0, left_out))
        for topic in directory.topics:
            seen = [
                samples[partition.folder] for partition in topic.partitions if partition.folder in samples
            ]
            if not seen or topic.name not in shown:
                continue
            families.add(
                "kbroker_topic_page_cache_looked_at_bytes", (topic.name,), sum(sample.size for sample in seen)
            )
            for number, state in enumerate(STATES):
                total = sum(sample.states[number] for sample in seen) * PAGESIZE
                families.add("kbroker_topic_page_cache_bytes", (topic.name, state), total)
        for topic in directory.topics if read else ():
            for partition in topic.partitions:
                if partition.folder in read and (found := samples.get(partition.folder)) is not None:
                    labels = topic.name, str(partition.index)
                    families.add("kbroker_log_page_cache_bytes", labels, found.states[0] * PAGESIZE)


def _zeros(slots: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.zeros(len(slots), np.int64)


def _sample_of(folder: str, now_s: float) -> _Sample:
    size = 0
    states = [0] * len(STATES)
    for name in _log_files(folder):
        try:
            fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:  # deleted by retention meanwhile
            continue
        try:
            size += os.fstat(fd).st_size
            states = [total + pages for total, pages in zip(states, page_counts(fd), strict=True)]
        finally:
            os.close(fd)
    return _Sample(size, tuple(states), now_s)


def _log_files(folder: str) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(".log"):
                    yield entry.path
    except FileNotFoundError:
        return
