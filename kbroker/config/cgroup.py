"""The control group of this process: its path, and its limit of CPU time. psutil reads neither."""

from pathlib import Path

PROC, SYS = Path("/proc"), Path("/sys")


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
