"""Default number of processes of a host (Kafka's defaults 3 and 8 are threads), and the control
group of this process, which psutil does not read: its path and its limit of CPU time."""

import math
import os
from functools import cache
from pathlib import Path

MAX_NETWORK_PROCESSES = 63
"""Maximum: each network process has a bit in a word of every partition's slot (`Slot.WAITERS`), and
control has one."""
MAX_IO_WORKERS = 128
"""Maximum: each IO worker has two rings for each network process. A host has no use for more, and
would run out of memory or descriptors at an unknown number."""
MAX_THREADS = 256
"""Recovery threads of a log dir, and cleaner threads: each has a stack and counts against the
host's limit of tasks, and beyond some number that no line names none can be started."""
_MAX_DEFAULT = 8
PROC, SYS = Path("/proc"), Path("/sys")


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
    """Network processes and IO workers by the number of cores: half of it, since parsing and
    sending is most of the work; and a quarter, since one worker appends for several network
    processes."""
    return max(1, min(_MAX_DEFAULT, available // 2)), max(1, min(_MAX_DEFAULT, available // 4))


def cores_to_poll(networks: int, workers: int) -> int:
    """Cores that a host needs so that these processes may poll (kbroker.busy.poll.*): one for each,
    one for the kernel and the clients, and one for the other processes of the broker."""
    return networks + workers + 2


@cache
def _quota() -> float | None:
    """The quota at the first call: a default does not change while the broker runs."""
    return cpu_quota()


def cgroup_path(controller: str, proc: Path = PROC) -> str | None:
    """The cgroup of this process in the hierarchy of a controller ("" is version 2), relative to
    its mount."""
    try:
        lines = (proc / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if (controller in controllers.split(",")) if controller else not controllers:
            return path.lstrip("/")
    return None


def cpu_quota(proc: Path = PROC, sys: Path = SYS) -> float | None:
    """Cores by cpu.max (version 2) or cpu.cfs_quota_us (version 1): the smallest up to the root.
    None: no quota.

    In a container the path of the host may not exist, and its own quota is at the top."""
    found = []
    for folder in _folders(sys / "fs/cgroup", cgroup_path("", proc)):
        found.append(_share(_words(folder / "cpu.max")))
    for folder in _folders(sys / "fs/cgroup/cpu", cgroup_path("cpu", proc)):
        found.append(_share(_words(folder / "cpu.cfs_quota_us") + _words(folder / "cpu.cfs_period_us")))
    return min((share for share in found if share is not None), default=None)


def _folders(top: Path, path: str | None) -> list[Path]:
    parts = path.split("/") if path else []
    return [top.joinpath(*parts[:depth]) for depth in range(len(parts) + 1)]


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []


def _share(words: list[str]) -> float | None:
    """Quota by period; "max" and -1 are none."""
    if len(words) != 2 or not all(word.isdigit() and int(word) for word in words):
        return None
    return int(words[0]) / int(words[1])
