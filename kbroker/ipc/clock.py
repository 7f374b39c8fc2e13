"""The clock for timestamps of records and files, and the clock that measures time."""

import os
import time
from pathlib import Path


def wall_clock_ms() -> int:
    """Milliseconds since 1970, UTC. It may go back, so durations are measured by monotonic_ms."""
    return time.time_ns() // 1_000_000


def monotonic_ms() -> int:
    """CLOCK_MONOTONIC in milliseconds: all processes have it in common, and it never goes back."""
    return time.monotonic_ns() // 1_000_000


def process_age_s() -> float:
    """Seconds since this process began, in steps of 10 ms: proc_pid_stat(5), field 22."""
    began = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(began) / os.sysconf("SC_CLK_TCK")
