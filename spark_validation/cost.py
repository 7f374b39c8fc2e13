"""Cost of a judgement: CPU and memory of this process, the JVM and Spark's Python workers."""

from dataclasses import dataclass
from pathlib import Path

import psutil


@dataclass(frozen=True, slots=True)
class Cost:
    """user and system seconds of a process tree; peak: sum of each living process's highest
    resident memory, bytes."""

    user: float
    system: float
    peak: int

    def __str__(self) -> str:
        return f"{self.user:.0f} s user + {self.system:.0f} s system CPU, at most {self.peak / 2**30:.1f} GiB resident"


def cost(pid: int) -> Cost:
    """Cost of a process and its descendants so far; ended workers count for CPU, not for memory."""
    parent = psutil.Process(pid)
    user = system = 0.0
    peak = 0
    for process in (parent, *parent.children(recursive=True)):
        try:
            times = process.cpu_times()
            peak += highest_resident(process.pid)
        except (psutil.NoSuchProcess, OSError):
            continue
        user += times.user + times.children_user
        system += times.system + times.children_system
    return Cost(user, system, peak)


def highest_resident(pid: int) -> int:
    """VmHWM of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0
