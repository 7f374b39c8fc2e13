"""A host made of files, and situations around it."""

from dataclasses import replace
from pathlib import Path

from kbroker.config.broker import BrokerConfig
from tuning.host.disks import Disk
from tuning.host.host import Host
from tuning.host.memory import Memory
from tuning.host.mounts import Mount
from tuning.host.processors import Processors
from tuning.host.roots import Roots
from tuning.situation import Situation
from tuning.workload import Workload

GiB = 1 << 30

SYSCTLS = {
    "vm.swappiness": "60",
    "vm.dirty_bytes": "0",
    "vm.dirty_ratio": "20",
    "vm.max_map_count": "65530",
    "vm.overcommit_memory": "0",
    "vm.zone_reclaim_mode": "0",
    "vm.nr_hugepages": "0",
    "net.core.rmem_max": "4194304",
    "net.core.wmem_max": "4194304",
    "net.core.somaxconn": "4096",
    "net.core.netdev_max_backlog": "1000",
    "net.ipv4.tcp_rmem": "4096\t131072\t6291456",
    "net.ipv4.tcp_wmem": "4096\t16384\t4194304",
    "net.ipv4.tcp_max_syn_backlog": "4096",
    "net.ipv4.tcp_slow_start_after_idle": "0",
    "net.ipv4.tcp_available_congestion_control": "reno cubic",
    "fs.file-max": "9223372036854775807",
    "fs.nr_open": "1048576",
}


class FakeRoots:
    """Writes files below a folder that stands for / with its proc and sys."""

    def __init__(self, folder: Path, **sysctls: str) -> None:
        self.roots = Roots(folder / "proc", folder / "sys")
        for name, value in {
            **SYSCTLS,
            **{key.replace("__", "."): text for key, text in sysctls.items()},
        }.items():
            self.proc("sys/" + name.replace(".", "/"), value + "\n")

    def proc(self, name: str, text: str) -> "FakeRoots":
        """A file below /proc."""
        return self._write(self.roots.proc / name, text)

    def sys(self, name: str, text: str) -> "FakeRoots":
        """A file below /sys."""
        return self._write(self.roots.sys / name, text)

    def _write(self, path: Path, text: str) -> "FakeRoots":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return self


DISK = Disk(
    "nvme0n1",
    "block/nvme0n1/queue",
    "none",
    ("none", "mq-deadline", "bfq"),
    128,
    1023,
    False,
    "write through",
    0,
)
MOUNT = Mount(
    "/data",
    "xfs",
    "259:1",
    frozenset({"rw", "noatime"}),
    ("/data/logs",),
    1000 * GiB,
    900 * GiB,
    10**8,
    10**8,
)


def situation(folder: Path, **sysctls: str) -> Situation:
    """A well set up host without a running broker; change it with `replace` and `on`."""
    fake = FakeRoots(folder, **sysctls)
    host = Host(
        fake.roots,
        MOUNT.dirs,
        (MOUNT,),
        (DISK,),
        Memory(64 * GiB, 60 * GiB, 0, None, 0, None, "madvise"),
        Processors(16, None, "performance", "tsc", 1),
        files_limit=1 << 20,
    )
    config = BrokerConfig({"log.dirs": "/data/logs", "num.network.threads": "4", "num.io.threads": "4"})
    return Situation(host, Workload(write_rate=5e6, retention_s=86400.0, rtt_ms=0.05), config)


def on(base: Situation, **facts: object) -> Situation:
    """The same on a host with other facts."""
    return replace(base, host=replace(base.host, **facts))  # type: ignore[arg-type]


def carrying(base: Situation, **load: object) -> Situation:
    """The same with another workload, whose fields are known."""
    workload = replace(base.workload, **load)  # type: ignore[arg-type]
    return replace(base, workload=workload, assumed=base.assumed - load.keys())
