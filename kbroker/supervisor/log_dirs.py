"""The log dirs of a broker in the parent: locked, identified, marked after a clean stop.

Runs in: acceptor. Owner: the supervisor. The locks live as long as any process of the broker.
"""

import errno
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from kbroker.io.files import meta_properties
from kbroker.io.files.log_dir import LogDir, LogDirInUse
from kbroker.io.files.meta_properties import MetaProperties, MetaPropertiesError
from kbroker.kernels import trust
from kbroker.log import boot_mark
from kbroker.protocol.kafka_uuid import random_uuid

_NEXT_STEPS = {
    errno.EADDRINUSE: "; another program listens there: end it, or set another port",
    errno.EADDRNOTAVAIL: "; this host does not have that address: set one of its own, or none for all",
}

log = logging.getLogger(__name__)


class LogDirsUnusable(Exception):
    """The broker cannot start on these log dirs; the text has the reason."""


def start_failure(error: LogDirsUnusable | OSError) -> str:
    """The log line of a broker that cannot start."""
    if not isinstance(error, OSError):
        return str(error)
    return f"cannot start: {error.strerror or error}{_NEXT_STEPS.get(error.errno or 0, '')}"


def _reason(error: OSError) -> str:
    return "a file, not a folder" if isinstance(error, FileExistsError) else error.strerror or str(error)


def _none_usable(failed: Iterable[tuple[str, str]]) -> LogDirsUnusable:
    return LogDirsUnusable(f"no log dir can be used: {_listed(failed)}")


def _listed(failed: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{path} ({reason})" for path, reason in failed)


def warn_of_others(path: str) -> None:
    """Warn of a log dir in which another user can replace files: credentials, ACLs, records."""
    try:
        trust.check(path, Path(path).stat(), sticky=True)
    except trust.Untrusted as error:
        log.warning("log dir %s; they can replace the broker's files", error)
    except OSError as error:
        log.debug("log dir %s: %s", path, error)


def check_usable(paths: Sequence[str]) -> None:
    """Raise LogDirsUnusable if no log dir can be locked now, or another broker has one; nothing
    stays locked."""
    failed = []
    for path in paths:
        folder = LogDir(path)
        try:
            folder.lock()
        except LogDirInUse as error:
            raise LogDirsUnusable(str(error)) from error
        except OSError as error:
            failed.append((folder.path, _reason(error)))
        else:
            folder.unlock()
    if len(failed) == len(paths):
        raise _none_usable(failed)


def _refuse_copies(directory_ids: Mapping[str, str]) -> None:
    """Raise MetaPropertiesError if two log dirs have one directory.id: which of them holds the
    partitions is unknown. Apache Kafka refuses to start, too (MetaPropertiesEnsemble.verify)."""
    paths: dict[str, str] = {}
    for path, directory_id in directory_ids.items():
        if other := paths.get(directory_id):
            raise MetaPropertiesError(
                f"{other} and {path} have the same directory.id {directory_id}: one is a copy of the other,"
                " remove one of them from log.dirs"
            )
        paths[directory_id] = path


class LogDirs:
    """A log dir with an I/O error is left out, as in Kafka, if another one can be used.

    online: absolute paths. directory_ids: of them. clean: those of them whose last stop was clean.
    same_boot: those of them that have the mark of this boot of the host (`log/boot_mark.py`).
    closed_logs: the logs' state saved by that stop, for the IO workers' first start. cluster_id: of
    meta.properties, new in new log dirs.
    """

    def __init__(self, paths: Sequence[str], node_id: int) -> None:
        self._dirs = [LogDir(path) for path in paths]
        self.same_boot: frozenset[str] = frozenset()
        self._found: list[MetaProperties] = []
        clean = [folder.path for folder in self._dirs if self._take(folder)]
        failed = [(folder.path, _reason(folder.failed)) for folder in self._dirs if folder.failed is not None]
        self._dirs = [folder for folder in self._dirs if folder.failed is None]
        if not self._dirs:
            raise _none_usable(failed)
        if failed and not self._found:  # a new cluster.id, written now, would refuse them at the next start
            raise LogDirsUnusable(
                f"meta.properties may be in a log dir that cannot be used: {_listed(failed)}"
            )
        for path, reason in failed:
            log.error("log dir %s is offline: %s", path, reason)
        self.online = tuple(folder.path for folder in self._dirs)
        for path in self.online:
            warn_of_others(path)
        self.clean = frozenset(clean)
        self.closed_logs = {folder.path: folder.closed_logs for folder in self._dirs}
        try:
            self.cluster_id = next((f.cluster_id for f in self._found), None) or random_uuid()
            self.directory_ids = {
                folder.path: meta_properties.verify_or_create(
                    folder.path, self.cluster_id, node_id
                ).directory_id
                for folder in self._dirs
            }
            _refuse_copies(self.directory_ids)
        except (MetaPropertiesError, OSError) as error:
            raise LogDirsUnusable(str(error)) from error

    def _take(self, folder: LogDir) -> bool:
        """Lock a log dir and read its identity; whether its last stop was clean."""
        try:
            folder.lock()
            if (found := meta_properties.read(folder.path)) is not None:
                self._found.append(found)
            if boot_mark.take(folder.path):
                self.same_boot |= {folder.path}
            return folder.take_clean_marker()
        except (LogDirInUse, MetaPropertiesError) as error:
            raise LogDirsUnusable(str(error)) from error
        except OSError as error:
            folder.fail(error)
            return False

    def forget_closed_logs(self) -> None:
        """Drop the saved state, once the IO workers have it."""
        self.closed_logs = {}
        for folder in self._dirs:
            folder.closed_logs = []

    def release(self, clean: bool, failed: Collection[str] = (), broker_epoch: int = -1) -> None:
        """Unlock the log dirs; clean: every log was closed, so the next start need not check them,
        except those in log dirs that failed or were not checked. broker_epoch: of this broker in
        Apache Kafka's metadata.

        A clean stop ends the mark of this boot of the host: another broker, which does not know
        it, or a copy may be next to change the log dir."""
        for folder in self._dirs:
            try:
                if clean and folder.path not in failed:
                    boot_mark.remove(folder.path)
                    folder.write_clean_marker(broker_epoch)
            except OSError as error:
                log.error("no clean shutdown marker in %s: %s", folder.path, error)
            folder.unlock()
