"""Network interfaces that clients may come by, and what the kernel counted of lost packets and
connections."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tuning.host.offloads import offloads_of
from tuning.host.roots import Roots, number, text

MEGABIT = 1e6 / 8
UNKNOWN_SPEED = 65535  # -1 of drivers that report 16 bits


@dataclass(frozen=True, slots=True)
class Interface:
    """An interface that is up. speed: bytes/s, None where the driver knows none (virtual ones).
    queues: for receiving. spread: whether receive packet steering has cores. interrupt_cores: that
    serve each of its interrupts; none where they cannot be seen."""

    name: str
    speed: float | None = None
    mtu: int | None = None
    queues: int = 1
    spread: bool = False
    offloads: Mapping[str, bool] = field(default_factory=dict)
    interrupt_cores: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Network:
    """dropped: packets since boot for which a core's backlog had no room. overflows: connections
    since boot for which a listen queue had none. tracked, most_tracked: connections of conntrack,
    None without it."""

    interfaces: tuple[Interface, ...] = ()
    dropped: int | None = None
    overflows: int | None = None
    tracked: int | None = None
    most_tracked: int | None = None

    @property
    def speed(self) -> float | None:
        """Bytes/s of the fastest interface."""
        return max((each.speed for each in self.interfaces if each.speed), default=None)


Ask = Callable[[str], Mapping[str, bool]]


def network_of(roots: Roots, ask: Ask = offloads_of) -> Network:
    """Everything that can be read."""
    folder = roots.sys / "class" / "net"
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    up = [name for name in names if name != "lo" and text(folder / name / "operstate") == "up"]
    tracked = roots.proc / "sys" / "net" / "netfilter"
    return Network(
        tuple(_interface(roots, folder / name, ask) for name in up),
        _dropped(roots.proc / "net" / "softnet_stat"),
        _overflows(roots.proc / "net" / "netstat"),
        number(tracked / "nf_conntrack_count"),
        number(tracked / "nf_conntrack_max"),
    )


def _interface(roots: Roots, folder: Path, ask: Ask) -> Interface:
    megabits = None if _is_made_up(roots, folder) else number(folder / "speed")
    queues = sorted((folder / "queues").glob("rx-*"))
    masks = [text(queue / "rps_cpus") or "0" for queue in queues]
    return Interface(
        folder.name,
        megabits * MEGABIT if megabits and megabits > 0 and megabits != UNKNOWN_SPEED else None,
        number(folder / "mtu"),
        max(1, len(queues)),
        any(mask.strip("0,") for mask in masks),
        ask(folder.name),
        _interrupt_cores(roots, folder),
    )


def _is_made_up(roots: Roots, folder: Path) -> bool:
    """Whether the speed is that of no link: each pair of a container's reports 10 Gbit/s. A bond's
    is the sum of its links."""
    virtual = folder.resolve().is_relative_to((roots.sys / "devices/virtual").resolve())
    return virtual and not (folder / "bonding").exists()


def _interrupt_cores(roots: Roots, folder: Path) -> tuple[str, ...]:
    """Cores that serve a device's message-signalled interrupts. Those of virtio belong to its
    parent device."""
    for device in (folder / "device", folder / "device" / ".."):
        numbers = sorted((device / "msi_irqs").glob("*"))
        found = [text(roots.proc / "irq" / each.name / "effective_affinity_list") for each in numbers]
        if found:
            return tuple(each for each in found if each)
    return ()


def _dropped(path: Path) -> int | None:
    """Second column of softnet_stat, hexadecimal, one row a core."""
    try:
        return sum(int(line.split()[1], 16) for line in path.read_text().splitlines())
    except (OSError, ValueError, IndexError):
        return None


def _overflows(path: Path) -> int | None:
    """TcpExt ListenOverflows of /proc/net/netstat: a line of names, then one of values."""
    try:
        rows = [line.split() for line in path.read_text().splitlines() if line.startswith("TcpExt:")]
        return int(dict(zip(*rows[:2], strict=False))["ListenOverflows"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
