"""A thread that writes checkpoints, and waits for the disk in place of the loop of appends."""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

Failures = list[tuple[str, OSError]]
"""Log dirs that could not be written."""


class CheckpointThread:
    """One job at a time. Runs in: io. Owner: the part whose files it writes. Not thread-safe, only
    the jobs run in the thread. failed: called in the loop with each log dir that a job could not
    write."""

    def __init__(self, name: str, failed: Callable[[str, OSError], None]) -> None:
        self._name = name
        self._failed = failed
        self._executor: ThreadPoolExecutor | None = None
        self._job: Future[tuple[Failures, float]] | None = None
        self._seconds = 0.0
        self._ended = 0.0

    @property
    def is_busy(self) -> bool:
        """Whether a job is in progress, or has ended and `take` has not reported its failures."""
        return self._job is not None

    def rest_is_due(self, share: int) -> bool:
        """Whether the next job would make it work more than one part in `share` of the time."""
        return time.monotonic() < self._ended + share * self._seconds

    def begin(self, job: Callable[[], Failures]) -> None:
        """Begin a job. No other is in progress."""
        assert self._job is None
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, self._name)
        self._job = self._executor.submit(_timed, job)

    def take(self) -> None:
        """Report the failures of the job if it has ended."""
        if self._job is None or not self._job.done():
            return
        failures, self._seconds = self._job.result()
        self._job, self._ended = None, time.monotonic()
        for path, error in failures:
            self._failed(path, error)

    def close(self) -> None:
        """Wait for the job in progress, and report its failures. No job begins after this."""
        if self._executor is not None:
            self._executor.shutdown(wait=True)
        self.take()


def _timed(job: Callable[[], Failures]) -> tuple[Failures, float]:
    """Runs in the thread. Returns the failures of a job, and the seconds that it took."""
    began = time.monotonic()
    return job(), time.monotonic() - began
