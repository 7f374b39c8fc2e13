"""Cores, their governor, the clock, NUMA nodes and the share a cgroup leaves."""

import os
from dataclasses import dataclass
from pathlib import Path

from kbroker.config.processes import cpu_quota
from tuning.host.roots import Roots, text


@dataclass(frozen=True, slots=True)
class Processors:
    """cores: that processes may run on. quota_cores: of the cgroup, None without one. governor:
    None where sysfs has none (most VMs). nodes: of NUMA that have memory. clocksources: those that
    the kernel offers, empty if it does not say."""

    cores: int = 1
    quota_cores: float | None = None
    governor: str | None = None
    clocksource: str | None = None
    nodes: int = 1
    clocksources: tuple[str, ...] = ()

    @property
    def usable_cores(self) -> float:
        return min(self.cores, self.quota_cores) if self.quota_cores else self.cores


def processors_of(roots: Roots, cores: int | None = None) -> Processors:
    """Everything that can be read; `cores`: those of this process' affinity."""
    devices = roots.sys / "devices" / "system"
    governors = {text(path) for path in devices.glob("cpu/cpu[0-9]*/cpufreq/scaling_governor")} - {None}
    nodes = sum(_has_memory(node) for node in devices.glob("node/node[0-9]*"))
    clock = devices / "clocksource/clocksource0"
    return Processors(
        cores or len(os.sched_getaffinity(0)),
        cpu_quota(roots.proc, roots.sys),
        ",".join(sorted(str(each) for each in governors)) or None,
        text(clock / "current_clocksource"),
        max(1, nodes),
        tuple((text(clock / "available_clocksource") or "").split()),
    )


def _has_memory(node: Path) -> bool:
    """Some virtual machines have nodes of cores only."""
    return "MemTotal: 0 kB" not in (text(node / "meminfo") or "")
