"""The time until a disk is full at the rate of the last hour, or of the last minutes if it then
fills soon. Pure: times are passed in."""

import math
import threading
from collections import deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kbroker.ipc.layout import FreeSpace

WINDOW_S = 3600.0
SHORT_S = 300.0
"""Length of the short line. After a quiet hour the line through the whole hour stays nearly flat
when the disk begins to fill; the short line rises at once."""
SHORT_HORIZON_S = 3600.0
"""The short line counts if it foresees a full disk within this time. Between two deletions by
retention each disk fills for minutes; that says nothing about later hours."""
MIN_S = 60.0
EVERY_S = 5.0
NO_ROOM = 32 << 20
"""Free bytes below which a disk is full: refused appends resume only with more free space."""


class TimeToFull:
    """Free bytes of one file system over the last WINDOW_S, at most one sample in EVERY_S. Runs in:
    http, where scrapes and the console add samples and read the same forecast. Thread-safe.

    kept: rows of FreeSpace in shared memory, which outlive this process. The samples that an
    earlier process has left there come first.
    """

    def __init__(self, kept: NDArray[np.int64] | None = None) -> None:
        self._lock = threading.Lock()
        self._kept = FreeSpace.table(FreeSpace.SAMPLES) if kept is None else kept
        rows = np.flatnonzero(self._kept[:, FreeSpace.AT_MS])
        rows = rows[np.argsort(self._kept[rows, FreeSpace.AT_MS], kind="stable")]
        found = self._kept[rows].tolist()
        self._samples = deque((row[FreeSpace.AT_MS] / 1000, float(row[FreeSpace.BYTES])) for row in found)
        self._next = int(rows[-1]) + 1 if len(rows) else 0
        self._free_now = self._samples[-1][1] if self._samples else math.inf

    def add(self, now_s: float, free_bytes: float) -> None:
        """Add the free bytes; now_s only grows, but for calls at the same time. Many more free
        bytes than before (a large deletion, or the file system has grown) start a new series,
        because earlier samples do not show the present rate."""
        with self._lock:
            self._add(now_s, free_bytes)

    def _add(self, now_s: float, free_bytes: float) -> None:
        samples = self._samples
        self._free_now = free_bytes
        if samples and free_bytes > samples[-1][1] + 0.05 * max(free_bytes, 1.0):
            samples.clear()
            self._kept[:, FreeSpace.AT_MS] = 0
        if samples and now_s - samples[-1][0] < EVERY_S:
            return
        samples.append((now_s, free_bytes))
        self._keep(now_s, free_bytes)
        while now_s - samples[0][0] > WINDOW_S:
            samples.popleft()

    def _keep(self, now_s: float, free_bytes: float) -> None:
        """The next row, or the one of the earliest sample. It counts as empty until it is whole."""
        row = self._kept[self._next % FreeSpace.SAMPLES]
        row[FreeSpace.AT_MS] = 0
        row[FreeSpace.BYTES] = int(free_bytes)
        row[FreeSpace.AT_MS] = int(now_s * 1000)
        self._next += 1

    def seconds(self) -> float | None:
        """Seconds from the last sample until the disk is full; inf if it does not fill, None before
        MIN_S of samples. 0 for a full disk."""
        with self._lock:
            samples = tuple(self._samples)
            if samples and self._free_now < NO_ROOM:
                return 0.0
        hour = _left_s(samples)
        short = _left_s([sample for sample in samples if samples[-1][0] - sample[0] <= SHORT_S])
        if hour is None or short is None or short > SHORT_HORIZON_S:
            return hour
        return min(hour, short)


def _left_s(samples: Sequence[tuple[float, float]]) -> float | None:
    """Seconds until the line through the samples (seconds, free bytes) has no free bytes, by linear
    regression; None if they span less than MIN_S."""
    if len(samples) < 2 or samples[-1][0] - samples[0][0] < MIN_S:
        return None
    mean_t = sum(t for t, _ in samples) / len(samples)
    mean_free = sum(free for _, free in samples) / len(samples)
    spread = sum((t - mean_t) ** 2 for t, _ in samples)
    slope = sum((t - mean_t) * (free - mean_free) for t, free in samples) / spread
    return samples[-1][1] / -slope if slope < 0 else math.inf
