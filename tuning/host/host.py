"""All facts of the host in one value."""

import os
import resource
from dataclasses import dataclass, field

from tuning.host.disks import Disk, disks_of
from tuning.host.features import Features, features_of
from tuning.host.log_files import held_bytes
from tuning.host.memory import Memory, memory_of
from tuning.host.mounts import Mount, mounts_of
from tuning.host.network import Network, network_of
from tuning.host.processors import Processors, processors_of
from tuning.host.reclaim import Reclaim, reclaim_of
from tuning.host.roots import Roots, as_number
from tuning.host.upkeep import Upkeep, unwritable_of, upkeep_of


@dataclass(frozen=True, slots=True)
class Host:
    """The facts that knobs read. log_dirs: those of the broker, absolute. files_limit: hard limit
    of descriptors of a process started here, or of the running broker. held_bytes: what the logs
    take on their disks. unwritable: log dirs that this user cannot write to or create."""

    roots: Roots = field(default_factory=Roots)
    log_dirs: tuple[str, ...] = ()
    mounts: tuple[Mount, ...] = ()
    disks: tuple[Disk, ...] = ()
    memory: Memory = field(default_factory=Memory)
    processors: Processors = field(default_factory=Processors)
    network: Network = field(default_factory=Network)
    features: Features = field(default_factory=Features)
    files_limit: int | None = None
    held_bytes: int = 0
    upkeep: Upkeep = field(default_factory=Upkeep)
    unwritable: tuple[str, ...] = ()
    reclaim: Reclaim = field(default_factory=Reclaim)

    def sysctl(self, name: str) -> str | None:
        """Value by dotted name; None where it cannot be read."""
        return self.roots.sysctl(name)

    def sysctl_number(self, name: str) -> int | None:
        """A sysctl's number; None if it is missing or no number."""
        return as_number(self.sysctl(name))


def read_host(log_dirs: tuple[str, ...], roots: Roots | None = None, files_limit: int | None = None) -> Host:
    """Everything that can be seen from here."""
    roots = roots or Roots()
    mounts = mounts_of(roots, log_dirs)
    held = next((mount.point for mount in mounts), None)
    return Host(
        roots,
        log_dirs,
        mounts,
        disks_of(roots, mounts),
        memory_of(roots),
        processors_of(roots),
        network_of(roots),
        features_of(roots, _writable(log_dirs, held)),
        files_limit if files_limit is not None else resource.getrlimit(resource.RLIMIT_NOFILE)[1],
        held_bytes(log_dirs),
        upkeep_of(roots),
        unwritable_of(log_dirs),
        reclaim_of(roots),
    )


def _writable(log_dirs: tuple[str, ...], mount: str | None) -> str | None:
    """A folder on the log dirs' file system to try calls in."""
    return next((each for each in (*log_dirs, mount or "") if each and os.access(each, os.W_OK)), None)
