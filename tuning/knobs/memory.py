"""Knobs of virtual memory. kbroker keeps records in the page cache and little in its own memory."""

from tuning.finding import Means, Remedy, Severity
from tuning.knobs.knob import FINE, Assessment, Knob, by_hand, sysctl, whole_host
from tuning.quantity import show_bytes, show_rate, show_seconds
from tuning.situation import Situation

MAX_SWAPPINESS = 10
FEWEST_MAPS = 65530
DIRTY_SECONDS = (1.0, 30.0)
SMALL_CACHE = 512 << 20
HUGE_SHARE = 0.05
MiB = 1 << 20

VM = "Linux, Documentation/admin-guide/sysctl/vm.rst"


def _swappiness(situation: Situation, now: str) -> tuple[Severity, str, str]:
    if not situation.host.memory.swap_bytes:
        return Severity.OK, "", "This host has no swap, so the value has no effect."
    if int(now) <= MAX_SWAPPINESS:
        return Severity.OK, "", ""
    return Severity.ADVICE, "1", f"This host has {show_bytes(situation.host.memory.swap_bytes)} of swap."


def dirty_limit(situation: Situation) -> int | None:
    """Bytes that may be dirty before writers are blocked, about as the kernel computes it; None if
    it is not visible."""
    host = situation.host
    fixed, ratio = host.sysctl_number("vm.dirty_bytes"), host.sysctl_number("vm.dirty_ratio")
    if fixed:
        return fixed
    available = host.memory.available_bytes
    return None if ratio is None or available is None else available * ratio // 100


