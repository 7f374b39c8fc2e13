"""Files and folders that were renamed for deletion and wait for file.delete.delay.ms, so that readers can finish."""

import heapq
import logging
import shutil
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from kbroker.ipc.crash_point import crash_point

log = logging.getLogger(__name__)


class Deletions:
    """Paths by due time. Runs in: io. Owner: the IO worker. Not thread-safe; files are removed by a thread of its own,
    because a large one keeps whoever removes it for as long as its pages take to be freed: 10 ms for 100 MB and more.

    What is left here at a stop is removed by the next start (see leftovers.py, LogDir.remove_deleted)."""

    def __init__(self) -> None:
        self._due: list[tuple[int, str]] = []
        self._thread: ThreadPoolExecutor | None = None

    def add(self, paths: Iterable[str], due_ms: int) -> None:
        """Have paths (files or folders) removed at a time."""
        for path in paths:
            heapq.heappush(self._due, (due_ms, path))

    @property
    def next_due_ms(self) -> int | None:
        """When the next path is due, None when nothing waits."""
        return self._due[0][0] if self._due else None

    def take_due(self, now_ms: int) -> list[str]:
        """Paths whose time has come."""
        found = []
        while self._due and self._due[0][0] <= now_ms:
            found.append(heapq.heappop(self._due)[1])
        return found

    def remove_due(self, now_ms: int) -> Future[None] | None:
        """Have removed what is due; None when nothing is."""
        if not (paths := self.take_due(now_ms)):
            return None
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "deletion")
        return self._thread.submit(remove, paths)


def remove(paths: Iterable[str]) -> None:
    """Remove files and folders; one that is gone or can not be removed is logged, not raised."""
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
            log.warning("%s can not be removed: %s", name, error)
