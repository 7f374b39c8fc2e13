"""A workload's demand for each resource. Pure: all coefficients are in the situation."""

import math
from dataclasses import dataclass

from kbroker.config.counts import counted
from tuning.quantity import show_bytes, show_rate, show_seconds
from tuning.situation import Situation
from tuning.sizing.supply import FILLED, STEADY, Supply

INDEXES = 0.005  # of a log's bytes: an entry of 8 + 12 bytes each 4 KiB
WRITTEN_BACK_S = 30.0  # Kafka's documentation: memory for half a minute of writing
READ_AHEAD = 32 << 20  # a sequential reader's window
GB = 1e9


@dataclass(frozen=True, slots=True)
class Need:
    """One resource. share: of its usable part; above 1 the workload does not fit; None if the
    supply is unknown. change: the cheapest remedy. endless: the demand grows with time, so the
    resource runs out at any rate.
    """

    resource: str
    needed: str
    have: str
    share: float | None
    how: str
    change: str
    endless: bool = False


def needs(situation: Situation, supply: Supply) -> list[Need]:
    """The needs for all resources that may run out."""
    return [
        disk_space(situation, supply),
        disk_time(situation, supply),
        memory(situation, supply),
        network(situation, supply),
        cores(situation, supply),
        descriptors(situation, supply),
    ]


def log_bytes(situation: Situation) -> float:
    """Bytes that retention by time or size keeps, plus active segments, which it never deletes, and
    indexes."""
    load = situation.workload
    logs = load.partitions * load.copies
    # active until it is full or has its age: active segments hold no more than was written in that
    # time
    rolled = load.disk_write_rate * situation.config.log_roll_ms / 1000
    kept, most = load.disk_write_rate * load.retention_s, situation.config.get_int("log.retention.bytes")
    if most >= 0:
        kept = min(kept, float(logs * most))
    return (kept + min(logs * load.segment_bytes, rolled)) * (1 + INDEXES)


def disk_space(situation: Situation, supply: Supply) -> Need:
    """Bytes on all disks. Records that are kept forever never fit."""
    needed, have = log_bytes(situation), supply.disk_bytes
    load = situation.workload
    endless = needed == math.inf
    left = None if have is None else max(0.0, have * FILLED - supply.held_bytes)
    full = "without bound" if left is None else f"full in {show_seconds(left / load.disk_write_rate)}"
    return Need(
        "disk space",
        full if endless else show_bytes(needed),
        show_bytes(have) if have is not None else "unknown (--disk)",
        math.inf if endless else share_of(needed, have, FILLED),
        f"{show_rate(load.disk_write_rate)} {'forever' if endless else 'for ' + show_seconds(load.retention_s)}, "
        "active segments, 0.5 % of indexes; "
        f"{FILLED:.0%} may be used",
        "a bound: log.retention.ms or log.retention.bytes"
        if endless
        else "a shorter retention, smaller segments where partitions are many, compression, or another disk",
        endless,
    )


def share_of(needed: float, have: float | None, usable: float) -> float | None:
    """Share of the usable part; inf if there is none, None if it is unknown."""
    if have is None:
        return None
    return needed / (have * usable) if have > 0 else math.inf


def disk_time(situation: Situation, supply: Supply) -> Need:
    """Writes and cold reads share the disks' time."""
    load = situation.workload
    writes, reads = load.disk_write_rate, load.cold_read_rate
    used = writes / supply.write_rate + reads / supply.cold_read_rate
    return Need(
        "disk throughput",
        f"{show_rate(writes)} written, {show_rate(reads)} read cold",
        f"{show_rate(supply.write_rate)} to write, {show_rate(supply.cold_read_rate)} to read",
        used / STEADY,
        f"{situation.coefficients.origin}; {counted(supply.disks, 'disk')}, {STEADY:.0%} of the time",
        "fewer lagging groups at a time, another disk in log.dirs, or compression",
    )


def process_bytes(situation: Situation) -> float:
    """Memory of kbroker's processes: bare, rows of partitions, connections, and a tenth of a second
    of requests."""
    costs, load = situation.costs, situation.workload
    rows = situation.replicas * costs.partition_bytes + load.connections * costs.connection_bytes
    arena = min(float(situation.arena_bytes), load.write_rate * 0.1)
    return costs.base_bytes + rows + arena


