"""The clock that records and files are stamped with, and the one that measures time."""

import time


def wall_clock_ms() -> int:
    """Milliseconds since 1970, UTC. It may go back: what measures time takes monotonic_ms."""
    return time.time_ns() // 1_000_000


def monotonic_ms() -> int:
    """CLOCK_MONOTONIC in milliseconds: all processes have it in common, and it never goes back."""
    return time.monotonic_ns() // 1_000_000
