"""Knobs of processors, the clock and the kernel's abilities."""

from tuning.finding import Means, Remedy, Severity
from tuning.knobs.knob import FINE, Assessment, Knob, by_hand, unless, whole_host
from tuning.quantity import show_seconds
from tuning.situation import Situation

SLOW_CLOCKS = ("hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit")
STEADY = ("performance", "schedutil")
SLOW_READING_S = 500e-9
TRIED = "tried here"


def _governor(_: Situation, __: None, now: str) -> Assessment:
    if now in STEADY:
        return FINE
    remedy = by_hand("cpupower frequency-set -g performance (undo: -g " + now.partition(",")[0] + ")")
    return Assessment(Severity.ADVICE, "performance", "", remedy)


def _clock(situation: Situation, _: None, now: str) -> Assessment:
    cost = situation.coefficients.clock_s
    slow = situation.coefficients.measured and cost > SLOW_READING_S
    if now not in SLOW_CLOCKS and not slow:
        return FINE
    because = f"A reading costs {show_seconds(cost)} here." if situation.coefficients.measured else ""
    offered = situation.host.processors.clocksources
    if offered and "tsc" not in offered:  # of other processors, or found unsteady
        return Assessment(Severity.NOTE, "", because, by_hand("the kernel's log says why it offers no tsc"))
    remedy = Remedy(Means.SYSFS, "devices/system/clocksource/clocksource0/current_clocksource", "tsc", now)
    return Assessment(Severity.ADVICE, "tsc", because, remedy)


def _quota(situation: Situation, _: None, __: str) -> Assessment:
    quota = situation.host.processors.quota_cores
    if quota is None:
        return FINE
    busy = situation.network_processes + situation.io_workers
    if busy <= max(2.0, quota * 1.5):
        return Assessment(Severity.OK)
    because = f"{busy} network processes and IO workers share {quota:g} cores, and all stop when the quota is used up."
    return Assessment(
        Severity.SERIOUS,
        "",
        because,
        by_hand("kbroker tune propose: num.network.threads, num.io.threads"),
    )


def _slices(situation: Situation, _: None, __: str) -> Assessment:
    if situation.host.features.slices:
        return FINE
    return Assessment(
        Severity.NOTE, "Linux 6.12", "", by_hand("a newer kernel, if other programs use the CPU of this host")
    )


def _word(works: bool | None) -> str | None:
    return None if works is None else "works" if works else "missing"


_ONE_NODE = Assessment(
    Severity.NOTE,
    "",
    "Shared memory and page cache are on one node, while processes run on all.",
    by_hand(
        "compare under your load: numactl --cpunodebind=N --membind=N kbroker serve, with the node N of disk and NIC"
    ),
)
_CACHESTAT = Assessment(
    Severity.ADVICE,
    "Linux 6.5",
    "preadv2 is used instead, for samples.",
    by_hand("a newer kernel, or allow the call"),
)
_NOWAIT = Assessment(
    Severity.ADVICE,
    "",
    "If cachestat is missing, too, cold fetches delay other requests.",
    by_hand("ext4 or xfs"),
)

_NO_CLOCK = Assessment(
    Severity.ADVICE, "synchronised", "", by_hand("timedatectl set-ntp true, or chrony (undo: set-ntp false)")
)


def _synchronised(clock: bool | None) -> str | None:
    return None if clock is None else "synchronised" if clock else "free-running"


PROCESSOR: tuple[Knob[None], ...] = (
    Knob(
        "scaling governor",
        whole_host,
        lambda situation, _: situation.host.processors.governor,
        _governor,
        "A core in deep sleep or at low frequency delays the first record of a burst.",
        "Linux, Documentation/admin-guide/pm/cpufreq.rst",
    ),
    Knob(
        "clocksource",
        whole_host,
        lambda situation, _: situation.host.processors.clocksource,
        _clock,
        "Every phase of a request is timed; with a slow source each timestamp is a system call.",
        "kbroker tune bench (clock_s)",
    ),
    Knob(
        "clock",
        whole_host,
        lambda situation, _: _synchronised(situation.host.upkeep.clock),
        unless("synchronised", _NO_CLOCK),
        "Retention, offsets by time and delegation tokens depend on the clock.",
        "adjtimex(2)",
    ),
    Knob(
        "NUMA nodes",
        whole_host,
        lambda situation, _: str(situation.host.processors.nodes),
        unless("1", _ONE_NODE),
        "Memory of another node is slower.",
        "Linux, Documentation/admin-guide/mm/numa_memory_policy.rst",
    ),
    Knob(
        "cgroup cpu quota",
        whole_host,
        lambda situation, _: f"{situation.host.processors.quota_cores or 'none'}",
        _quota,
        "The default numbers of processes respect it; configured ones may not.",
        "kbroker/config/processes.py; Linux, Documentation/scheduler/sched-bwc.rst",
    ),
    Knob(
        "cachestat",
        whole_host,
        lambda situation, _: _word(situation.host.features.cachestat),
        unless("works", _CACHESTAT),
        "It reports whether all bytes of a fetch are in the page cache before they are sent.",
        TRIED + "; kbroker/net/fetch/residency.py",
    ),
    Knob(
        "preadv2 RWF_NOWAIT",
        whole_host,
        lambda situation, _: _word(situation.host.features.nowait_reads),
        unless("works", _NOWAIT),
        "The alternative way to check the page cache.",
        TRIED + " on the log dir's file system",
    ),
    Knob(
        "short time slices",
        whole_host,
        lambda situation, _: "{}.{}".format(*situation.host.features.release),
        _slices,
        "From Linux 6.12 on kbroker's processes run as soon as they are woken, even beside busy programs.",
        "ADR 0011",
    ),
    Knob(
        "io_uring",
        whole_host,
        lambda situation, _: situation.host.features.io_uring,
        lambda *_: FINE,
        "kbroker does not use it, so it may be disabled.",
        "ADR 0016, the alternatives",
    ),
)
