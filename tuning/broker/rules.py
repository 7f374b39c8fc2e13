"""Rules that propose kbroker's settings for this host and workload. Every proposal has a reason."""

import math
from collections.abc import Callable, Iterator

from kbroker.config.processes import MAX_NETWORK_PROCESSES, cores_to_poll, default_counts
from tuning.broker.proposal import Proposal, differs
from tuning.broker.space import reserving, retention, segments
from tuning.finding import Severity
from tuning.knobs.network import STORM, SYN_BACKLOG, window_needed
from tuning.quantity import show_bytes, show_rate, show_seconds
from tuning.situation import Situation

Rule = Callable[[Situation], Iterator[Proposal]]
MiB = 1 << 20
KAFKAS_BUFFER = 102400
MIN_ARENA = 16 * MiB
FULL = 0.8
BUSY = 0.5
RECORDS_NEVER = 2**63 - 1
CPU_SHARE = 0.6  # of a network process's core that bulk work may take
BENCH = "`kbroker docs benchmarks`"


def propose(situation: Situation) -> list[Proposal]:
    """Settings to change; the first rule about a key wins."""
    found: dict[str, Proposal] = {}
    for rule in RULES:
        for proposal in rule(situation):
            if differs(situation.config, proposal):
                found.setdefault(proposal.key, proposal)
    return list(found.values())


def processes(situation: Situation) -> Iterator[Proposal]:
    """No more than a CPU quota allows; more network processes if one cannot serve the rate."""
    processors = situation.host.processors
    usable = processors.usable_cores
    quota = processors.quota_cores
    if quota is not None and situation.network_processes + situation.io_workers > max(2.0, quota * 1.5):
        why = (
            f"the cgroup's quota is {quota:g} cores of {processors.cores}, and more processes than that all stop when "
            "it is used up"
        )
        source = "kbroker/config/processes.py"
        network, workers = default_counts(int(usable))
        yield Proposal("num.network.threads", str(network), why, source, Severity.SERIOUS)
        yield Proposal("num.io.threads", str(workers), why, source, Severity.SERIOUS)
        return
    if not situation.knows("write_rate", "groups", "batch_bytes"):
        return
    load, costs = situation.workload, situation.costs
    seconds = load.write_rate / 1e9 * costs.in_cpu + load.read_rate / 1e9 * costs.out_cpu
    seconds += load.requests * costs.request_cpu
    expected = min(MAX_NETWORK_PROCESSES, math.ceil(seconds / CPU_SHARE))
    if situation.network_processes < expected <= usable:
        why = (
            f"{show_rate(load.write_rate)} in, {show_rate(load.read_rate)} out and {load.requests:,.0f} requests/s "
            f"take {seconds:.2g} cores, and a network process has one"
        )
        yield Proposal("num.network.threads", str(expected), why, f"{BENCH}; {situation.coefficients.origin}")


def arena(situation: Situation) -> Iterator[Proposal]:
    """Smaller arenas with little memory, larger ones if requests waited for space."""
    size, key = situation.config.get_int("kbroker.arena.bytes"), "kbroker.arena.bytes"
    usable = situation.host.memory.usable_bytes
    if usable is not None and situation.arena_bytes > usable // 4:
        share = usable // 4 // (situation.network_processes + 1)
        fitting = max(MIN_ARENA, 1 << (share.bit_length() - 1))
        why = f"arenas may grow to {show_bytes(situation.arena_bytes)}, more than a quarter of {show_bytes(usable)}"
        yield Proposal(key, str(fitting), why, "`kbroker docs config`")
    elif situation.live is not None:
        used = situation.live.most("kbroker_arena_used_bytes") or 0.0
        if used > size * BUSY and usable is not None and 2 * situation.arena_bytes <= usable // 4:
            why = f"{show_bytes(used)} of {show_bytes(size)} are in use, and requests wait when it is full"
            yield Proposal(key, str(2 * size), why, "/metrics: kbroker_arena_used_bytes")


