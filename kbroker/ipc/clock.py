"""The clock for timestamps of records and files, and the clock that measures time."""

import time


def wall_clock_ms() -> int:
    """Milliseconds since 1970, UTC. It may go back, so durations are measured by monotonic_ms."""
    return time.time_ns() // 1_000_000


def monotonic_ms() -> int:
    """CLOCK_MONOTONIC in milliseconds: all processes have it in common, and it never goes back."""
    return time.monotonic_ns() // 1_000_000
