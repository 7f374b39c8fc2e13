"""Cores, their governor, the clock, NUMA nodes and the share a cgroup leaves."""

import os
from dataclasses import dataclass

from tuning.host.memory import cgroup_path
from tuning.host.roots import Roots, number, text


@dataclass(frozen=True, slots=True)
class Processors:
    """cores: that processes may run on. quota_cores: of the cgroup, None without one. governor: None where sysfs
    has none (most VMs). nodes: of NUMA that have memory."""

    cores: int = 1
    quota_cores: float | None = None
    governor: str | None = None
    clocksource: str | None = None
    nodes: int = 1

    @property
    def usable_cores(self) -> float:
        return min(self.cores, self.quota_cores) if self.quota_cores else self.cores


def processors_of(roots: Roots, cores: int | None = None) -> Processors:
    """Everything that can be read; `cores` stands for those of this process' affinity."""
    devices = roots.sys / "devices" / "system"
    governors = {text(path) for path in devices.glob("cpu/cpu[0-9]*/cpufreq/scaling_governor")} - {None}
    nodes = len(list(devices.glob("node/node[0-9]*")))
    return Processors(
        cores or len(os.sched_getaffinity(0)),
        _quota(roots),
        ",".join(sorted(str(each) for each in governors)) or None,
        text(devices / "clocksource/clocksource0/current_clocksource"),
        max(1, nodes),
    )


def _quota(roots: Roots) -> float | None:
    """Cores by cpu.max (version 2) or cpu.cfs_quota_us (version 1): the smallest up to the root."""
    found = []
    path = cgroup_path(roots, "")
    parts = path.split("/") if path else []
    for depth in range(len(parts) + 1):
        words = (text(roots.sys.joinpath("fs/cgroup", *parts[:depth], "cpu.max")) or "").split()
        if len(words) == 2 and words[0].isdigit() and int(words[1]) > 0:
            found.append(int(words[0]) / int(words[1]))
    path = cgroup_path(roots, "cpu")
    parts = path.split("/") if path else []
    for depth in range(len(parts) + 1):
        folder = roots.sys.joinpath("fs/cgroup/cpu", *parts[:depth])
        quota, period = number(folder / "cpu.cfs_quota_us"), number(folder / "cpu.cfs_period_us")
        if quota and period and quota > 0:
            found.append(quota / period)
    return min(found, default=None)
