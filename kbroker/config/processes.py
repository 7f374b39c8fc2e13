"""How many processes a host gets when the settings do not say (Kafka's 3 and 8 are threads)."""

import os

_MOST = 8


def cores() -> int:
    """Cores this process may run on."""
    return len(os.sched_getaffinity(0))


def network_processes() -> int:
    """Default of num.network.threads: half of the cores; parsing and sending is most of the work."""
    return max(1, min(_MOST, cores() // 2))


def io_workers() -> int:
    """Default of num.io.threads: a quarter of the cores; one worker appends for several network processes."""
    return max(1, min(_MOST, cores() // 4))
