"""Progress of a worker's log recovery: one log line per second while logs are being recovered."""

import logging
import threading

log = logging.getLogger(__name__)

EVERY_NS = 1_000_000_000


class RecoveryProgress:
    """Counts logs and scanned bytes. Runs in: io. Owner: Logs; loading threads call `scanned`. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wanted = 0
        self._done = 0
        self._bytes = 0
        self._began_ns = 0
        self._reported_ns = 0

    def begin(self, now_ns: int) -> None:
        """One more log is to be loaded."""
        with self._lock:
            if self._wanted == self._done:
                self._wanted = self._done = self._bytes = 0
                self._began_ns = self._reported_ns = now_ns
            self._wanted += 1

    def scanned(self, count: int) -> None:
        """Bytes of a log were checked."""
        with self._lock:
            self._bytes += count

    def finish(self) -> None:
        """One log is loaded, or cannot be."""
        with self._lock:
            self._done += 1

    def tell(self, now_ns: int) -> str | None:
        """The line that is due now: each second while loading takes longer, and at its end when it was scanning."""
        with self._lock:
            ended = self._wanted > 0 and self._wanted == self._done
            if self._wanted == 0 or (not ended and now_ns - self._reported_ns < EVERY_NS):
                return None
            self._reported_ns = now_ns
            seconds = (now_ns - self._began_ns) / 1e9
            line = f"{self._done} of {self._wanted} logs loaded, {self._bytes / 1e6:.0f} MB checked in {seconds:.1f} s"
            if ended:
                slow = seconds >= 1 or self._bytes > 0
                self._wanted = self._done = 0
                return line if slow else None
            return line
