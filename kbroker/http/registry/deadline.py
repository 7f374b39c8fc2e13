"""Time limits: for work on schemas, whose cost no bound on their size predicts well enough, and for
the wait for that of others."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

from kbroker.http.registry.failure import busy

WAIT_S = 10.0
"""Maximum time that a request waits for others; then it is refused: its thread would continue to
wait after its client has left."""


class Deadline:
    """Begins when it is made. Owner: the work that it limits, which checks it between two steps."""

    __slots__ = ("_ends_s",)

    def __init__(self, seconds: float) -> None:
        self._ends_s = monotonic() + seconds

    @property
    def is_over(self) -> bool:
        return monotonic() > self._ends_s


@contextmanager
def held(lock: "threading.Lock | threading.RLock", text: str) -> Iterator[None]:
    """Holds a lock. Raises Failure with this text if it is not free in time."""
    if not lock.acquire(timeout=WAIT_S):
        raise busy(text)
    try:
        yield
    finally:
        lock.release()
