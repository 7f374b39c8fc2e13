"""Files and folders that were renamed for deletion and wait for file.delete.delay.ms, so that
readers can finish."""

import heapq
import logging
import os
import shutil
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from kbroker.ipc.crash_point import crash_point
from kbroker.log import files

log = logging.getLogger(__name__)


class Deletions:
    """Paths by due time. Runs in: io. Owner: Logs. Not thread-safe; a separate thread
    removes the files, because removing a large file also frees its pages: 10 ms and more for 100
    MB. If the process ends first, the paths are found again: files when their log is loaded
    (leftovers.py), folders by `sweep`."""

    def __init__(self) -> None:
        self._due: list[tuple[int, int, str]] = []
        """(due time, delay until then, path) of each deletion; times in ms."""
        self._checked_ms = 0
        self._thread: ThreadPoolExecutor | None = None

    def add(self, paths: Iterable[str], now_ms: int, delay_ms: int) -> None:
        """Remove paths (files or folders) later."""
        for path in paths:
            heapq.heappush(self._due, (now_ms + delay_ms, delay_ms, path))

    def take_due(self, now_ms: int) -> list[str]:
        """Paths that are due. If the wall clock was set back, none waits for longer than its
        delay."""
        if now_ms < self._checked_ms:
            self._due = [(min(due, now_ms + delay), delay, path) for due, delay, path in self._due]
            heapq.heapify(self._due)
        self._checked_ms = now_ms
        found = []
        while self._due and self._due[0][0] <= now_ms:
            found.append(heapq.heappop(self._due)[2])
        return found

    def remove_due(self, now_ms: int) -> Future[None] | None:
        """Remove the paths that are due; None when none is."""
        if not (paths := self.take_due(now_ms)):
            return None
        return self._submit(remove, paths)

    def sweep(self, log_dirs: Iterable[str], before_ns: int) -> Future[None]:
        """Remove folders of deleted logs that earlier processes renamed before a time."""
        return self._submit(sweep, list(log_dirs), before_ns)

    def _submit(self, work: Callable[..., None], *arguments: object) -> Future[None]:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "deletion")
        return self._thread.submit(work, *arguments)


def sweep(log_dirs: Iterable[str], before_ns: int) -> None:
    """Remove ``-delete`` folders whose inodes were changed last, by their renaming, before a time
    (ns since 1970)."""
    for log_dir in log_dirs:
        try:
            with os.scandir(log_dir) as entries:
                found = [entry for entry in entries if _is_deleted(entry.name)]
            remove(entry.path for entry in found if entry.stat().st_ctime_ns <= before_ns)
        except OSError as error:
            log.warning("%s is not searched for deleted logs: %s", log_dir, error)


def _is_deleted(name: str) -> bool:
    folder = files.parse_folder(name) if name.endswith(files.DELETE_FOLDER) else None
    return folder is not None and folder.suffix == files.DELETE_FOLDER


def remove(paths: Iterable[str]) -> None:
    """Remove files and folders; a path that cannot be removed is logged, not raised."""
    for name in paths:
        path = Path(name)
        try:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
            log.debug("removed %s", name)
            crash_point("retention: file removed")
        except FileNotFoundError:
            continue
        except OSError as error:
            log.warning("%s cannot be removed: %s", name, error)
