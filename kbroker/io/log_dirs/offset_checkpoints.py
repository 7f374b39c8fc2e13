"""The offset checkpoints of all log dirs: recovery points, log starts, first dirty offsets."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

from kbroker.io.files.log_dir import LogDir
from kbroker.io.log_dirs.checkpoint_thread import (
    CheckpointThread,
    by_dir,
    is_open_in,
    offsets_of_open,
    write_each,
)
from kbroker.io.partition.unified_log import UnifiedLog
from kbroker.log import files
from kbroker.log.checkpoint import Changes, TopicPartition
from kbroker.log.checkpoint import Offsets as InFile

log = logging.getLogger(__name__)

Offsets = dict[tuple[str, int], int]
SLICE = 512
"""Logs of a checkpoint that are collected in one turn of the loop."""


class OffsetCheckpoints:
    """Runs in: io. Owner: Logs. dirs: its log dirs by path. failed: called with an unwritable log
    dir. written: called by a thread when the log starts of `begin_starts` are written.

    One thread writes the checkpoints of all logs. Another thread of each log dir writes the log
    starts of deleted records; it waits while the first thread, or another IO worker, has locked the
    log dir's checkpoints and waits for the disk. The threads read the offsets while the checkpoints
    are locked. So an offset that was written meanwhile, because of a deletion or a truncation, is
    not replaced by an older one.
    """

    def __init__(
        self,
        dirs: Mapping[str, LogDir],
        failed: Callable[[str, OSError], None],
        written: Callable[[], object] | None = None,
    ) -> None:
        self._dirs = dirs
        self._failed = failed
        self._at_start: dict[str, tuple[Offsets, Offsets, Offsets]] = {}
        self._written_starts: dict[str, int] = {}
        """Log starts by folder that `write_starts` has put on disk."""
        self._on_disk: dict[str, int] = {}
        """Log starts by folder that `begin_starts` or a later `write` has put on disk. The threads
        of the log dirs fill it."""
        self._imminent: dict[str, int] = {}
        """Log starts by folder that are on disk before the logs advance to them."""
        self._to_collect: list[UnifiedLog] = []
        """Logs of the checkpoint that `begin` has begun, until the thread writes it."""
        self._collected: dict[int, int] = {}
        """Base offsets of the first segments of the collected logs, by slot."""
        self._all: list[UnifiedLog] = []
        self._thread = CheckpointThread("checkpoints", failed)
        self._starts_threads = {path: CheckpointThread("log-starts", failed, written) for path in dirs}

    def at_start(self, log_dir: str) -> tuple[Offsets, Offsets, Offsets]:
        """Recovery points, log starts and first dirty offsets of a log dir as they were when this
        process began."""
        if log_dir not in self._at_start:
            folder = LogDir(log_dir)
            self._at_start[log_dir] = (
                folder.recovery_points(),
                folder.log_start_offsets(),
                folder.cleaner_offsets(),
            )
        return self._at_start[log_dir]

    def moved_here(self, log_dir: str, key: tuple[str, int]) -> None:
        """A log has moved to a log dir since this process began: what `at_start` has of its name is
        of an earlier log."""
        for offsets in self._at_start.get(log_dir, ()):
            offsets.pop(key, None)

    def write(self, partitions: Iterable[UnifiedLog]) -> None:
        """Write recovery points and log starts of open partitions."""
        self._written_starts.clear()
        for folder, logs in by_dir(self._dirs.__getitem__, partitions):
            self._write(folder, logs)

    def _write(self, folder: LogDir, partitions: Sequence[UnifiedLog]) -> None:
        points, starts, plain = {}, {}, []
        for partition in partitions:
            key = (partition.topic, partition.partition)
            points[key] = partition.durability.checkpointed
            start = partition.checkpointed_log_start
            if start is None:
                plain.append(key)
            else:
                starts[key] = start
        try:
            folder.update_recovery_points(points)
            folder.update_log_start_offsets(starts, tuple(plain))
        except OSError as error:
            self._failed(folder.path, error)
        else:
            self._on_disk.update({partition.folder: partition.log_start for partition in partitions})

    def begin(self, partitions: Iterable[UnifiedLog]) -> None:
        """Begin to write recovery points and log starts of open partitions in a thread, unless that
        is in progress. With many logs, the thread begins at the end of `collect`."""
        self._thread.take()
        if not self._thread.is_busy and not self.collecting:
            self._all = list(partitions)
            self._to_collect, self._collected = [*self._all], {}
            self.collect()

    @property
    def collecting(self) -> bool:
        """Whether `collect` has something to do."""
        return bool(self._to_collect)

    def collect(self) -> None:
        """Collect what the thread needs of the next SLICE logs; it begins after the last ones."""
        for partition in self._to_collect[-SLICE:]:
            self._collected[partition.slot] = partition.segments.first_base
        del self._to_collect[-SLICE:]
        if not self._to_collect:
            write_starts = self._writer_of_starts(self._collected)

            def write(folder: LogDir, logs: Sequence[UnifiedLog]) -> None:
                _write_points(folder, logs)
                write_starts(folder, logs)

            logs, self._all = self._all, []
            self._thread.begin(lambda: write_each(by_dir(self._dirs.__getitem__, logs), write))

    def take(self) -> bool:
        """Whether the last `begin` has ended; reports the log dirs that could not be written."""
        self._thread.take()
        return not self._thread.is_busy and not self.collecting

    def begin_starts(self, log_dir: str, partitions: Sequence[UnifiedLog]) -> None:
        """Begin to write the log starts of open partitions of a log dir in its thread: the others
        do not wait for a slow disk. No such write is in progress there."""
        for partition in partitions:
            self._on_disk.pop(partition.folder, None)
        dirs = by_dir(self._dirs.__getitem__, partitions)
        firsts = {partition.slot: partition.segments.first_base for partition in partitions}
        write = self._writer_of_starts(firsts, self._on_disk)
        self._starts_threads[log_dir].begin(partial(write_each, dirs, write))

    def take_starts(self, log_dir: str) -> bool:
        """Whether the last `begin_starts` of a log dir has ended; reports a log dir that could not
        be written."""
        thread = self._starts_threads[log_dir]
        thread.take()
        return not thread.is_busy

    def is_start_on_disk(self, partition: UnifiedLog, start: int) -> bool:
        """Whether the last `begin_starts`, which has ended, has put a log start on disk, or a
        higher one, or the end of a move has. Not on a full disk, and not if the log was closed
        meanwhile."""
        return self._on_disk.get(partition.folder, -1) >= start

    def close(self) -> None:
        """Wait for the writes in progress; the threads write nothing after this."""
        self._to_collect.clear()
        self._thread.close()
        for thread in self._starts_threads.values():
            thread.close()

    def _writer_of_starts(
        self, firsts: Mapping[int, int], on_disk: dict[str, int] | None = None
    ) -> Callable[[LogDir, Sequence[UnifiedLog]], None]:
        """Writes log starts of one log dir when a thread calls it. firsts: base offset of the first
        segment by slot; on_disk: gets those that are on disk, by folder."""

        def write(folder: LogDir, logs: Sequence[UnifiedLog]) -> None:
            found = dict[str, int]()
            folder.update_log_start_offsets(partial(self._log_starts, folder.path, logs, firsts, found))
            if on_disk is not None:
                on_disk.update(found)

        return write

    def _log_starts(
        self,
        log_dir: str,
        logs: Sequence[UnifiedLog],
        firsts: Mapping[int, int],
        by_folder: dict[str, int],
        _: InFile,
    ) -> Changes:
        """Runs in the thread. Log starts of the partitions that are still open in the log dir; None
        where the first segment begins there. That of the loop may be renamed only later, so the
        segment that was the first when the loop began the write decides. firsts: its base offset by
        slot. by_folder: gets all log starts."""
        found: dict[TopicPartition, int | None] = {}
        for partition in logs:
            folder = partition.folder
            # in this order: an imminent log start is removed when the log has advanced to it
            imminent = self._imminent.get(folder, 0)
            start = max(imminent, partition.log_start)
            now_first = partition.segments.first_base  # a truncated log may begin earlier
            if is_open_in(log_dir, partition):
                is_in_checkpoint = start > min(firsts[partition.slot], now_first)
                found[partition.topic, partition.partition] = start if is_in_checkpoint else None
                by_folder[folder] = start
        return found

    @contextmanager
    def imminent_starts(self, starts: Sequence[tuple[UnifiedLog, int]]) -> Iterator[set[int]]:
        """Log starts to which the logs advance within the block. Yields the slots of those that are
        on disk when it begins; the others must not advance."""
        self._imminent = {partition.folder: start for partition, start in starts}
        try:
            yield self.write_starts(starts)
        finally:
            self._imminent = {}

    def truncated(self, partition: UnifiedLog) -> None:
        """A log was truncated: its lower recovery point, first dirty offset and log start are on
        disk when this returns (LogManager.truncateTo). Raises OSError."""
        self._forget_starts(partition)
        key = partition.topic, partition.partition
        folder = self._dirs[files.log_dir_of(partition.folder)]
        folder.lower_offsets(key, partition.recovery_point, partition.first_dirty, partition.log_start)

    def write_copy(self, partition: UnifiedLog, log_dir: str) -> None:
        """Write and sync recovery point, log start and first dirty offset of a complete copy. The
        log dir may still have those of an earlier log of the name, which it could not drop on a
        full disk. Raises OSError."""
        key, folder = (partition.topic, partition.partition), self._dirs[log_dir]
        start, first_dirty = partition.checkpointed_log_start, partition.first_dirty
        folder.update_recovery_points({key: partition.log_end})
        folder.update_log_start_offsets({} if start is None else {key: start}, (key,))
        folder.update_cleaner_offsets({} if first_dirty < 0 else {key: first_dirty}, (key,))

    def write_starts(self, starts: Sequence[tuple[UnifiedLog, int]]) -> set[int]:
        """Write log starts; returns the slots of those that are on disk. On a full disk they are
        not."""
        by_path: dict[str, Offsets] = {}
        for partition, start in starts:
            if not self._is_written(partition, start):
                of_dir = by_path.setdefault(files.log_dir_of(partition.folder), {})
                of_dir[partition.topic, partition.partition] = start
        for path, changed in by_path.items():
            try:
                self._dirs[path].update_log_start_offsets(changed)
            except OSError as error:
                self._failed(path, error)
                continue
            for key, start in changed.items():
                self._written_starts[f"{path}/{files.folder_name(*key)}"] = start
        return {partition.slot for partition, start in starts if self._is_written(partition, start)}

    def _is_written(self, partition: UnifiedLog, start: int) -> bool:
        in_file_name = partition.log_start_is_in_file_name(start)
        return in_file_name or self._written_starts.get(partition.folder) == start

    def _forget_starts(self, partition: UnifiedLog) -> None:
        self._written_starts.pop(partition.folder, None)
        self._on_disk.pop(partition.folder, None)

    def forget(self, log_dir: str, partitions: Iterable[UnifiedLog]) -> None:
        """Drop deleted partitions of a log dir."""
        keys = []
        for partition in partitions:
            keys.append((partition.topic, partition.partition))
            self._forget_starts(partition)
        folder, dropped = self._dirs[log_dir], tuple(keys)
        try:
            folder.update_recovery_points({}, dropped)
            folder.update_log_start_offsets({}, dropped)
            folder.update_cleaner_offsets({}, dropped)
        except OSError as error:
            log.warning("checkpoints of %s: %s", log_dir, error)


class RecoveryNotes:
    """Writes recovery points soon after closed segments were synced, before the next checkpoint of
    all logs. A start after a crash then scans only records that were not on disk, and after a
    truncation, whose lower point is written at once, all of them.

    A thread writes, because it waits for the disk. It reads the points while the log dir's
    checkpoints are locked, so a point that was lowered meanwhile (by a truncation) is not written
    again.

    Runs in: io. Owner: Logs. find: the open log of a slot. failed: called with a log dir that
    cannot be written."""

    def __init__(
        self,
        dirs: Mapping[str, LogDir],
        find: Callable[[int], UnifiedLog | None],
        failed: Callable[[str, OSError], None],
    ) -> None:
        self._dirs = dirs
        self._find = find
        self._due: set[int] = set()
        self._noted: dict[int, tuple[str, int]] = {}
        """Folder and first unsynced base offset by slot, as of the last time that its recovery
        point was due."""
        self._thread = CheckpointThread("recovery-notes", failed)

    def synced(self, slot: int) -> None:
        """A sync of a log has ended. If segments were closed since its last sync, its recovery
        point is written soon."""
        partition = self._find(slot)
        if partition is not None:
            place = partition.folder, partition.segments.first_unsynced_base
            if self._noted.get(slot) != place:
                self._noted[slot] = place
                self._due.add(slot)

    def write(self) -> None:
        """Begin to write the points that are due, unless that is in progress."""
        self._thread.take()
        if not self._due or self._thread.is_busy or self._thread.rest_is_due:
            return
        due = [partition for slot in self._due if (partition := self._find(slot)) is not None]
        self._due.clear()
        self._thread.begin(partial(write_each, by_dir(self._dirs.__getitem__, due), _write_points))

    def close(self) -> None:
        """Finish the writes in progress; nothing is written after this."""
        self._thread.close()
        self._due.clear()


def _write_points(folder: LogDir, partitions: Sequence[UnifiedLog]) -> None:
    """Runs in a thread. Raises OSError."""
    folder.update_recovery_points(lambda _: offsets_of_open(folder.path, partitions, _recovery_point))


def _recovery_point(partition: UnifiedLog) -> int:
    return partition.durability.checkpointed


class DeletedEntries:
    """The entries that the checkpoints of log dirs still have of deleted logs.

    Runs in: io. Owner: Openings, whose threads call it. Thread-safe.

    The checkpoints are read once for all logs that were to be opened before: reading ten thousand
    lines for each of a thousand new logs takes a second.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read: dict[str, tuple[int, Mapping[str, frozenset[str]]]] = {}
        """Log dir -> (CLOCK_MONOTONIC when its checkpoints were read, their entries)."""

    def drop(self, log_dir: str, key: TopicPartition, asked_ns: int) -> None:
        """Drop the entries of a log. asked_ns: CLOCK_MONOTONIC when its folder was already gone;
        what was read before does not count. Raises OSError."""
        folder = LogDir(log_dir)
        with self._lock:
            read_ns, entries = self._read.get(log_dir, (-1, {}))
            if read_ns < asked_ns:
                read_ns, entries = time.monotonic_ns(), folder.checkpointed()
                self._read[log_dir] = read_ns, entries
        folder.forget_deleted(key, entries)
