"""One sample of the overview: rates and quantiles between two readings. Pure."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from kbroker.http.console.readings import APIS, Reading, Words
from kbroker.metrics.bounds import quantile_ns
from kbroker.metrics.labels import PHASES

RATES = ("in_bytes", "in_records", "out_bytes", "requests", "errors")
LOOPBACK = "lo"


def sample(before: Reading, now: Reading) -> dict[str, Any]:
    """The members of a sample that come from readings. Rates are per second unless the name has
    another unit."""
    seconds = max(now.at_s - before.at_s, 1e-3)
    rates = {name: _rate(before.totals, now.totals, name, seconds) for name in RATES}
    topics = {
        name: {key: _rate(before.topics.get(name, counts), counts, key, seconds) for key in counts}
        for name, counts in now.topics.items()
    }
    cold = sum(rate["cold_bytes"] for rate in topics.values())
    return {
        **rates,
        "cold_share": min(1.0, cold / rates["out_bytes"]) if rates["out_bytes"] > 0 else 0.0,
        "connections": now.totals["connections"],
        "deaths": now.deaths,
        "stages": {api.lower(): _stages(api, before, now) for api in APIS},
        "disks": _disks(before, now, seconds),
        "nics": _nics(before, now, seconds),
        "processes": _processes(before, now, seconds),
        "limits": dict(now.limits),
        "topics": topics,
    }


def _rate(before: Mapping[str, int], now: Mapping[str, int], name: str, seconds: float) -> float:
    return round(max(0, now[name] - before.get(name, 0)) / seconds, 1)


def _stages(api: str, before: Reading, now: Reading) -> dict[str, dict[str, float | int]]:
    """p50 and p99 in ms of each phase with requests."""
    found = {}
    for phase in PHASES:
        words: Words = now.stages[api, phase] - before.stages[api, phase]
        count = int(words.sum())
        if count <= 0:
            continue
        counts = np.maximum(words, 0).tolist()
        found[phase] = {
            "count": count,
            "p50_ms": round(quantile_ns(counts, 0.5) / 1e6, 3),
            "p99_ms": round(quantile_ns(counts, 0.99) / 1e6, 3),
        }
    return found


def _disks(before: Reading, now: Reading, seconds: float) -> list[dict[str, Any]]:
    found = []
    for name, values in sorted(now.disks.items()):
        read, written, operations, spent_ms, busy_ms = (
            max(0, new - old) for new, old in zip(values, before.disks.get(name, values), strict=True)
        )
        found.append(
            {
                "name": name,
                "read_bytes": round(read / seconds, 1),
                "write_bytes": round(written / seconds, 1),
                "operations": round(operations / seconds, 1),
                "await_ms": round(spent_ms / operations, 3) if operations else 0.0,
                "busy": round(min(1.0, busy_ms / 1000 / seconds), 4),
                "used": _used(read / seconds, written / seconds, now.limits),
            }
        )
    return found


def _used(read: float, written: float, limits: Mapping[str, float]) -> float | None:
    """Share of a disk's measured speed: reads and writes share its time. None without a
    measurement."""
    if not {"disk_read", "disk_write"} <= limits.keys():
        return None
    return round(read / limits["disk_read"] + written / limits["disk_write"], 4)


def _nics(before: Reading, now: Reading, seconds: float) -> list[dict[str, Any]]:
    found = []
    for name, values in sorted(now.nics.items(), key=lambda item: (item[0] == LOOPBACK, item[0])):
        old = before.nics.get(name, values)
        found.append(
            {
                "name": name,
                "in_bytes": round(max(0, values[0] - old[0]) / seconds, 1),
                "out_bytes": round(max(0, values[1] - old[1]) / seconds, 1),
                "speed_bytes": values[2] or (_loopback(now.limits) if name == LOOPBACK else None),
            }
        )
    return found


def _loopback(limits: Mapping[str, float]) -> int | None:
    """As measured: the driver reports no speed."""
    return int(limits["loopback"]) if "loopback" in limits else None


def _processes(before: Reading, now: Reading, seconds: float) -> list[dict[str, Any]]:
    def share(earlier: Mapping[str, float], later: Mapping[str, float], name: str) -> float:
        total = later.get(name, 0.0)
        return round(max(0.0, total - earlier.get(name, total)) / seconds, 4)

    return [
        {
            "name": name,
            "cpu": share(before.cpu, now.cpu, name),
            "polling": min(share(before.cpu, now.cpu, name), share(before.polling, now.polling, name)),
            "memory_bytes": now.memory.get(name, 0),
        }
        for name in now.cpu
    ]
