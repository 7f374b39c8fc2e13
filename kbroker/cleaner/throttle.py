"""Limits the bytes a second of all cleaner threads together:
log.cleaner.io.max.bytes.per.second."""

import threading
import time
from collections.abc import Callable
from typing import Final

MAX_S: Final = 60.0
"""Maximum wait for one read or write. The setting has no lower bound: with 0 or 5e-324 bytes a
second the wait would never end, even after a change of the setting."""


class Throttle:
    """Runs in: cleaner, any thread. Owner: CleanerState. Bytes are used first, then the
    thread waits until they were allowed.

    clock_s, sleep: given by tests."""

    def __init__(
        self,
        bytes_per_second: float,
        clock_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self.bytes_per_second = bytes_per_second
        self._clock_s = clock_s
        self._sleep = sleep
        self._free_at = clock_s()
        self._lock = threading.Lock()

    def used(self, count: int) -> None:
        """``count`` bytes were read or written: wait until they were allowed."""
        with self._lock:
            now = self._clock_s()
            self._free_at = max(self._free_at, now) + self._allowed_in_s(count)
            wait = self._free_at - now
        if wait > 0.001:  # shorter sleeps cost more than they throttle; they add up in _free_at
            self._sleep(wait)

    def _allowed_in_s(self, count: int) -> float:
        rate = self.bytes_per_second
        return min(count / rate, MAX_S) if rate > 0 else MAX_S
