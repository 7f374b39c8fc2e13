"""Findings about the host from a running broker's /metrics. Totals are since its start; quantiles
are those of the last seconds if there are two readings with enough events between them."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from tuning.finding import Finding, Severity
from tuning.knobs.knob import by_hand
from tuning.live import Live
from tuning.quantity import show_bytes, show_seconds
from tuning.situation import Situation

FULL_SOON_S = 4 * 3600.0
SLOW_SYNC_S = 0.1
LATE_LOOP_S = 0.05
COLD_SHARE = 0.1
STALLED = 0.001
NEARLY = 0.8
MIN_RECENT = 20
"""Fewer events than these have no quantile worth showing."""


@dataclass(frozen=True, slots=True)
class Sign:
    """A sign of a problem in the metrics. read: a number, None when the page does not show it.
    wrong: whether it is too much. quantile: read from the last seconds if possible."""

    name: str
    metric: str
    read: Callable[[Situation, Live], float | None]
    show: Callable[[float], str]
    wrong: Callable[[float], bool]
    severity: Severity
    why: str
    cure: str
    quantile: bool = False


def findings(situation: Situation) -> list[Finding]:
    """A finding for each sign; none without a running broker."""
    live = situation.live
    return [] if live is None else [_finding(sign, situation, live) for sign in SIGNS]


def _finding(sign: Sign, situation: Situation, live: Live) -> Finding:
    reading = _reading(sign, situation, live)
    window = f", the last {reading.seconds:.0f} s" if reading.seconds else ""
    name, source = f"broker: {sign.name}", f"/metrics: {sign.metric}{window}"
    value = sign.read(situation, reading)
    if value is None:
        return Finding(name, Severity.UNSEEN, "", "", "the page does not show it (yet)", source)
    if not sign.wrong(value):
        return Finding(name, Severity.OK, sign.show(value), "", sign.why, source)
    return Finding(name, sign.severity, sign.show(value), "", sign.why, source, by_hand(sign.cure))


def _reading(sign: Sign, situation: Situation, live: Live) -> Live:
    """A disk that is slow today has no part in the quantiles of a broker that runs for days."""
    recent = situation.recent
    if sign.quantile and recent is not None and recent.total(f"{sign.metric}_count") >= MIN_RECENT:
        return recent
    return live


def _loop_delay(_: Situation, live: Live) -> float | None:
    """p99 of the event loop's delay, in seconds, of the network process with the largest one."""
    processes = {dict(key)["process"] for key in live.values("kbroker_loop_lag_seconds_bucket")}
    delays = [
        live.quantile("kbroker_loop_lag_seconds", 0.99, process=name)
        for name in processes
        if name.startswith("network-")
    ]
    return max((delay for delay in delays if delay is not None), default=None)


def _full_soon(_: Situation, live: Live) -> float | None:
    values = live.values("kbroker_log_dir_full_seconds").values()
    return min(values, default=None)


def _offline(_: Situation, live: Live) -> float | None:
    return live.total("kbroker_log_dir_offline") if "kbroker_log_dir_offline" in live.series else None


def _cold(_: Situation, live: Live) -> float | None:
    sent = live.total("kbroker_topic_out_bytes_total")
    return live.total("kbroker_topic_cold_bytes_total") / sent if sent else None


def _stalls(_: Situation, live: Live) -> float | None:
    requests = live.total("kbroker_requests_total", api="Produce")
    return live.total("kbroker_network_stalls_total") / requests if requests else None


def _descriptors(situation: Situation, live: Live) -> float | None:
    most, limit = live.most("kbroker_process_open_fds"), situation.host.files_limit
    return None if most is None or not limit or limit < 0 else most / limit


def _partitions(situation: Situation, live: Live) -> float | None:
    if "kbroker_partitions" not in live.series:
        return None
    return live.total("kbroker_partitions") / situation.config.get_int("kbroker.max.partitions")


def _memory_used(_: Situation, live: Live) -> float | None:
    found = live.values("kbroker_process_memory_bytes", type="pss").values()
    return sum(found) if found else None


def _drops(_: Situation, live: Live) -> float | None:
    return live.most("kbroker_tcp_listen_drops_total")


def _share(value: float) -> str:
    return f"{value:.1%}"


def _count(value: float) -> str:
    return f"{value:.0f}"


def _positive(value: float) -> bool:
    return value > 0


def _above(limit: float) -> Callable[[float], bool]:
    return lambda value: value > limit


def _time(value: float) -> str:
    return "never" if value == math.inf else show_seconds(value)


def _delay(value: float) -> str:
    return "more than the largest bucket" if value == math.inf else show_seconds(value)


SIGNS: tuple[Sign, ...] = (
    Sign("log dirs offline", "kbroker_log_dir_offline", _offline, _count, _positive, Severity.SERIOUS,
         "A failed log dir stays offline until the next start.", "replace the disk (`kbroker docs durability`)"),
    Sign("time until a disk is full", "kbroker_log_dir_full_seconds", _full_soon, _time,
         lambda value: value < FULL_SOON_S, Severity.SERIOUS,
         "If it fills as it does now. On a full disk produce is refused.", "free space or lower retention"),
    Sign("fdatasync p99", "kbroker_flush_seconds", lambda _, live: live.quantile("kbroker_flush_seconds", 0.99),
         _delay, _above(SLOW_SYNC_S), Severity.ADVICE, "With write.caching=false acks wait for it.",
         "use a disk with a protected write cache; check scheduler, barriers and other writers", quantile=True),
    Sign("event loop delay p99", "kbroker_loop_lag_seconds", _loop_delay, _delay,
         _above(LATE_LOOP_S), Severity.ADVICE, "A network process waited for a core, or spent long in Python; "
         "of the one with the largest delay.",
         "run fewer other processes on the host, or more network processes on idle cores", quantile=True),
    Sign("bytes fetched from disk", "kbroker_topic_cold_bytes_total", _cold, _share, _above(COLD_SHARE),
         Severity.ADVICE, "Consumers read records that are no longer in the page cache.",
         "add memory, or let consumers lag less: kbroker tune size computes how much"),
    Sign("produce requests that waited for room", "kbroker_network_stalls_total", _stalls, _share, _above(STALLED),
         Severity.ADVICE, "The rings or the arena were full: the IO workers cannot keep up.",
         "check fdatasync p99 and the dirty limit first; then raise kbroker.arena.bytes"),
    Sign("connections dropped by full listen queues", "kbroker_tcp_listen_drops_total", _drops, _count, _positive,
         Severity.NOTE, "Of the whole host since boot.", "kbroker tune propose: socket.listen.backlog.size"),
    Sign("descriptors in use", "kbroker_process_open_fds", _descriptors, _share, _above(NEARLY), Severity.SERIOUS,
         "Share of the limit, for the process that has the most open. Near it new connections wait until others "
         "close.", "raise LimitNOFILE, or set max.connections"),
    Sign("rows of the partition table in use", "kbroker_partitions", _partitions, _share, _above(NEARLY),
         Severity.SERIOUS, "A full table refuses new partitions.", "raise kbroker.max.partitions"),
    Sign("memory of all processes (PSS)", "kbroker_process_memory_bytes", _memory_used, show_bytes,
         lambda value: value > 4e9, Severity.NOTE, "The rest of the host's memory is the logs' cache.",
         "find the process: `kbroker docs metrics`"),
)  # fmt: skip
