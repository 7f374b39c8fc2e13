"""The clock that records and files are stamped with."""

import time


def wall_clock_ms() -> int:
    """Milliseconds since 1970, UTC. It may go back: what measures time takes time.monotonic_ns."""
    return time.time_ns() // 1_000_000
