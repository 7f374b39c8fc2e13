"""Memory of the host, and the limit of the cgroup."""

import re
from dataclasses import dataclass

from kbroker.config.processes import cgroup_path
from tuning.host.roots import Roots, chosen, number, text

_LINE = re.compile(r"^([\w()]+):\s+(\d+)( kB)?$", re.MULTILINE)
_UNLIMITED = 1 << 60  # cgroup v1 writes the largest multiple of a page


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of /proc/meminfo. limit_bytes: of the cgroup, None without one. huge: reserved huge
    pages.

    transparent: the mode of transparent huge pages.
    """

    total_bytes: int | None = None
    available_bytes: int | None = None
    swap_bytes: int = 0
    commit_left_bytes: int | None = None
    huge_bytes: int = 0
    limit_bytes: int | None = None
    transparent: str | None = None

    @property
    def usable_bytes(self) -> int | None:
        """Memory that processes and page cache may use together."""
        given = [each for each in (self.total_bytes, self.limit_bytes) if each]
        return min(given) if given else None


def memory_of(roots: Roots) -> Memory:
    """Everything that can be read."""
    try:
        seen = (roots.proc / "meminfo").read_text()
    except OSError:
        return Memory(limit_bytes=_limit(roots))
    sizes = {name: int(size) * (1024 if unit else 1) for name, size, unit in _LINE.findall(seen)}
    commit = None
    if {"CommitLimit", "Committed_AS"} <= sizes.keys():
        commit = sizes["CommitLimit"] - sizes["Committed_AS"]
    return Memory(
        sizes.get("MemTotal"),
        sizes.get("MemAvailable"),
        sizes.get("SwapTotal", 0),
        commit,
        sizes.get("HugePages_Total", 0) * sizes.get("Hugepagesize", 0),
        _limit(roots),
        chosen(text(roots.sys / "kernel/mm/transparent_hugepage/enabled")),
    )


def _limit(roots: Roots) -> int | None:
    """The smallest limit from the cgroup up to the root; version 2 first. In a container the path
    of the host may not exist, and its own limit is at the top."""
    found = []
    for controller, folder, name in (("", "", "memory.max"), ("memory", "memory", "memory.limit_in_bytes")):
        path = cgroup_path(controller, roots.proc)
        parts = path.split("/") if path else []
        for depth in range(len(parts) + 1):
            place = roots.sys.joinpath("fs/cgroup", folder, *parts[:depth], name)
            if (limit := number(place)) is not None and limit < _UNLIMITED:
                found.append(limit)
    return min(found, default=None)
