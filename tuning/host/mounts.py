"""The file systems behind log.dirs, from mountinfo (proc(5))."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from tuning.host.roots import Roots

UNKNOWN = "unknown"
"""Kind of a file system that is not listed."""


@dataclass(frozen=True, slots=True)
class Mount:
    """One file system that holds log dirs. point: where the first of them finds it mounted. device:
    `major:minor`, as sysfs names it. options: of all its mounts with log dirs. bytes and inodes: of
    statvfs; inodes are 0 where the file system counts none."""

    point: str
    kind: str
    device: str
    options: frozenset[str] = frozenset()
    dirs: tuple[str, ...] = ()
    total_bytes: int = 0
    free_bytes: int = 0
    free_inodes: int = 0
    total_inodes: int = 0

    @property
    def free_share(self) -> float:
        return self.free_bytes / self.total_bytes if self.total_bytes else 1.0


@dataclass(slots=True)
class _Line:
    point: str
    device: str
    kind: str
    options: set[str] = field(default_factory=set)


def mounts_of(roots: Roots, dirs: tuple[str, ...]) -> tuple[Mount, ...]:
    """The file systems that hold these folders, in order of first appearance; a folder need not
    exist yet. One that is mounted at several points, as for the volumes of a container, is one: its
    space is there once."""
    lines = _lines(roots.proc / "self" / "mountinfo")
    held: dict[str, tuple[_Line, list[str]]] = {}
    for name in dirs:
        line = _holding(lines, os.path.realpath(name)) or (_unlisted(name) if lines else None)
        if line is not None:
            first, names = held.setdefault(line.device, (line, []))
            first.options |= line.options
            names.append(name)
    return tuple(_mount(line, tuple(names)) for line, names in held.values())


def _lines(path: Path) -> list[_Line]:
    try:
        rows = path.read_text().splitlines()
    except OSError:
        return []
    lines = []
    for row in rows:
        before, _, after = row.partition(" - ")
        head, tail = before.split(), after.split()
        if len(head) >= 6 and len(tail) >= 3:
            options = {*head[5].split(","), *tail[2].split(",")}
            lines.append(_Line(_unescaped(head[4]), head[2], tail[0], options))
    return lines


def _unescaped(point: str) -> str:
    return point.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")


def _holding(lines: list[_Line], path: str) -> _Line | None:
    """The longest mount point above the path; of equal ones the last, which covers the others."""
    found: _Line | None = None
    for line in lines:
        inside = line.point == "/" or path == line.point or path.startswith(line.point + "/")
        if inside and (found is None or len(line.point) >= len(found.point)):
            found = line
    return found


def _unlisted(name: str) -> _Line | None:
    """The mount of a folder above which none is listed, as in a chroot, whose root has none."""
    try:
        device = Path(_existing(name)).stat().st_dev
    except OSError:
        return None
    return _Line("/", f"{os.major(device)}:{os.minor(device)}", UNKNOWN)


def _mount(line: _Line, dirs: tuple[str, ...]) -> Mount:
    try:
        seen = os.statvfs(_existing(dirs[0]))
    except OSError:
        return Mount(line.point, line.kind, line.device, frozenset(line.options), dirs)
    return Mount(
        line.point,
        line.kind,
        line.device,
        frozenset(line.options),
        dirs,
        seen.f_blocks * seen.f_frsize,
        seen.f_bavail * seen.f_frsize,
        seen.f_favail,
        seen.f_files,
    )


def _existing(name: str) -> str:
    """The folder, or the nearest one above it that exists."""
    path = Path(os.path.realpath(name))
    return str(next((each for each in (path, *path.parents) if each.exists()), path))