def cache_bytes(situation: Situation) -> float:
    """Page cache that live groups need, half a minute of write-back, and windows of lagging
    ones."""
    load = situation.workload
    readers = load.lagging_groups * min(load.partitions, situation.network_processes * 4)
    return load.disk_write_rate * (load.lag_s + WRITTEN_BACK_S) + readers * READ_AHEAD


def memory(situation: Situation, supply: Supply) -> Need:
    """Processes and page cache together."""
    processes, cache = process_bytes(situation), cache_bytes(situation)
    have = supply.memory_bytes
    return Need(
        "memory",
        f"{show_bytes(processes)} of processes, {show_bytes(cache)} of page cache",
        show_bytes(have) if have is not None else "unknown (--memory)",
        share_of(processes + cache, have, 0.9),
        f"{show_rate(situation.workload.disk_write_rate)} for {show_seconds(situation.workload.lag_s)} of lag and "
        f"{WRITTEN_BACK_S:.0f} s; make bench (start, many_partitions, connections_5000)",
        "more memory, or consumers that lag less",
    )


def cache_horizon_s(situation: Situation, supply: Supply) -> float | None:
    """Seconds that a consumer may lag and still be served from memory."""
    rate = situation.workload.disk_write_rate
    if supply.memory_bytes is None or not rate:
        return None
    return max(0.0, supply.memory_bytes * 0.9 - process_bytes(situation)) / rate


def network(situation: Situation, supply: Supply) -> Need:
    """The busier direction; clients on this host use loopback instead."""
    load = situation.workload
    busiest = max(load.write_rate, load.read_rate)
    if load.remote_clients:
        have, how = supply.network_rate, f"the busier direction, {STEADY:.0%} of the interface"
        change = "compression, fewer groups, or a faster interface"
    else:
        have = situation.coefficients.loopback_rate * supply.cores / 2  # a sender and a receiver each
        how, change = f"loopback; {situation.coefficients.origin}", "fewer groups, or clients on other hosts"
    return Need(
        "network",
        f"{show_rate(load.write_rate)} in, {show_rate(load.read_rate)} out",
        show_rate(have) if have else "unknown (--nic)",
        busiest / (have * STEADY) if have else None,
        how,
        change,
    )


def cpu_cores(situation: Situation) -> tuple[float, float]:
    """Cores of the broker for produce and for fetch."""
    load, costs = situation.workload, situation.costs
    each = load.requests * costs.request_cpu
    share = load.write_rate / (load.write_rate + load.read_rate) if load.write_rate else 0.0
    tls_in, tls_out = (costs.tls_in_cpu, costs.tls_out_cpu) if load.tls else (0.0, 0.0)
    return (
        load.write_rate / GB * (costs.in_cpu + tls_in) + each * share,
        load.read_rate / GB * (costs.out_cpu + tls_out) + each * (1 - share),
    )


def cores(situation: Situation, supply: Supply) -> Need:
    """CPU of the broker; clients on this host need more."""
    coming, going = cpu_cores(situation)
    load = situation.workload
    over = " over TLS" if load.tls else ""
    return Need(
        "cores",
        f"{coming:.2g} for what comes in, {going:.2g} for what goes out",
        f"{supply.cores:g}",
        (coming + going) / (supply.cores * STEADY),
        f"{load.requests:,.0f} requests/s of {show_bytes(load.batch_bytes)}{over}; `kbroker docs benchmarks`, "
        f"scaled to this host: {situation.coefficients.origin}",
        "larger batches (linger.ms, batch.size of producers), fewer groups, or more cores",
    )


def descriptors(situation: Situation, supply: Supply) -> Need:
    """Demand of the process that needs the most."""
    needed, have = situation.files_needed, supply.files
    return Need(
        "descriptors",
        str(needed),
        str(have) if have is not None else "unlimited",
        share_of(needed, have, 1.0),
        "three a log that is appended to, one a connection (four with TLS), files that are read",
        "LimitNOFILE in the systemd unit",
    )
