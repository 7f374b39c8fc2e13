"""Block devices behind mounts, from sysfs: a partition's disk, the disks below a mapped or striped
device."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tuning.host.mounts import Mount
from tuning.host.roots import Roots, chosen, number, text


@dataclass(frozen=True, slots=True)
class Disk:
    """One block device and its queue. name: as in /sys/block. queue: its folder, relative to /sys.

    discards: it wants to know of freed blocks.

    None: not there (a device without such a queue, or a container that hides it). virtual: a VM's
    disk, whose
    `rotational` says nothing about what is below it.
    """

    name: str
    queue: str
    scheduler: str | None = None
    schedulers: tuple[str, ...] = ()
    read_ahead_kb: int | None = None
    nr_requests: int | None = None
    rotational: bool | None = None
    write_cache: str | None = None
    wbt_lat_usec: int | None = None
    nomerges: int | None = None
    discards: bool = False

    @property
    def virtual(self) -> bool:
        return self.name.startswith(("vd", "xvd"))

    @property
    def kind(self) -> str:
        """nvme, virtual, ssd or hdd."""
        if self.name.startswith("nvme"):
            return "nvme"
        if self.virtual:
            return "virtual"
        return "hdd" if self.rotational else "ssd"


def disks_of(roots: Roots, mounts: Iterable[Mount]) -> tuple[Disk, ...]:
    """The disks that hold these mounts, each once; none for file systems without a device."""
    names: dict[str, None] = {}
    for mount in mounts:
        for name in disk_names(roots, mount.device):
            names.setdefault(name)
    return tuple(_disk(roots, name) for name in names)


def disk_names(roots: Roots, device: str) -> tuple[str, ...]:
    """Names of the disks at the bottom of a device `major:minor`."""
    folder = roots.sys / "dev" / "block" / device
    if not folder.exists():
        return ()
    folder = Path(os.path.realpath(folder))
    if (folder / "partition").exists():
        folder = folder.parent
    below = sorted((folder / "slaves").iterdir()) if (folder / "slaves").is_dir() else []
    names: dict[str, None] = {}
    for slave in below:
        at = text(slave / "dev")
        for name in disk_names(roots, at) if at else ():
            names.setdefault(name)
    return tuple(names) or (folder.name,)


def _disk(roots: Roots, name: str) -> Disk:
    folder = roots.sys / "block" / name / "queue"
    schedulers = text(folder / "scheduler")
    rotational = number(folder / "rotational")
    return Disk(
        name,
        f"block/{name}/queue",
        chosen(schedulers),
        tuple((schedulers or "").replace("[", "").replace("]", "").split()),
        number(folder / "read_ahead_kb"),
        number(folder / "nr_requests"),
        None if rotational is None else bool(rotational),
        text(folder / "write_cache"),
        number(folder / "wbt_lat_usec"),
        number(folder / "nomerges"),
        bool(number(folder / "discard_max_bytes")),
    )
