"""Bytes read from disk for answers that the event loop sends itself: the operating system reads
ahead of sequential readers.

Runs in: network. Owner: the upkeep. A system call for each small answer would be too expensive. So
the thread's count is read once a second and divided among the partitions that were read in that
second, by their bytes.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from kbroker.ipc.layout import Counter
from kbroker.log.cachestat import thread_disk_bytes

Words = NDArray[np.int64]


class LoopReads:
    """counters: rows of Counter of this process, by slot."""

    def __init__(self, counters: Words, disk_bytes: Callable[[], int] = thread_disk_bytes) -> None:
        self._counters = counters
        self._disk_bytes = disk_bytes
        self._before = disk_bytes()
        self._sent: Words = np.zeros(0, np.int64)

    def count(self, slots: int) -> int:
        """Count the bytes read from disk since the last call; returns them. slots: in use."""
        now = self._disk_bytes()
        sent = self._counters[:slots, Counter.BYTES_OUT].copy()
        self._sent = np.concatenate((self._sent, sent[len(self._sent) :]))[:slots]
        given, self._before = now - self._before, now
        read, self._sent = sent - self._sent, sent
        where = np.flatnonzero(read > 0)
        if given <= 0 or not len(where):
            return 0
        shares = read[where] / read[where].sum() * given
        whole = np.diff(np.rint(np.cumsum(shares)).astype(np.int64), prepend=0)
        self._counters[where, Counter.COLD_BYTES_OUT] += whole
        return int(whole.sum())
