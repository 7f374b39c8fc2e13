"""Cost of a process tree, read from /proc: CPU seconds and proportional memory."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PROCESS_CLOCK = 2  # clock_getcpuclockid(3): the scheduler's count of a whole process


@dataclass(frozen=True)
class Stat:
    """The fields of /proc/<pid>/stat that matter here; times in clock ticks."""

    pid: int
    parent: int
    own_ticks: int
    """utime + stime."""
    reaped_ticks: int
    """cutime + cstime: of children that ended and were waited for."""


def parse_stat(text: str) -> Stat:
    """Parses a stat line; the command name in parentheses may hold blanks and parentheses."""
    head, _, tail = text.rpartition(")")
    fields = tail.split()
    return Stat(
        pid=int(head.partition(" ")[0]),
        parent=int(fields[1]),
        own_ticks=int(fields[11]) + int(fields[12]),
        reaped_ticks=int(fields[13]) + int(fields[14]),
    )


def parse_pss_bytes(text: str) -> int:
    """The Pss line of a smaps_rollup file, in bytes. Raises ValueError when there is none."""
    for line in text.splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise ValueError("no Pss line")


def all_stats(proc: Path = PROC) -> dict[int, Stat]:
    """Every process by pid; those that end meanwhile are left out."""
    found = {}
    for entry in proc.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = parse_stat((entry / "stat").read_text())
        except (FileNotFoundError, ProcessLookupError):
            continue
        found[stat.pid] = stat
    return found


def tree_of(pid: int, stats: dict[int, Stat]) -> list[Stat]:
    """The process and all its descendants, parents first; empty when it does not run."""
    children: dict[int, list[Stat]] = {}
    for stat in stats.values():
        children.setdefault(stat.parent, []).append(stat)
    tree = [stats[pid]] if pid in stats else []
    for stat in tree:
        tree.extend(children.get(stat.pid, []))
    return tree


def cpu_seconds(pid: int, proc: Path = PROC) -> float:
    """User and system time that the tree has used so far, ended children included."""
    tree = tree_of(pid, all_stats(proc))
    seconds = sum((stat.own_ticks + stat.reaped_ticks) / TICKS_PER_SECOND for stat in tree)
    return seconds + (sum(map(finer, tree)) if proc == PROC else 0)


def process_seconds(pid: int) -> float:
    """CPU seconds of one process alone; 0 when it has ended."""
    try:
        return time.clock_gettime_ns(~pid << 3 | PROCESS_CLOCK) / 1e9
    except OSError:
        return 0.0


def finer(stat: Stat) -> float:
    """CPU seconds of the process's own clock beyond those of /proc, which counts 10 ms; 0 when it
    has ended."""
    seconds = process_seconds(stat.pid)
    return seconds - stat.own_ticks / TICKS_PER_SECOND if seconds else 0.0


def pss_bytes(pid: int, proc: Path = PROC) -> int:
    """Proportional set size of the tree: pages shared with others count by their share."""
    total = 0
    for stat in tree_of(pid, all_stats(proc)):
        try:
            total += parse_pss_bytes((proc / str(stat.pid) / "smaps_rollup").read_text())
        except (FileNotFoundError, ProcessLookupError):
            continue
    return total


def tree_pids(pid: int) -> list[int]:
    """Process ids of the tree, the root first."""
    return [stat.pid for stat in tree_of(pid, all_stats())]


def open_files(pid: int, proc: Path = PROC) -> int:
    """File descriptors that a process holds; 0 when it has ended."""
    try:
        return len(list((proc / str(pid) / "fd").iterdir()))
    except FileNotFoundError:
        return 0


def mappings(pid: int, proc: Path = PROC) -> int:
    """Memory mappings of a process; 0 when it has ended."""
    try:
        return (proc / str(pid) / "maps").read_bytes().count(b"\n")
    except (FileNotFoundError, ProcessLookupError):
        return 0
