"""Speed of copying memory, and the cost of reading the clock."""

import time
from collections.abc import Callable

import numpy as np

ARRAY_BYTES = 64 << 20  # beyond every cache
READINGS = 20000

Clock = Callable[[], float]


def copy_rate(seconds: float, clock: Clock = time.perf_counter) -> float:
    """Bytes/s copied by one core, the best of the rounds that fit."""
    source = np.ones(ARRAY_BYTES, np.uint8)
    target = np.zeros_like(source)
    best = 0.0
    start = now = clock()
    while not best or now - start < seconds:
        before = clock()
        np.copyto(target, source)
        now = clock()
        best = max(best, ARRAY_BYTES / max(now - before, 1e-9))
    return best


def clock_cost(readings: int = READINGS) -> float:
    """Seconds of one reading, the interpreter's share included (about 40 ns)."""
    start = time.perf_counter_ns()
    for _ in range(readings):
        time.monotonic_ns()
    return (time.perf_counter_ns() - start) / readings / 1e9
