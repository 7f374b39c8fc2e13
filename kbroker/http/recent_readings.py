"""Earlier readings of counters, for quantiles and shares of the last minutes."""

import threading
from collections import deque
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

Reading = Mapping[tuple[str, str], NDArray[np.int64]]
STEPS = 6
"""Readings kept in one window; its length varies by one of them."""


class RecentReadings:
    """Runs in: http. Owner: the collector. clock_s: monotonic seconds. Thread-safe."""

    def __init__(self, clock_s: Callable[[], float]) -> None:
        self._clock_s = clock_s
        self._readings: deque[tuple[float, Reading]] = deque()
        self._lock = threading.Lock()

    def now_s(self) -> float:
        """The clock."""
        return self._clock_s()

    def remember(self, reading: Reading, window_s: float) -> Reading:
        """Store a reading; returns the one from the start of the window, or the earliest (empty at
        first)."""
        return self.remember_at(reading, window_s)[0]

    def remember_at(self, reading: Reading, window_s: float) -> tuple[Reading, float]:
        """As above, with the age of that reading in seconds (0 at first)."""
        now = self._clock_s()
        with self._lock:
            kept = self._readings
            while len(kept) > 1 and kept[1][0] <= now - window_s:
                kept.popleft()
            then, earlier = kept[0] if kept else (now, {})
            if not kept or kept[-1][0] <= now - window_s / STEPS:
                kept.append((now, reading))
            return earlier, now - then
