"""Collects a situation: settings, host, running broker, coefficients, and a given or observed
workload."""

import os
import re
import resource
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

import psutil

from kbroker.config.broker import BrokerConfig
from kbroker.config.client_network import is_this_host
from kbroker.config.properties import parse_overrides, read
from tuning.coefficients import DEFAULT_FILE, Coefficients
from tuning.host.host import Host, read_host
from tuning.host.roots import Roots
from tuning.live import Live, scrape
from tuning.quantity import show_rate
from tuning.situation import Situation
from tuning.workload import Workload

PARTITION = re.compile(r".+-\d+")
CONTROL = "kbroker: control"
"""Title of a process that each broker has once; the parent keeps its command line."""
COUNTED = ("partitions", "groups", "connections", "copies")
WITHOUT_MEMBERS = ("Empty", "Dead")
"""States of groups that read nothing: most of a broker's groups may be those of long ago."""


@dataclass(frozen=True, slots=True)
class Sources:
    """Sources of a situation. dirs: instead of the settings' log.dirs. metrics: address of a
    running broker's /metrics, or "". watch_s: between two readings of it; 0 for one reading."""

    properties: Path | None = None
    overrides: Sequence[str] = ()
    dirs: Sequence[str] = ()
    metrics: str = ""
    watch_s: float = 0.0
    coefficients: Path | None = None
    roots: Roots = field(default_factory=Roots)


def gather(sources: Sources, given: Mapping[str, object]) -> tuple[Situation, tuple[str, ...]]:
    """The situation, and lines with the sources of the workload's numbers. given: fields of
    Workload by name; None: to be found.

    Raises ConfigError, NoMetrics, WrongFile.
    """
    pairs = read(sources.properties) if sources.properties else {}
    overrides = parse_overrides(sources.overrides)
    config, _ = BrokerConfig.load(pairs, overrides)
    live, recent = _read_twice(sources) if sources.metrics else (None, None)
    dirs = _absolute(sources.dirs or _dirs_of(config, {*pairs, *overrides}, live))
    host = read_host(dirs, sources.roots, limit_of_broker() if live else None)
    coefficients = coefficients_of(sources.coefficients or _host_file(config))
    situation, lines = _situation(host, config, live, coefficients, given)
    return replace(situation, recent=recent), lines


def _read_twice(sources: Sources) -> tuple[Live, Live | None]:
    """The metrics, and what was counted between two readings of them."""
    began_s, first = time.monotonic(), scrape(sources.metrics)
    if not sources.watch_s:
        return first, None
    time.sleep(sources.watch_s)
    live = scrape(sources.metrics)
    return live, live.since(first, time.monotonic() - began_s)


def gather_inside(
    config: BrokerConfig,
    live: Live,
    offline: Sequence[str],
    recent: Live | None = None,
    roots: Roots | None = None,
) -> tuple[Situation, tuple[str, ...]]:
    """The situation, collected inside a process of the broker from its settings, limits and
    metrics. offline: log dirs that the broker cannot use. It can write to the others, even if this
    process cannot. recent: totals of the last seconds.

    Raises WrongFile.
    """
    host = replace(read_host(_absolute(config.log_dirs), roots), unwritable=tuple(offline))
    situation, lines = _situation(host, config, live, coefficients_of(_host_file(config)), {})
    return replace(situation, recent=recent), lines


def _dirs_of(config: BrokerConfig, named: Set[str], live: Live | None) -> Sequence[str]:
    """The log dirs of the named settings; without them those of the running broker, if they are on
    this host."""
    if live is None or named & {"log.dirs", "log.dir"}:
        return config.log_dirs
    seen = [dict(key)["dir"] for key in live.values("kbroker_log_dir_offline")]
    return seen if seen and all(Path(name).is_dir() for name in seen) else config.log_dirs


def _host_file(config: BrokerConfig) -> Path | None:
    """That of the broker's settings."""
    name = config.get_str("kbroker.host.file")
    return Path(name) if name else None


