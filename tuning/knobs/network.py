"""Knobs of sockets and network interfaces."""

from collections.abc import Sequence

from tuning.finding import Severity
from tuning.host.network import Interface
from tuning.knobs.knob import FINE, Assessment, Knob, by_hand, sysctl, whole_host
from tuning.quantity import show_bytes, show_rate
from tuning.situation import Situation

STORM = 1000  # connections from which on a restart of all clients is one
SYN_BACKLOG = 4096
FAST = 10e9 / 8  # bytes/s
BACKLOG = 16384
FULL = 0.8
IP = "Linux, Documentation/networking/ip-sysctl.rst"
CORE = "Linux, Documentation/admin-guide/sysctl/net.rst"
LOCAL = "ADR 0010 (bare loops, 2 cores, Linux 6.18)"


def interfaces(situation: Situation) -> Sequence[tuple[str, Interface]]:
    """Interfaces that are up, by name."""
    return [(interface.name, interface) for interface in situation.host.network.interfaces]


def _local_buffer(situation: Situation, now: str) -> tuple[Severity, str, str]:
    expected = situation.config.get_int("kbroker.local.socket.buffer.bytes")
    if int(now) >= expected:
        return Severity.OK, "", ""
    because = f"kbroker.local.socket.buffer.bytes is {expected}, above this limit."
    return Severity.ADVICE, str(expected), because


def window_needed(situation: Situation) -> int:
    """Bytes in flight to one remote client at the interface's speed (10 Gbit/s if it reports
    none)."""
    speed = situation.host.network.speed or FAST
    return int(2 * speed * situation.workload.rtt_ms / 1000)


def _tcp_window(situation: Situation, now: str) -> tuple[Severity, str, str]:
    needed = window_needed(situation)
    least, middle, most = now.split()
    known = situation.workload.remote_clients and situation.knows("rtt_ms")
    if not known or int(most) >= needed:
        return Severity.OK, "", ""
    because = f"{show_bytes(needed)} are twice the bytes in flight at {situation.workload.rtt_ms:g} ms and full speed."
    return Severity.ADVICE, f"{least} {middle} {needed}", because


def _syn_backlog(situation: Situation, now: str) -> tuple[Severity, str, str]:
    if situation.workload.connections < STORM or int(now) >= min(SYN_BACKLOG, situation.workload.connections):
        return Severity.OK, "", ""
    return (
        Severity.ADVICE,
        str(SYN_BACKLOG),
        f"{situation.workload.connections} clients may connect at once.",
    )


def _accept_queue(situation: Situation, now: str) -> tuple[Severity, str, str]:
    if situation.workload.connections < STORM or int(now) >= min(SYN_BACKLOG, situation.workload.connections):
        return Severity.OK, "", ""
    because = "It caps socket.listen.backlog.size."
    return Severity.ADVICE, str(SYN_BACKLOG), because


def _after_idle(situation: Situation, now: str) -> tuple[Severity, str, str]:
    if now == "0" or not situation.workload.remote_clients:
        return Severity.OK, "", ""
    return Severity.ADVICE, "0", ""


def _dropped(situation: Situation, _: None, now: str) -> Assessment:
    backlog = situation.host.sysctl_number("net.core.netdev_max_backlog") or 0
    if now == "0" or backlog >= BACKLOG:
        return FINE
    because = (
        f"net.core.netdev_max_backlog is {backlog}; check that the number still grows before you change it."
    )
    return Assessment(
        Severity.NOTE,
        f"net.core.netdev_max_backlog={BACKLOG}",
        because,
        by_hand("raise it if the number grows"),
    )


def _overflows(situation: Situation, _: None, now: str) -> Assessment:
    if now == "0":
        return FINE
    key = "socket.listen.backlog.size"
    size = situation.config.static.get(key, "net.core.somaxconn, as it is not set")
    because = f"Counted for the whole host since boot, perhaps not kbroker; {key} is {size}."
    return Assessment(
        Severity.NOTE,
        "",
        because,
        by_hand("watch kbroker_tcp_listen_drops_total; raise the backlog if it grows"),
    )


def _tracked(situation: Situation, _: None, now: str) -> Assessment:
    most = situation.host.network.most_tracked or 0
    expected = int(now) + situation.workload.connections
    if expected < most * FULL:
        return FINE
    remedy = by_hand("raise net.netfilter.nf_conntrack_max, or leave the broker's port untracked")
    return Assessment(
        Severity.SERIOUS, "", f"At most {most} are tracked; further connections are dropped.", remedy
    )


def _speed(situation: Situation, interface: Interface, _: str) -> Assessment:
    out = situation.workload.read_rate if situation.workload.remote_clients else 0.0
    busiest = max(out, situation.workload.write_rate)
    known = situation.knows("write_rate", "groups")
    if not known or interface.speed is None or busiest <= interface.speed * 0.7:
        return FINE
    because = (
        f"The workload needs {show_rate(busiest)} in one direction; above 70 % of the speed latency grows."
    )
    return Assessment(
        Severity.SERIOUS, "", because, by_hand("a faster interface, compression, or fewer groups")
    )


def _read_speed(_: Situation, interface: Interface) -> str | None:
    return show_rate(interface.speed) if interface.speed else None


