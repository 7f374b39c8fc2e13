"""Limits how many logs keep their active segment's files open; the others have closed files.

A log opens its files when something is appended to it, so a node with thousands of quiet partitions
holds few open files. Above the limit, the logs with the oldest appends close theirs. A log with
unsynced records is synced by a thread first, because a write-back error of a closed file would go
unnoticed.
"""

import resource
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from kbroker.io.append.rows import AppendRow, AppendState
from kbroker.io.partition.unified_log import UnifiedLog
from kbroker.log.open_files import NO_DESCRIPTORS

Words = NDArray[np.int64]
FILES_OF_A_LOG = 3
SPARE = 1024  # descriptors for all other purposes: loading, syncing, cleaning, links
SHARE = 8  # one in this many logs closes its files at a time, so that the search is rare
MAX_SYNCS = 64  # at a time: each has its own descriptor
MARGIN = 64  # logs above the limit that may stay open while their syncs are pending


def logs_within(limit: int) -> int:
    """Logs that may be open under a limit of descriptors of the process."""
    return max((limit - SPARE) // FILES_OF_A_LOG, 16)


def process_limit() -> int:
    """Logs that this process may have open."""
    return logs_within(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


class FileHandles:
    """Runs in: io. Owner: the IO worker.

    rows: of AppendRow; sync has slots synced by a thread; failed is called with the folder of a log
    whose sync failed here.
    """

    def __init__(
        self,
        rows: Words,
        limit: int,
        sync: Callable[[Iterable[int]], None],
        failed: Callable[[str, OSError], None],
    ) -> None:
        self._rows = rows
        self._limit = limit
        self._sync = sync
        self._failed = failed
        self._opened = 0  # upper bound of open logs since the last count

    def opened(self, get: Callable[[int], UnifiedLog | None]) -> int:
        """A log has opened its files; closes files of other logs when there are too many. Returns
        the upper bound of open logs."""
        self._opened += 1
        if self._opened > self._limit:
            self.close_idle(get)
        return self._opened

    def close_idle(self, get: Callable[[int], UnifiedLog | None]) -> int:
        """Close the files of the logs with the oldest appends; returns how many. Logs with unsynced
        records are synced first and closed the next time."""
        slots = np.flatnonzero(
            (self._rows[:, AppendRow.STATE] != AppendState.CLOSED) & (self._rows[:, AppendRow.LOG_FD] >= 0)
        )
        count = min(max(len(slots) // SHARE, 1), len(slots) - 1)  # the newest has just been opened
        by_age = np.argsort(self._rows[slots, AppendRow.LAST_APPEND_MS], kind="stable")
        oldest = [
            partition for slot in slots[by_age[:count]].tolist() if (partition := get(slot)) is not None
        ]
        synced = [partition for partition in oldest if partition.durability.is_synced]
        unsynced = [partition for partition in oldest if not partition.durability.is_synced][:MAX_SYNCS]
        if len(slots) - len(synced) > self._limit + MARGIN:  # syncs lag behind the openings
            synced += self._synced_now(unsynced)
        else:
            self._sync([partition.slot for partition in unsynced])
        for partition in synced:
            partition.active.close_files()
        self._opened = len(slots) - len(synced)
        if self._opened >= self._limit:  # the syncs take time; MARGIN postpones the next search
            self._opened = self._limit - MARGIN // 4
        return len(synced)

    def _synced_now(self, partitions: list[UnifiedLog]) -> list[UnifiedLog]:
        """Sync the logs; returns the synced ones. A log stays open if there is no descriptor for
        its sync: nothing of it has failed."""
        synced = []
        for partition in partitions:
            try:
                partition.durability.flush()
            except OSError as error:
                if error.errno not in NO_DESCRIPTORS:
                    self._failed(partition.folder, error)
            else:
                synced.append(partition)
        return synced