def _absolute(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(os.path.abspath(name) for name in names)  # noqa: PTH100


def _situation(
    host: Host,
    config: BrokerConfig,
    live: Live | None,
    coefficients: Coefficients,
    given: Mapping[str, object],
) -> tuple[Situation, tuple[str, ...]]:
    workload, origin = workload_of(given, config, live, host.log_dirs, time.time())
    assumed = frozenset(each.name for each in fields(Workload)) - origin.keys()
    situation = Situation(host, workload, config, coefficients, live, assumed=assumed)
    return situation, tuple(f"{shown} ({origin.get(name, 'assumed')})" for name, shown in _shown(workload))


def _shown(workload: Workload) -> Iterator[tuple[str, str]]:
    yield "write_rate", f"{show_rate(workload.write_rate)} written"
    for name in COUNTED:
        yield name, f"{name} {getattr(workload, name):g}"


def coefficients_of(file: Path | None) -> Coefficients:
    """Coefficients of the named file, of host.json when it exists, else guesses. Raises
    WrongFile."""
    if file is None:
        return Coefficients.load(DEFAULT_FILE) if DEFAULT_FILE.exists() else Coefficients()
    return Coefficients.load(file)


def workload_of(
    given: Mapping[str, object], config: BrokerConfig, live: Live | None, dirs: Sequence[str], now_s: float
) -> tuple[Workload, dict[str, str]]:
    """The workload: given values first, then the broker's metrics, then the log dirs, then
    defaults. And the source of each field; fields without a source are left out."""
    known = {name: value for name, value in given.items() if value is not None}
    found: dict[str, object] = {
        "retention_s": config.log_retention_ms / 1000 if config.log_retention_ms >= 0 else float("inf"),
        "segment_bytes": config.get_int("log.segment.bytes"),
        "durable": not config.get_bool("kbroker.write.caching"),
        "remote_clients": not all(is_this_host(endpoint.host) for endpoint in config.listeners),
    }
    origin = dict.fromkeys(found, "settings")
    if count := count_partitions(dirs):
        found["partitions"], origin["partitions"] = count, "log dirs"
    if live is not None:
        seen = _seen(live, now_s)
        found |= seen
        origin |= dict.fromkeys(seen, "/metrics")
    found |= known
    origin |= dict.fromkeys(known, "given")
    return replace(Workload(), **found), origin  # type: ignore[arg-type]


def _seen(live: Live, now_s: float) -> dict[str, object]:
    """The workload that a broker's metrics page reports: means since its start."""
    starts = live.values("kbroker_process_start_time_seconds").values()
    seen: dict[str, object] = {}
    if (age := now_s - min(starts, default=now_s)) > 1:
        written = live.total("kbroker_appended_bytes_total")
        if written:
            seen["write_rate"] = written / age
            batches = live.total("kbroker_requests_total", api="Produce")
            seen["batch_bytes"] = max(1, int(written / batches)) if batches else Workload().batch_bytes
    if connections := live.total("kbroker_connections"):
        seen["connections"] = int(connections)
    by_topic = live.values("kbroker_topic_partitions")
    if partitions := sum(count for key, count in by_topic.items() if not dict(key)["topic"].startswith("__")):
        seen["partitions"] = int(partitions)
    by_state = live.values("kbroker_groups")
    if groups := sum(
        count for key, count in by_state.items() if dict(key).get("state") not in WITHOUT_MEMBERS
    ):
        seen["groups"] = int(groups)
    return seen


def count_partitions(dirs: Sequence[str]) -> int:
    """Partition folders of all log dirs, internal topics' aside."""
    names: set[str] = set()
    for folder in dirs:
        try:
            names.update(entry.name for entry in os.scandir(folder) if entry.is_dir())
        except OSError:
            continue
    return sum(1 for name in names if PARTITION.fullmatch(name) and not name.startswith("__"))


def limit_of_broker(processes: Iterable[psutil.Process] | None = None) -> int | None:
    """Hard limit of descriptors of the one broker that runs here; None when there is none or more
    than one."""
    limits = []
    for process in psutil.process_iter() if processes is None else processes:
        try:
            if (process.cmdline() or [""])[0].startswith(CONTROL):
                limits.append(process.rlimit(resource.RLIMIT_NOFILE)[1])
        except psutil.Error:
            continue
    return limits[0] if len(limits) == 1 else None
