"""The checkpoint of first dirty offsets, up to which compacted logs are clean
(cleaner-offset-checkpoint)."""

import logging
from collections.abc import Callable, Sequence
from functools import partial

from kbroker.io.files.log_dir import LogDir
from kbroker.io.log_dirs.checkpoint_thread import CheckpointThread, by_dir, offsets_of_open, write_each
from kbroker.io.partition.unified_log import UnifiedLog

log = logging.getLogger(__name__)


class CleanerOffsets:
    """Runs in: io. Owner: Cleaning. log_dir: the one of a path.

    A thread writes them, because it waits for the disk, and before that for other writes of the log
    dir's checkpoints. It reads the offsets while these are locked, so an offset that was lowered
    meanwhile (by a truncation) is not written again. A crash may lose the last ones; then a part of
    the log is cleaned twice."""

    def __init__(self, log_dir: Callable[[str], LogDir]) -> None:
        self._log_dir = log_dir
        self._due: dict[int, UnifiedLog] = {}
        self._thread = CheckpointThread("cleaner-offsets", _failed)

    def cleaned(self, partition: UnifiedLog) -> None:
        """The first dirty offset of a log has changed: begin to write it. If many logs are cleaned,
        the next `write` writes it with others."""
        self._due[partition.slot] = partition
        self._thread.take()
        if not self._thread.rest_is_due:
            self.write()

    def write(self) -> None:
        """Begin to write the offsets of the logs that were cleaned since the last write, unless one
        is in progress."""
        self._thread.take()
        if self._due and not self._thread.is_busy:
            due, self._due = self._due, {}
            self._thread.begin(partial(write_each, by_dir(self._log_dir, due.values()), _write))

    def close(self) -> None:
        """Write the offsets that are not on disk; nothing is written after this."""
        self._thread.close()
        for path, error in write_each(by_dir(self._log_dir, self._due.values()), _write):
            _failed(path, error)
        self._due.clear()


def _failed(log_dir: str, error: OSError) -> None:
    log.warning("%s: cannot write first dirty offsets, logs may be cleaned again: %s", log_dir, error)


def _write(folder: LogDir, partitions: Sequence[UnifiedLog]) -> None:
    """Runs in the thread. Raises OSError."""
    folder.update_cleaner_offsets(lambda _: offsets_of_open(folder.path, partitions, _first_dirty))


def _first_dirty(partition: UnifiedLog) -> int:
    return partition.first_dirty
