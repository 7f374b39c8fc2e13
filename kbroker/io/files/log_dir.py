"""One log dir: its lock, identity, clean shutdown marker, checkpoints and free space."""

import ctypes
import errno
import fcntl
import json
import logging
import os
from collections.abc import Callable, Container, Mapping
from functools import partial
from pathlib import Path

from kbroker.config.plain_file import open_plain
from kbroker.log import checkpoint, files
from kbroker.log.checkpoint import Changes, CorruptCheckpoint, Offsets, TopicPartition

log = logging.getLogger(__name__)

_libc = ctypes.CDLL(None, use_errno=True)


class LogDirInUse(Exception):
    """Another broker (kbroker or Apache Kafka) has this log dir open."""


class LogDir:
    """One entry of log.dirs. Runs in: acceptor (lock, identity), io, control. Owner:
    its maker.

    failed: the error that took it offline in this process, None while it is in use. closed_logs:
    files that IO workers wrote at a clean stop (`take_closed`), read and removed with the marker.
    """

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)  # noqa: PTH100 Path.resolve would follow links
        self.failed: OSError | None = None
        self.closed_logs: list[bytes] = []
        self._identity: tuple[int, int] | None = None
        self._lock_fd = -1

    def lock(self) -> None:
        """Create the folder if needed and lock it for this broker until `unlock`, or until all of
        its processes have ended.

        Two locks on ``.lock``: flock, which forked children share, and a POSIX record lock, which
        is what Apache Kafka takes. A link in its place is refused: it may lead to a file that
        another user has chosen. Raises LogDirInUse, OSError."""
        Path(self.path).mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(f"{self.path}/{files.LOCK}", flags, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(fd)
            raise LogDirInUse(f"{self.path} is in use by another broker: stop that one first") from error
        except BaseException:
            os.close(fd)
            raise
        self._lock_fd = fd

    def unlock(self) -> None:
        """Release the locks."""
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1

    def fail(self, error: OSError) -> None:
        """Take the log dir offline after an I/O error; the first one is kept."""
        if self.failed is None:
            self.failed = error

    def check(self) -> None:
        """Raise OSError when the folder is not the same as at the first call: its mount is gone."""
        status = Path(self.path).stat()
        identity = (status.st_dev, status.st_ino)
        if self._identity is None:
            self._identity = identity
        elif identity != self._identity:
            raise OSError(errno.ENODEV, "another folder is in its place, its file system is gone", self.path)

    # --- clean shutdown --------------------------------------------------------------------------------

    def take_clean_marker(self) -> bool:
        """Whether the last stop was clean. The marker is removed at once, so that a crash during
        the start counts as a crash (KAFKA-10471)."""
        try:
            Path(self._marker).unlink()
        except FileNotFoundError:
            take_closed(self.path)  # of an older stop, and outdated
            return False
        files.sync_folder(self.path)
        self.closed_logs = take_closed(self.path)
        return True

    def write_clean_marker(self, broker_epoch: int = -1) -> None:
        """Record that every log was closed cleanly: the last write of a clean shutdown."""
        body = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
        checkpoint.replace_file(self._marker, body.encode())

    @property
    def _marker(self) -> str:
        return f"{self.path}/{files.CLEAN_SHUTDOWN}"

    # --- checkpoints -----------------------------------------------------------------------------------

    def recovery_points(self) -> dict[TopicPartition, int]:
        """Recovery points by partition. A damaged checkpoint counts as empty: then more is scanned,
        but no record is lost."""
        return self._offsets(files.RECOVERY_POINTS)

    def log_start_offsets(self) -> dict[TopicPartition, int]:
        """Log start offsets that lie above the first segment's base; a damaged checkpoint counts as
        empty."""
        return self._offsets(files.LOG_START_OFFSETS)

    def update_recovery_points(
        self,
        changed: Changes | Callable[[Offsets], Changes],
        dropped: tuple[TopicPartition, ...] = (),
    ) -> None:
        """Write changed recovery points into the checkpoint that all workers of this log dir
        share."""
        checkpoint.update_offsets(f"{self.path}/{files.RECOVERY_POINTS}", changed, dropped)

    def update_log_start_offsets(
        self,
        changed: Changes | Callable[[Offsets], Changes],
        dropped: tuple[TopicPartition, ...] = (),
    ) -> None:
        """Write changed log start offsets; drop those that equal the base offset of the first
        segment."""
        checkpoint.update_offsets(f"{self.path}/{files.LOG_START_OFFSETS}", changed, dropped)

    def cleaner_offsets(self) -> dict[TopicPartition, int]:
        """First dirty offsets of compacted logs. A damaged checkpoint counts as empty: then more is
        cleaned again."""
        return self._offsets(files.CLEANER_OFFSETS)

    def update_cleaner_offsets(
        self,
        changed: Changes | Callable[[Offsets], Changes],
        dropped: tuple[TopicPartition, ...] = (),
    ) -> None:
        """Write changed first dirty offsets into the checkpoint that all workers of this log dir
        share."""
        path = f"{self.path}/{files.CLEANER_OFFSETS}"
        if changed or Path(path).exists():
            checkpoint.update_offsets(path, changed, dropped)

    def lower_offsets(
        self, key: TopicPartition, recovery_point: int, first_dirty: int, log_start: int
    ) -> None:
        """Lower what the checkpoints have of a truncated log, before it grows again. Otherwise, new
        records below the old recovery point would not be scanned after a power cut, or below the
        old first dirty offset would pass for clean: their tombstones would go before the records
        that these delete. A start would remove those below the old log start. Raises OSError."""
        self.update_recovery_points(partial(_lowered, key, recovery_point))
        self.update_log_start_offsets(partial(_lowered, key, log_start))
        path = f"{self.path}/{files.CLEANER_OFFSETS}"
        # last: a thread that has read the old first dirty offset under the lock has written it now
        if Path(path).exists():
            checkpoint.update_offsets(path, partial(_lowered, key, first_dirty))

    def checkpointed(self) -> dict[str, frozenset[str]]:
        """Checkpoint file -> ``<topic> <partition>`` of its entries. Raises OSError."""
        names = (files.RECOVERY_POINTS, files.LOG_START_OFFSETS, files.CLEANER_OFFSETS)
        return {name: checkpoint.entries(f"{self.path}/{name}") for name in names}

    def forget_deleted(self, key: TopicPartition, checkpointed: Mapping[str, Container[str]]) -> None:
        """Drop what the checkpoints still have of a deleted log, before a new log of its name is
        served. Its process may have died before it dropped that, and the next start would take the
        old log start for the new log's, and remove the records below it. Raises OSError."""
        for name, entries in checkpointed.items():
            if "{} {}".format(*key) in entries:
                checkpoint.update_offsets(f"{self.path}/{name}", {}, (key,))

    def _offsets(self, name: str) -> dict[TopicPartition, int]:
        try:
            return checkpoint.read_offsets(f"{self.path}/{name}")
        except CorruptCheckpoint as error:
            log.warning("%s: it counts as empty, as in Apache Kafka", error)
            return {}

    # --- disk ------------------------------------------------------------------------------------------

    def space(self) -> tuple[int, int]:
        """(total, usable) bytes of the file system, as DescribeLogDirs reports them. Raises
        OSError."""
        found = os.statvfs(self.path)
        return found.f_frsize * found.f_blocks, found.f_frsize * found.f_bavail

    def sync(self) -> None:
        """Sync the whole file system, which is quicker than many logs one by one, as at a stop.
        Raises OSError."""
        fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if _libc.syncfs(fd) != 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number), self.path)
        finally:
            os.close(fd)


