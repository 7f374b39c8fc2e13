"""Writes recovery points soon after closed segments were synced, before the next checkpoint of all logs. A
start after a crash then scans only what was not on disk.

A thread writes, because it waits for the disk. It reads the points while the log dir's checkpoints are
locked, so a point that was lowered meanwhile (by a truncation) is not written again.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

from kbroker.io.files.log_dir import LogDir
from kbroker.io.partition.unified_log import UnifiedLog
from kbroker.log import files
from kbroker.log.checkpoint import TopicPartition

BUSY_SHARE = 20  # the thread works one part in so many of the time, however many logs a checkpoint lists

Failures = list[tuple[str, OSError]]


class RecoveryNotes:
    """Runs in: io. Owner: Logs. find: the open log of a slot. failed: called with a log dir that cannot be written."""

    def __init__(
        self,
        dirs: Mapping[str, LogDir],
        find: Callable[[int], UnifiedLog | None],
        failed: Callable[[str, OSError], None],
    ) -> None:
        self._dirs = dirs
        self._find = find
        self._failed = failed
        self._due: set[int] = set()
        self._noted: dict[int, tuple[str, int]] = {}
        """Folder and first unsynced base offset by slot, when its point was last due."""
        self._executor: ThreadPoolExecutor | None = None
        self._writing: Future[tuple[Failures, float]] | None = None
        self._not_before = 0.0

    def synced(self, slot: int) -> None:
        """A sync of a log has ended: if segments were closed since its last one, its point is to be written."""
        partition = self._find(slot)
        if partition is not None:
            place = partition.folder, partition.segments.first_unsynced_base
            if self._noted.get(slot) != place:
                self._noted[slot] = place
                self._due.add(slot)

    def write(self) -> None:
        """Begin to write the points that are due, unless that is under way."""
        if self._writing is not None:
            if not self._writing.done():
                return
            self._take()
        if not self._due or time.monotonic() < self._not_before:
            return
        by_dir: dict[str, list[UnifiedLog]] = {}
        for slot in self._due:
            if (partition := self._find(slot)) is not None:
                by_dir.setdefault(files.log_dir_of(partition.folder), []).append(partition)
        self._due.clear()
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, "recovery-notes")
        writable = [
            (self._dirs[path], mine) for path, mine in by_dir.items() if self._dirs[path].failed is None
        ]
        self._writing = self._executor.submit(_write, writable)

    def close(self) -> None:
        """Finish what is under way; nothing is written after this."""
        if self._executor is not None:
            self._executor.shutdown(wait=True)
        if self._writing is not None:
            self._take()
        self._due.clear()

    def _take(self) -> None:
        assert self._writing is not None
        failures, seconds = self._writing.result()
        self._writing = None
        self._not_before = time.monotonic() + BUSY_SHARE * seconds
        for path, error in failures:
            self._failed(path, error)


def _write(by_dir: Sequence[tuple[LogDir, list[UnifiedLog]]]) -> tuple[Failures, float]:
    """In a thread. Returns what could not be written, and the seconds it took."""
    began, failures = time.monotonic(), []
    for folder, partitions in by_dir:
        try:
            folder.update_recovery_points(partial(_points, folder.path, partitions))
        except OSError as error:
            failures.append((folder.path, error))
    return failures, time.monotonic() - began


def _points(log_dir: str, partitions: Sequence[UnifiedLog]) -> dict[TopicPartition, int]:
    """Recovery points of the partitions that are still open in the log dir."""
    return {
        (partition.topic, partition.partition): partition.recovery_point
        for partition in partitions
        if partition.is_open and files.log_dir_of(partition.folder) == log_dir
    }
