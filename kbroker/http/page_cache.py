"""Share of the log files in the page cache, by cachestat(2): a few files at a time, all of them in
turn."""

import errno
import logging
import os
import threading
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from mmap import PAGESIZE

from kbroker.http.directory import Directory
from kbroker.http.families import Families
from kbroker.log.cachestat import STATES, page_counts

log = logging.getLogger(__name__)

PARTITIONS_PER_SAMPLE = 128
REFUSED = (errno.ENOSYS, errno.EPERM, errno.EACCES)


@dataclass(frozen=True, slots=True)
class _Sample:
    size: int
    states: tuple[int, ...]


class PageCache:
    """The last sample of each partition. Runs in: http; filled by its sampling thread,
    read by scrapes."""

    def __init__(self) -> None:
        self._samples: dict[str, _Sample] = {}
        self._next = 0
        self._lock = threading.Lock()
        self.works = True

    def refresh(self, directory: Directory) -> None:
        """Sample the next few partitions."""
        count = len(directory.partitions)
        if not self.works or not count:
            return
        folders = [
            directory.partitions[(self._next + n) % count].folder
            for n in range(min(count, PARTITIONS_PER_SAMPLE))
        ]
        self._next = (self._next + len(folders)) % count
        found: dict[str, _Sample] = {}
        try:
            for folder in folders:
                found[folder] = _sample_of(folder)
        except OSError as error:
            if error.errno in REFUSED:
                log.info("this kernel cannot report what is in the page cache: %s", error)
                self.works = False
                return
            log.debug("page cache: %s", error)
        known = {partition.folder for partition in directory.partitions}
        with self._lock:
            self._samples = {
                folder: sample for folder, sample in {**self._samples, **found}.items() if folder in known
            }

    def cached_pages_of(self, folder: str) -> int:
        """Pages of a log in the page cache at the last sample; -1 before the first one."""
        sample = self._samples.get(folder)
        return -1 if sample is None else sample.states[0]

    def holds_all_of(self, folder: str) -> bool:
        """Whether the whole log was in the page cache at the last sample."""
        sample = self._samples.get(folder)
        return sample is not None and sample.states[0] * PAGESIZE >= sample.size

    def add(self, families: Families, directory: Directory, shown: Collection[str]) -> None:
        """Add the sums of the topics that are shown."""
        with self._lock:
            samples = self._samples
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


def _sample_of(folder: str) -> _Sample:
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
    return _Sample(size, tuple(states))


def _log_files(folder: str) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(".log"):
                    yield entry.path
    except FileNotFoundError:
        return