def _lowered(key: TopicPartition, offset: int, known: Offsets) -> Offsets:
    return {key: max(0, offset)} if known.get(key, -1) > max(0, offset) else {}


def take_closed(log_dir: str) -> list[bytes]:
    """Read and remove the files that the IO workers of the last run left in a log dir. Raises
    OSError."""
    contents = []
    with os.scandir(log_dir) as entries:
        paths = [Path(entry.path) for entry in entries if entry.name.startswith(files.CLOSED_LOGS)]
    for path in paths:
        with open_plain(path) as file:
            contents.append(file.read())
        path.unlink()
    return contents


def finish_future(log_dir: str, topic: str, partition: int, topic_id: bytes) -> None:
    """Give a complete copy its name: a move to this log dir was decided, but not finished."""
    folder = Path(log_dir, files.folder_name(topic, partition))
    if not folder.exists():
        for future in futures_of(log_dir, topic, partition, topic_id)[:1]:
            Path(future).rename(folder)


def futures_of(log_dir: str, topic: str, partition: int, topic_id: bytes) -> list[str]:
    """The ``-future`` folders of a partition in a log dir, usually one. Folders of an older topic
    of the same name are left out."""
    with os.scandir(log_dir) as entries:
        named = [e.path for e in entries if files.is_dated(e.name, topic, partition, files.FUTURE_FOLDER)]
    return [path for path in named if checkpoint.topic_id_of(path) in (None, topic_id)]