def _dirty(situation: Situation, _: None, __: str) -> Assessment:
    limit = dirty_limit(situation) or 0
    rate = situation.coefficients.write_rate
    seconds = limit / rate
    because = f"Here it is {show_bytes(limit)}, {show_seconds(seconds)} of writing."
    if not situation.coefficients.measured:
        return Assessment(Severity.NOTE, "", because + " Run kbroker tune bench to see whether that is much.")
    if DIRTY_SECONDS[0] <= seconds <= DIRTY_SECONDS[1]:
        return Assessment(Severity.OK, "", because)
    expected = int(10 * rate) // MiB * MiB
    usable = situation.host.memory.usable_bytes
    expected = min(expected, usable // 2) if usable else expected
    if seconds < DIRTY_SECONDS[0] and expected <= limit:
        return Assessment(Severity.OK, "", because)
    fixed, ratio = situation.host.sysctl_number("vm.dirty_bytes"), situation.host.sysctl("vm.dirty_ratio")
    remedy = (
        Remedy(Means.SYSCTL, "vm.dirty_bytes", str(expected), str(fixed))
        if fixed
        else Remedy(Means.SYSCTL, "vm.dirty_bytes", str(expected), ratio or "", "vm.dirty_ratio")
    )
    return Assessment(Severity.ADVICE, str(expected), because, remedy)


def _read_dirty(situation: Situation, _: None) -> str | None:
    limit = dirty_limit(situation)
    return None if limit is None else str(limit)


def _maps(_: Situation, now: str) -> tuple[Severity, str, str]:
    fine = int(now) >= FEWEST_MAPS
    return (Severity.OK, "", "") if fine else (Severity.ADVICE, str(FEWEST_MAPS), "It was lowered here.")


def _overcommit(situation: Situation, now: str) -> tuple[Severity, str, str]:
    left = situation.host.memory.commit_left_bytes
    if now != "2" or left is None or left >= situation.arena_bytes:
        return Severity.OK, "", ""
    return (
        Severity.SERIOUS,
        "0",
        f"Arenas need {show_bytes(situation.arena_bytes)} of address space, {show_bytes(left)} may still be committed.",
    )


def _zone_reclaim(situation: Situation, now: str) -> tuple[Severity, str, str]:
    if now == "0" or situation.host.processors.nodes == 1:
        return Severity.OK, "", ""
    return Severity.ADVICE, "0", f"This host has {situation.host.processors.nodes} nodes."


def _transparent(_: Situation, __: None, now: str) -> Assessment:
    if now != "always":
        return FINE
    remedy = Remedy(Means.SYSFS, "kernel/mm/transparent_hugepage/enabled", "madvise", now)
    return Assessment(Severity.ADVICE, "madvise", "", remedy)


def _huge(situation: Situation, _: None, now: str) -> Assessment:
    total = situation.host.memory.total_bytes or 0
    reserved = int(now)
    if not total or reserved / total < HUGE_SHARE:
        return FINE
    remedy = Remedy(Means.SYSCTL, "vm.nr_hugepages", "0", situation.host.sysctl("vm.nr_hugepages") or "")
    return Assessment(Severity.ADVICE, "0", f"{show_bytes(reserved)} are lost to the page cache.", remedy)


def _read_reclaim(situation: Situation, _: None) -> str:
    reclaim = situation.host.reclaim
    if reclaim.hidden:
        return "kdamond runs"
    if (scheme := reclaim.first) is None:
        return "off"
    rate = "" if scheme.bytes_per_s is None else f", up to {show_rate(scheme.bytes_per_s)}"
    return f"pages untouched for {show_seconds(scheme.after_s)}{rate}"


def _reclaim(situation: Situation, _: None, __: str) -> Assessment:
    reclaim = situation.host.reclaim
    if reclaim.hidden:
        return Assessment(Severity.NOTE, "", "Its configuration is visible only to root.")
    if not reclaim.schemes:
        return FINE
    switches = " and ".join(dict.fromkeys(scheme.switch for scheme in reclaim.schemes))
    because = (
        "A virtual machine may return memory to its host by it: then ask the host's administrator first."
    )
    return Assessment(Severity.ADVICE, "off", because, by_hand(f"{switches}, and in what starts it at boot"))


def _limit(situation: Situation, _: None, now: str) -> Assessment:
    total, limit = situation.host.memory.total_bytes or 0, situation.host.memory.limit_bytes
    if limit is None or limit >= total:
        return FINE
    if limit < situation.arena_bytes + SMALL_CACHE:
        because = (
            f"Arenas may take {show_bytes(situation.arena_bytes)} of {now}; the rest is too small a cache."
        )
        return Assessment(Severity.SERIOUS, "", because, by_hand("raise memory.max of the broker's cgroup"))
    return Assessment(Severity.NOTE, "", f"The sizes here take it as the host's memory: {now}.")


def _read_limit(situation: Situation, _: None) -> str | None:
    limit = situation.host.memory.limit_bytes
    return "none" if limit is None else show_bytes(limit)


MEMORY: tuple[Knob[None], ...] = (
    sysctl(
        "vm.swappiness",
        _swappiness,
        "With a high value processes are swapped out to cache more of the logs, and requests wait for the disk.",
        VM,
    ),
    Knob(
        "dirty limit (vm.dirty_bytes or vm.dirty_ratio)",
        whole_host,
        _read_dirty,
        _dirty,
        "Above the limit writers are blocked. Below a second of disk writes, bursts stall; above half a minute, a "
        "crash loses more, and a sync of everything takes as long. Earlier write-back does not help: ack p99 is 2-4 ms "
        "without it and 18-25 ms with it.",
        "`kbroker docs lab/write-back`",
    ),
    sysctl(
        "vm.max_map_count",
        _maps,
        "kbroker maps no index files: 476 mappings with 10,000 partitions, where Apache Kafka has 20,400.",
        "make bench, scenario many_partitions",
    ),
    sysctl(
        "vm.overcommit_memory",
        _overcommit,
        "With 2 the kernel limits address space, and arenas are mostly unused address space.",
        VM,
    ),
    sysctl(
        "vm.zone_reclaim_mode",
        _zone_reclaim,
        "With other values a node evicts cached logs while other nodes have free memory.",
        VM,
    ),
    Knob(
        "transparent_hugepage/enabled",
        whole_host,
        lambda situation, _: situation.host.memory.transparent,
        _transparent,
        "always makes small heaps larger, and khugepaged copies them; kbroker does not request huge pages.",
        "Linux, Documentation/admin-guide/mm/transhuge.rst",
    ),
    Knob(
        "reserved huge pages",
        whole_host,
        lambda situation, _: str(situation.host.memory.huge_bytes),
        _huge,
        "kbroker does not use them, and the page cache cannot.",
        "Linux, Documentation/admin-guide/mm/hugetlbpage.rst",
    ),
    Knob(
        "proactive reclaim (DAMON)",
        whole_host,
        _read_reclaim,
        _reclaim,
        "Pages that were not used for a while leave the page cache although memory is free, and consumers that "
        "lag that far read from the disk.",
        "Linux, Documentation/admin-guide/mm/damon; `kbroker docs lab/consume`",
    ),
    Knob(
        "cgroup memory limit",
        whole_host,
        _read_limit,
        _limit,
        "Page cache is charged to the cgroup that reads or writes it, so the limit also bounds the cache of the logs.",
        "Linux, Documentation/admin-guide/cgroup-v2.rst",
    ),
)
