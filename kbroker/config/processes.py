"""Default number of processes of a host (Kafka's defaults 3 and 8 are threads)."""

import math
import os
from functools import cache

from kbroker.config.cgroup import cpu_quota

MAX_NETWORK_PROCESSES = 63
"""Each has a bit in a word of every partition's slot (`Slot.WAITERS`), and control has one."""
_MAX_DEFAULT = 8


def cores() -> int:
    """Cores this process may run on, and no more than its cgroup's quota of their time, rounded up
    as Java does."""
    allowed = len(os.sched_getaffinity(0))
    quota = _quota()
    return allowed if quota is None else max(1, min(allowed, math.ceil(quota)))


def network_processes() -> int:
    """Default of num.network.threads."""
    return default_counts(cores())[0]


def io_workers() -> int:
    """Default of num.io.threads."""
    return default_counts(cores())[1]


def default_counts(available: int) -> tuple[int, int]:
    """Network processes and IO workers for so many cores: half of them, since parsing and sending
    is most of the work; and a quarter, since one worker appends for several network processes."""
    return max(1, min(_MAX_DEFAULT, available // 2)), max(1, min(_MAX_DEFAULT, available // 4))


@cache
def _quota() -> float | None:
    """The quota at the first call: a default does not change while the broker runs."""
    return cpu_quota()
