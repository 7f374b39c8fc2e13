"""The checks of `kbroker status` on a broker's metrics. Pure: the present time is an argument."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from msgspec import Struct

from kbroker.cli.sizes import size
from kbroker.config.counts import counted

Metrics = Mapping[str, Sequence[tuple[Mapping[str, str], float]]]
"""Samples, (labels, value), by name."""

INFO = "kbroker_info"
STARTED = "kbroker_process_start_time_seconds"
DEATHS = "kbroker_process_deaths_total"
DIR_BYTES = "kbroker_log_dir_bytes"
DIR_OFFLINE = "kbroker_log_dir_offline"
DIR_FULL = "kbroker_log_dir_full_seconds"
STORE_COPY = "kbroker_store_copy"
PARTITIONS = "kbroker_partitions"
UNDER_REPLICATED = "kbroker_under_replicated_partitions"
UNDER_MIN_ISR = "kbroker_under_min_isr_partitions"
REFUSED = "kbroker_produce_refused_partitions"
UNCLEANABLE = "kbroker_cleaner_uncleanable_partitions"
GROUP_LAG = "kbroker_group_lag_sum"
CERTIFICATE = "kbroker_tls_certificate_expiry_timestamp_seconds"
CONFINED = "kbroker_process_confined"

NAMES = frozenset(
    (INFO, STARTED, DEATHS, DIR_BYTES, DIR_OFFLINE, DIR_FULL, STORE_COPY, PARTITIONS, UNDER_REPLICATED,
     UNDER_MIN_ISR, REFUSED, UNCLEANABLE, GROUP_LAG, CERTIFICATE, CONFINED)
)  # fmt: skip

HOUR_S = 3600
DAY_S = 24 * HOUR_S
FULL_SOON_S = DAY_S
ENDS_SOON_S = 14 * DAY_S
MIN_FREE = 0.05
AMPLE_FREE = 0.2
SHOWN_GROUPS = 3
OFFLINE = "is offline, its partitions are not served: the broker's log has the reason, `kbroker docs disks` the steps"


class Check(Struct, frozen=True):
    """The result of one check. problems: a phrase each, which names what it is about; none when all
    is well."""

    name: str
    detail: str
    problems: list[str]


def checks(
    metrics: Metrics, not_ready: Sequence[str], now_s: float, max_lag: int | None = None
) -> list[Check]:
    """All checks, in the order of the page. max_lag: a larger lag is a problem."""
    found = [
        Check("ready", "no" if not_ready else "yes", list(not_ready)),
        _processes(metrics, now_s),
        _confinement(metrics),
        *_log_dirs(metrics),
        _partitions(metrics),
        _groups(metrics, max_lag),
    ]
    return found + [
        _certificate(labels["listener"], end_s, now_s) for labels, end_s in _of(metrics, CERTIFICATE)
    ]


def started_s(metrics: Metrics) -> float | None:
    """Unix time at which the broker started: that of its oldest process."""
    return min((value for _, value in _of(metrics, STARTED)), default=None)


def age(seconds: float) -> str:
    """A time span in its two largest units."""
    left = max(0, int(seconds))
    parts: list[str] = []
    for unit, length in (("d", DAY_S), ("h", HOUR_S), ("min", 60), ("s", 1)):
        amount, left = divmod(left, length)
        if amount or (unit == "s" and not parts):
            parts.append(f"{amount} {unit}")
    return " ".join(parts[:2])


def _of(metrics: Metrics, name: str) -> Sequence[tuple[Mapping[str, str], float]]:
    return metrics.get(name, ())


def _total(metrics: Metrics, name: str) -> int:
    return int(sum(value for _, value in _of(metrics, name)))


def _processes(metrics: Metrics, now_s: float) -> Check:
    """A process that died in the last hour is a problem; older deaths are only counted. Others may
    be young without a death: the http process starts with the first request."""
    starts = {labels["process"]: value for labels, value in _of(metrics, STARTED)}
    deaths = {labels["role"]: int(value) for labels, value in _of(metrics, DEATHS) if value}
    of_dead = [value for process, value in starts.items() if _role_of(process) in deaths]
    youngest = max(of_dead, default=0.0)
    detail = f"{len(starts)} run, {counted(sum(deaths.values()), 'restart')}"
    problems = []
    if now_s - youngest < HOUR_S:
        who = ", ".join(f"{role} {counted(count, 'time')}" for role, count in sorted(deaths.items()))
        problems.append(f"restarted {age(now_s - youngest)} ago: {who} since the start")
    return Check("processes", detail, problems)


def _role_of(process: str) -> str:
    """io of io-0."""
    name, _, number = process.rpartition("-")
    return name if number.isdecimal() else process


def _confinement(metrics: Metrics) -> Check:
    """Missing confinement (by the kernel or a setting) is shown, but is not a problem."""
    ways = sorted({labels["confinement"] for labels, value in _of(metrics, CONFINED) if value})
    names = {labels["process"] for labels, value in _of(metrics, CONFINED) if value}
    who = counted(len(names), "process", "processes")
    return Check("confined", f"{who} by {', '.join(ways)}" if ways else "no process", [])


def _log_dirs(metrics: Metrics) -> list[Check]:
    offline = {labels["dir"]: bool(value) for labels, value in _of(metrics, DIR_OFFLINE)}
    sizes = {(labels["dir"], labels["type"]): value for labels, value in _of(metrics, DIR_BYTES)}
    full_s = {labels["dir"]: value for labels, value in _of(metrics, DIR_FULL)}
    copies = {labels["dir"]: labels["state"] for labels, value in _of(metrics, STORE_COPY) if value}
    found = []
    for path, failed in offline.items():
        if failed:  # what its file system reports says nothing about it
            found.append(Check("log dir", path, [f"{path} {OFFLINE}"]))
            continue
        problems = []
        free, whole = sizes.get((path, "free")), sizes.get((path, "size"))
        share = 1.0 if free is None or not whole else free / whole
        detail = path if free is None or not whole else f"{path}: {size(free)} of {size(whole)} free"
        left_s = full_s.get(path, float("inf"))
        if 1 <= left_s < FULL_SOON_S:
            detail += f", full in {age(left_s)} if it fills as it does now"
        if share < MIN_FREE:
            problems.append(f"{path} has {share:.1%} free" if free else f"{path} is full")
        elif (
            left_s < FULL_SOON_S and share < AMPLE_FREE
        ):  # above this share, a short burst would raise an alarm
            problems.append(f"{path} has {share:.0%} free and is full within a day")
        if (state := copies.get(path, "current")) != "current":
            problems.append(f"the copy of the store in {path} is {state}")
        found.append(Check("log dir", detail, problems))
    return found


def _partitions(metrics: Metrics) -> Check:
    by_state = {labels["state"]: int(value) for labels, value in _of(metrics, PARTITIONS)}
    wrong = {
        "offline": by_state.get("offline", 0),
        "under-replicated": _total(metrics, UNDER_REPLICATED),
        "under min.insync.replicas": _total(metrics, UNDER_MIN_ISR),
        "refuse produce (disk full)": _total(metrics, REFUSED),
        "cannot be cleaned": _total(metrics, UNCLEANABLE),
    }
    detail = f"{by_state.get('online', 0)} of {sum(by_state.values())} online"
    problems = [f"{counted(count, 'partition')} {what}" for what, count in wrong.items() if count]
    return Check("partitions", detail, problems)


def _groups(metrics: Metrics, max_lag: int | None) -> Check:
    """Lag is only a problem above the user's limit, because normal lag depends on the topic."""
    lags: Counter[str] = Counter()
    for labels, value in _of(metrics, GROUP_LAG):
        lags[labels["group"]] += int(value)
    lagging = [(group, lag) for group, lag in lags.most_common() if lag]
    shown = ", ".join(f"{group} {lag:,}" for group, lag in lagging[:SHOWN_GROUPS])
    more = f" and {len(lagging) - SHOWN_GROUPS} more" if len(lagging) > SHOWN_GROUPS else ""
    detail = f"{counted(len(lagging), 'group')} with lag" + (f": {shown}{more}" if lagging else "")
    over = [] if max_lag is None else [f"{group} lags by {lag:,}" for group, lag in lagging if lag > max_lag]
    return Check("lag", detail, over)


def _certificate(listener: str, end_s: float, now_s: float) -> Check:
    left_s = end_s - now_s
    day = datetime.fromtimestamp(end_s, UTC).date().isoformat()
    problems = []
    if left_s <= 0:
        problems.append(f"the certificate of {listener} expired {age(-left_s)} ago")
    elif left_s < ENDS_SOON_S:
        problems.append(f"the certificate of {listener} expires in {age(left_s)}")
    return Check("certificate", f"{listener}: until {day}", problems)
