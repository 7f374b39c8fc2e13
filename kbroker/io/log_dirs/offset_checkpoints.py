"""The offset checkpoints of all log dirs: recovery points, log starts, first dirty offsets."""

import logging
from collections.abc import Callable, Iterable, Mapping

from kbroker.io.files.log_dir import LogDir
from kbroker.io.partition.unified_log import UnifiedLog
from kbroker.log import files

log = logging.getLogger(__name__)

Offsets = dict[tuple[str, int], int]


class OffsetCheckpoints:
    """Runs in: io. Owner: Logs. dirs: its log dirs by path. failed: called with an unwritable log dir."""

    def __init__(self, dirs: Mapping[str, LogDir], failed: Callable[[str, OSError], None]) -> None:
        self._dirs = dirs
        self._failed = failed
        self._at_start: dict[str, tuple[Offsets, Offsets, Offsets]] = {}
        self._written_starts: dict[str, int] = {}
        """Log starts by folder that are on disk, as far as `write_starts` put them there."""

    def at_start(self, log_dir: str) -> tuple[Offsets, Offsets, Offsets]:
        """Recovery points, log starts and first dirty offsets of a log dir as they were when this process began."""
        if log_dir not in self._at_start:
            folder = LogDir(log_dir)
            self._at_start[log_dir] = (
                folder.recovery_points(),
                folder.log_start_offsets(),
                folder.cleaner_offsets(),
            )
        return self._at_start[log_dir]

    def write(self, partitions: Iterable[UnifiedLog]) -> None:
        """Write recovery points and log starts of open partitions."""
        by_dir: dict[str, list[UnifiedLog]] = {}
        for partition in partitions:
            by_dir.setdefault(files.log_dir_of(partition.folder), []).append(partition)
        self._written_starts.clear()
        for path, mine in by_dir.items():
            folder = self._dirs[path]
            if folder.failed is None:
                self._write(folder, mine)

    def _write(self, folder: LogDir, partitions: Iterable[UnifiedLog]) -> None:
        points, starts, plain = {}, {}, []
        for partition in partitions:
            key = (partition.topic, partition.partition)
            points[key] = partition.recovery_point
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

    def write_copy(self, partition: UnifiedLog, log_dir: str) -> None:
        """Write recovery point and log start of a complete copy, all of it on disk. Raises OSError."""
        key = (partition.topic, partition.partition)
        start = partition.checkpointed_log_start
        self._dirs[log_dir].update_recovery_points({key: partition.log_end})
        starts, plain = ({}, (key,)) if start is None else ({key: start}, ())
        self._dirs[log_dir].update_log_start_offsets(starts, plain)

    def write_starts(self, starts: Iterable[tuple[UnifiedLog, int]]) -> None:
        """Write where logs start, or are about to, on disk when this returns."""
        by_dir: dict[str, dict[tuple[str, int], int]] = {}
        for partition, start in starts:
            if (
                not partition.log_start_is_in_file_name(start)
                and self._written_starts.get(partition.folder) != start
            ):
                of_dir = by_dir.setdefault(files.log_dir_of(partition.folder), {})
                of_dir[partition.topic, partition.partition] = start
        for path, changed in by_dir.items():
            try:
                self._dirs[path].update_log_start_offsets(changed)
            except OSError as error:
                self._failed(path, error)
                continue
            for key, start in changed.items():
                self._written_starts[f"{path}/{files.folder_name(*key)}"] = start

    def forget(self, partitions: Iterable[UnifiedLog]) -> None:
        """Drop deleted partitions."""
        for partition in partitions:
            folder = self._dirs[files.log_dir_of(partition.folder)]
            key = (partition.topic, partition.partition)
            self._written_starts.pop(partition.folder, None)
            try:
                folder.update_recovery_points({}, (key,))
                folder.update_log_start_offsets({}, (key,))
                folder.update_cleaner_offsets({}, (key,))
            except OSError as error:
                log.warning("checkpoints of %s: %s", folder.path, error)
