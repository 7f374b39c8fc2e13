"""Failures of an IO worker's log dirs: which errors take a log dir offline, and which only refuse
appends to one log.
"""

import errno
import logging
import os
from collections.abc import Callable, Mapping

from kbroker.io.append.drain import Drain
from kbroker.io.files.log_dir import LogDir
from kbroker.io.log_dirs.full_disks import FullDisks
from kbroker.io.partition.unified_log import UnifiedLog
from kbroker.ipc.log_dir_errors import NO_ROOM, OF_THE_DISK, LogDirErrors
from kbroker.log import boot_mark, files
from kbroker.log.open_files import NO_DESCRIPTORS
from kbroker.metrics.slots import bind

log = logging.getLogger(__name__)

WRITE_ERRORS = bind("kbroker_log_write_errors_total")


class LogDirFailures:
    """Runs in: io. Owner: Logs. Not thread-safe. errors: the failed log dirs of all processes.
    partitions: the open logs by slot; those of a failed log dir are removed from it."""

    def __init__(
        self,
        errors: LogDirErrors,
        drain: Drain,
        dirs: Mapping[str, LogDir],
        partitions: dict[int, UnifiedLog],
    ) -> None:
        self._errors = errors
        self._drain = drain
        self._dirs = dirs
        self._partitions = partitions
        self.full_disks = FullDisks(drain, dirs, partitions.get, self.log_failed)
        self.offline_listeners: list[Callable[[int], None]] = []
        """Called with the slot of each partition that went offline with its log dir."""
        self.no_room_listeners: list[Callable[[str], None]] = []
        """Called with the log dir of each log whose appends are refused from now on."""
        self.lost: dict[int, int] = {}
        """Generations by slot of the logs that `log_lost` has closed. Their ends are in the slots,
        and whole in the copies."""

    def of(self, log_dir: str) -> int:
        """The errno that took a log dir offline, 0 while it is in use."""
        return self._errors.of(log_dir)

    def log_failed(self, slot: int, error: OSError) -> None:
        """Refuse produce requests until there is room, if the disk is full or descriptors are used
        up; any other error takes the log dir offline."""
        partition = self._partitions[slot]
        log_dir = files.log_dir_of(partition.folder)
        if error.errno not in NO_ROOM:
            self.dir_failed(log_dir, error)
        elif self.full_disks.refuse_appends(partition, error):
            for listener in self.no_room_listeners:
                listener(log_dir)

    def log_lost(self, slot: int, log_dir: str, error: OSError) -> None:
        """A log cannot continue in the log dir to which it has moved: it is offline until it is
        opened there. On a full disk the log dir is not."""
        partition = self._partitions.pop(slot)
        self.lost[slot] = partition.published.generation
        self.full_disks.forget(slot)
        self._abandon(slot, partition)
        if error.errno not in NO_ROOM:
            self.dir_failed(log_dir, error)

    def write_failed(self, slot: int, number: int) -> None:
        """A slot's batches could not be written, by an errno; the slot's append row is closed."""
        self._drain.metrics.words[WRITE_ERRORS] += 1
        partition = self._partitions.get(slot)
        if partition is None:  # an error of another log in the same drain took the log dir offline
            return
        self.log_failed(slot, OSError(number, errno.errorcode.get(number, str(number)), partition.folder))

    def read_failed(self, slot: int, error: OSError) -> None:
        """A segment could not be read: an error of the disk takes its log dir offline."""
        partition = self._partitions.get(slot)
        if partition is not None and error.errno in OF_THE_DISK:
            self.dir_failed(files.log_dir_of(partition.folder), error)

    def sync_failed(self, folder: str, number: int) -> None:
        """Take the log dir offline after a failed sync: the kernel may have dropped dirty pages.
        number: the errno."""
        self.dir_failed(files.log_dir_of(folder), OSError(number, "sync failed", folder))

    def dir_not_synced(self, log_dir: str, error: OSError) -> bool:
        """A log dir could not be synced at a stop, after its logs were closed. Returns whether only
        descriptors were missing: then the log dir stays online, and the next start checks its logs,
        because their checkpoints stay unchanged."""
        if error.errno not in NO_DESCRIPTORS:
            self.dir_failed(log_dir, error)
            return False
        log.error("%s is not synced: %s", log_dir, error)
        for slot, partition in list(self._partitions.items()):
            if files.log_dir_of(partition.folder) == log_dir:
                del self._partitions[slot]
        return True

    def checkpoint_failed(self, log_dir: str, error: OSError) -> None:
        """A file of a log dir could not be written that the next start can do without: only a full
        disk is tolerated."""
        if error.errno in NO_ROOM:
            log.error("cannot write checkpoints of %s: %s", log_dir, error)
        else:
            self.dir_failed(log_dir, error)

    def dir_failed(self, log_dir: str, error: OSError) -> None:
        """Let every partition of a failed log dir answer KAFKA_STORAGE_ERROR from now on; the
        others are not affected."""
        folder = self._dirs.get(log_dir)
        if folder is not None and folder.failed is None:
            folder.fail(error)
            boot_mark.remove(log_dir)
        if self._errors.fail(log_dir, error.errno or errno.EIO):
            log.error("log dir %s goes offline: %s", log_dir, error)
        for slot, partition in list(self._partitions.items()):
            if files.log_dir_of(partition.folder) == log_dir:
                self.full_disks.forget(slot)
                del self._partitions[slot]
                self._abandon(slot, partition)

    def _abandon(self, slot: int, partition: UnifiedLog) -> None:
        try:
            partition.abandon()
        except OSError as error:  # closing may report the error of an earlier write
            log.debug("%s: %s", partition.folder, error)
        self._drain.notify(slot)
        for listener in self.offline_listeners:
            listener(slot)

    def check_dirs(self) -> None:
        """Take log dirs offline whose file system is gone, or that failed in another process of the
        broker."""
        for path, folder in self._dirs.items():
            if folder.failed is not None:
                continue
            try:
                if number := self.of(path):
                    raise OSError(number, os.strerror(number), path)
                folder.check()
            except OSError as error:
                self.dir_failed(path, error)