def partition_table(situation: Situation) -> Iterator[Proposal]:
    """A table for all replicas and a quarter more."""
    room = situation.config.get_int("kbroker.max.partitions")
    if situation.knows("partitions") and situation.replicas > room * FULL:
        expected = -(-situation.replicas * 5 // 4 // 1000) * 1000
        why = f"{situation.replicas} replicas, internal topics included, nearly fill the {room} rows"
        yield Proposal(
            "kbroker.max.partitions", str(expected), why, "`kbroker docs config`", Severity.SERIOUS
        )


def durability(situation: Situation) -> Iterator[Proposal]:
    """Durable acks: with write.caching=false waiting acks share a sync; syncs by count are not
    shared."""
    sync = situation.coefficients.sync_p50_s
    if situation.workload.durable:
        why = (
            f"acks wait for the disk, and one sync of {show_seconds(sync)} serves all waiting acks: some 60,000 acks/s "
            "for 64 producers, where Apache Kafka has 11,200"
        )
        yield Proposal("kbroker.write.caching", "false", why, f"{BENCH}, durable acks")
    if situation.config.get_int("log.flush.interval.messages") != RECORDS_NEVER:
        why = "syncs by count happen even if no client waits; write.caching=false syncs only for clients that wait"
        yield Proposal("log.flush.interval.messages", str(RECORDS_NEVER), why, "`kbroker docs durability`")


def remote_buffers(situation: Situation) -> Iterator[Proposal]:
    """Kafka's 100 KiB bounds a remote connection to buffer / round trip."""
    load = situation.workload
    needed = window_needed(situation)
    if not load.remote_clients or not situation.knows("rtt_ms") or needed <= 2 * KAFKAS_BUFFER:
        return
    most = show_rate(KAFKAS_BUFFER / (load.rtt_ms / 1000))
    for key in ("socket.send.buffer.bytes", "socket.receive.buffer.bytes"):
        if situation.config.get_int(key) == KAFKAS_BUFFER:
            why = f"{KAFKAS_BUFFER} bytes at {load.rtt_ms:g} ms limit a connection to {most}; -1 lets the kernel choose"
            yield Proposal(key, "-1", why, "arithmetic: window / round trip")


def local_congestion(situation: Situation) -> Iterator[Proposal]:
    """The congestion control of local clients must exist."""
    key = "kbroker.local.congestion.control"
    known = (situation.host.sysctl("net.ipv4.tcp_available_congestion_control") or "").split()
    expected = situation.config.get_str(key)
    if known and expected and expected not in known:
        yield Proposal(
            key, "", f"this kernel has {', '.join(known)}", "net.ipv4.tcp_available_congestion_control"
        )


def backlog(situation: Situation) -> Iterator[Proposal]:
    """A backlog for all clients at once, within the kernel's limit."""
    key = "socket.listen.backlog.size"
    if key not in situation.config.static:  # it is then as long as the kernel allows
        return
    size, clients = situation.config.get_int(key), situation.workload.connections
    drops = situation.live.total("kbroker_tcp_listen_drops_total") if situation.live is not None else 0.0
    most = situation.host.sysctl_number("net.core.somaxconn") or SYN_BACKLOG
    expected = min(most, max(clients, STORM), SYN_BACKLOG)
    if (clients >= STORM or drops) and size < expected:
        why = f"{clients} {'client' if clients == 1 else 'clients'} may reconnect at once" + (
            f"; the host has dropped {drops:.0f} since boot, of all programs" if drops else ""
        )
        yield Proposal(key, str(expected), why, "listen(2); net.core.somaxconn")


def places(situation: Situation) -> Iterator[Proposal]:
    """log.dirs as given by --dir, and sites on different file systems if replicas are requested."""
    named = situation.host.log_dirs
    if named and named != tuple(situation.config.log_dirs):
        yield Proposal("log.dirs", ",".join(named), "the folders given by --dir", "--dir", Severity.NOTE)
    copies = situation.workload.copies
    mounts = situation.host.mounts
    if copies < 2 or situation.config.get_str("kbroker.replica.sites"):
        return
    if len(mounts) >= copies:
        groups: list[list[str]] = [[] for _ in range(copies)]
        for number, mount in enumerate(mounts):
            groups[number % copies].extend(mount.dirs)
        why = f"{copies} copies on different file systems survive the failure of a disk"
        sites = ";".join(",".join(group) for group in groups)
        yield Proposal("kbroker.replica.sites", sites, why, "ADR 0008")
        yield Proposal("default.replication.factor", str(copies), why, "ADR 0008")


RULES: tuple[Rule, ...] = (
    places,
    processes,
    arena,
    partition_table,
    durability,
    remote_buffers,
    local_congestion,
    backlog,
    segments,
    reserving,
    retention,
)

ASKED = {
    "write_rate": "the rate (--rate 200MB/s)",
    "partitions": "the partitions (--partitions 500)",
    "groups": "the consumer groups (--consumers 3)",
    "batch_bytes": "the size of produce requests (--batch 16KiB)",
    "rtt_ms": "the round trip of remote clients (--rtt 0.5)",
}
"""Facts that a rule may need, and the option for each."""
LACKING = {
    "num.network.threads": ("write_rate", "groups", "batch_bytes"),
    "kbroker.max.partitions": ("partitions",),
    "log.segment.bytes": ("partitions",),
    "log.retention.bytes": ("write_rate", "partitions"),
    "kbroker.log.reserve.bytes": ("write_rate",),
    "socket.send.buffer.bytes, socket.receive.buffer.bytes": ("rtt_ms",),
}
"""Facts that must be given for a setting to be proposed."""


def left_out(situation: Situation) -> list[str]:
    """A sentence about missing facts: the settings that were left out, and the options to give."""
    keys = [key for key, fields in LACKING.items() if not situation.knows(*fields)]
    lacking = {name for key in keys for name in LACKING[key] if not situation.knows(name)}
    if not keys:
        return []
    requested = ", ".join(text for name, text in ASKED.items() if name in lacking)
    shown = (
        "" if situation.live is not None else ", or measure them: --metrics host:port of the running broker"
    )
    return [f"Left out, because facts are missing: {', '.join(keys)}. Give {requested}{shown}."]


def choices(situation: Situation) -> list[str]:
    """A sentence about what this host could do, and only its administrator can decide."""
    networks, workers = situation.network_processes, situation.io_workers
    usable = situation.host.processors.usable_cores
    polls = any(situation.config.get_int(f"kbroker.busy.poll.{role}.us") for role in ("network", "io"))
    if polls or usable < cores_to_poll(networks, workers):
        return []
    why = (
        f"Not proposed, because it takes a core for each process while there is work: with {usable:g} cores, the "
        f"{networks} network processes and {workers} IO workers can poll instead of sleeping, which shortens acks at "
        "low rates: kbroker.busy.poll.network.us=1000 and kbroker.busy.poll.io.us=1000 "
        "(`kbroker docs lab/ack-latency`)."
    )
    return [why]
