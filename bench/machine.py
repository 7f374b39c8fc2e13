"""Describes the machine and the versions for the report."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tests.peer.java import find_java
from tuning.host.reclaim import reclaim_of
from tuning.host.roots import Roots


def describe(folder: Path) -> dict[str, str]:
    """Processor, memory, disk under `folder`, kernel, versions of what runs."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "memory": f"{_memory_gib():.0f} GiB{_reclaim(Roots())}",
        "disk": _disk(folder),
        "kernel": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
        "Java": _java(),
        "packages": ", ".join(
            f"{name} {_version(name)}" for name in ("kbroker", "numba", "uvloop", "confluent-kafka")
        ),
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _memory_gib() -> float:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / (1 << 30)


def _reclaim(roots: Roots) -> str:
    """Whether the host reclaims page cache despite free memory, which makes cached logs cold."""
    if (scheme := reclaim_of(roots).first) is None:
        return ""
    return f"; proactive reclaim (DAMON) of pages untouched for {scheme.after_s:.0f} s"


def _disk(folder: Path) -> str:
    """File system and size of the disk that holds a folder, or its nearest existing parent."""
    there = next(each for each in (folder, *folder.parents) if each.exists())
    shown = subprocess.run(["df", "--output=fstype,size", "-h", str(there)], capture_output=True, text=True)
    return " ".join(shown.stdout.splitlines()[-1].split()) if shown.returncode == 0 else "unknown"


def _java() -> str:
    java = find_java()
    if java is None:
        return "none"
    output = subprocess.run([java, "-version"], capture_output=True, text=True).stderr
    return output.splitlines()[0] if output else "unknown"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(not installed)"