def _offloads(_: Situation, interface: Interface, __: str) -> Assessment:
    off = sorted(name for name, on in interface.offloads.items() if not on)
    if not off:
        return FINE
    remedy = by_hand("ethtool -K " + interface.name + "".join(f" {name} on" for name in off))
    return Assessment(Severity.ADVICE, "on: " + ", ".join(off), "", remedy)


def _read_offloads(_: Situation, interface: Interface) -> str | None:
    on = [name for name, on in interface.offloads.items() if on]
    return (", ".join(on) or "none") if interface.offloads else None


def _queues(situation: Situation, interface: Interface, _: str) -> Assessment:
    cores = situation.host.processors.cores
    fast = interface.speed is not None and interface.speed >= FAST
    if not fast or interface.spread or interface.queues * 2 >= cores:
        return FINE
    remedy = by_hand(f"ethtool -L {interface.name} combined {cores}, or a mask of cores in its rps_cpus")
    return Assessment(
        Severity.ADVICE, "more queues", f"{interface.queues} queues feed {cores} cores.", remedy
    )


def _steering(situation: Situation, interface: Interface, _: str) -> Assessment:
    cores = situation.host.processors.cores
    if not interface.spread or interface.queues < cores:
        return FINE
    because = (
        f"Each of {cores} cores has a queue of its own: a second core for a packet only adds interrupts."
    )
    remedy = by_hand(f"echo 0 into each /sys/class/net/{interface.name}/queues/rx-*/rps_cpus")
    return Assessment(Severity.NOTE, "off", because, remedy)


def _interrupts(situation: Situation, interface: Interface, _: str) -> Assessment:
    fast = interface.speed is not None and interface.speed >= FAST
    if not fast or interface.queues < 2 or len(set(interface.interrupt_cores)) > 1:
        return FINE
    because = f"One core of {situation.host.processors.cores} serves all {interface.queues} queues."
    return Assessment(
        Severity.ADVICE, "spread", because, by_hand("run irqbalance, or set /proc/irq/*/smp_affinity_list")
    )


def _read_interrupts(_: Situation, interface: Interface) -> str | None:
    cores = sorted(set(interface.interrupt_cores))
    return f"on {', '.join(cores)}" if cores else None


SYSCTLS: tuple[Knob[None], ...] = (
    sysctl("net.core.rmem_max", _local_buffer, "Clients on this host get large buffers only if the kernel allows them: "
           "a received GB costs 0.20 s of CPU with 100 KiB and 0.067 s with 1 MiB.", LOCAL),
    sysctl("net.core.wmem_max", _local_buffer, "Clients on this host get large buffers only if the kernel allows them: "
           "answers of 1 MiB are sent at 7,490 MB/s instead of 6,400.", LOCAL),
    sysctl("net.ipv4.tcp_rmem", _tcp_window, "The largest window that the kernel gives a connection, which limits its "
           "speed to window / round trip.", IP),
    sysctl("net.ipv4.tcp_wmem", _tcp_window, "The largest send buffer that the kernel gives a connection, which "
           "limits its speed to buffer / round trip.", IP),
    sysctl("net.core.somaxconn", _accept_queue, "Connections that may wait to be accepted when all clients reconnect "
           "at once; 5,000 are accepted in less than 0.3 s (make bench, connections_5000).", CORE),
    sysctl("net.ipv4.tcp_max_syn_backlog", _syn_backlog, "Half-open connections beyond it are dropped, and the "
           "client retries a second later.", IP),
    sysctl("net.ipv4.tcp_slow_start_after_idle", _after_idle, "With 1 a connection restarts with a window "
           "of ten packets after each idle moment.", IP),
    Knob("packets dropped before their protocol", whole_host, lambda s, _: _text(s.host.network.dropped), _dropped,
         "The backlog of a core was full: too few cores for the bursts of a fast interface.", CORE),
    Knob("listen queue overflows", whole_host, lambda s, _: _text(s.host.network.overflows), _overflows,
         "Connections that were dropped because a listen queue was full.", CORE),
    Knob("tracked connections", whole_host, lambda s, _: _text(s.host.network.tracked), _tracked,
         "If the packet filter's table is full, new connections are dropped.",
         "Linux, Documentation/networking/nf_conntrack-sysctl.rst"),
)  # fmt: skip


def _text(value: int | None) -> str | None:
    return None if value is None else str(value)


NIC: tuple[Knob[Interface], ...] = (
    Knob("speed", interfaces, _read_speed, _speed, "All bytes for consumers pass it.", "ethtool(8); sysfs class/net"),
    Knob("offloads", interfaces, _read_offloads, _offloads, "Without them the CPU splits and joins segments.",
         "Linux, Documentation/networking/segmentation-offloads.rst"),
    Knob("receive queues", interfaces, lambda _, nic: str(nic.queues), _queues,
         "A queue is served by one core at a time.", "Linux, Documentation/networking/scaling.rst"),
    Knob("receive packet steering", interfaces, lambda _, nic: "on" if nic.spread else "off", _steering,
         "It gives the work of few queues to more cores (rps_cpus).",
         "Linux, Documentation/networking/scaling.rst"),
    Knob("interrupts", interfaces, _read_interrupts, _interrupts,
         "Several queues are useless if one core takes the interrupts of all.",
         "Linux, Documentation/core-api/irq/irq-affinity.rst"),
)  # fmt: skip
