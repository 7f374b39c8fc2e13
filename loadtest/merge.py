"""Merges a player's figures into Locust's statistics once a second, instead of one event for each
record.

Locust rounds to whole milliseconds when it counts single events; merged here, keys keep two
significant digits, so 0.13 ms stays 0.13 ms in its tables.
"""

import time
from typing import Any

import numpy as np
from locust.stats import RequestStats, StatsEntry, StatsError

from loadtest.histogram import MIDDLES_NS, Counts

ROUNDED_MS = np.array([float(f"{middle / 1e6:.2g}") for middle in MIDDLES_NS])


def merge(
    stats: RequestStats, method: str, name: str, counts: Counts, size: int, failed: int = 0, error: str = ""
) -> None:
    """Adds the requests of one interval: their latencies, bytes, and failures (which have no
    latency)."""
    done = int(counts.sum())
    if done + failed == 0:
        return
    interval = StatsEntry(stats, name, method)
    interval.num_requests = done + failed
    interval.num_none_requests = failed
    interval.num_failures = failed
    interval.total_content_length = size
    now = time.time()
    interval.last_request_timestamp = now
    interval.num_reqs_per_sec[int(now)] = done + failed
    if failed:
        interval.num_fail_per_sec[int(now)] = failed
    used = np.flatnonzero(counts)
    for bucket in used.tolist():
        interval.response_times[ROUNDED_MS[bucket]] += int(counts[bucket])
    if done:
        interval.total_response_time = float((counts * MIDDLES_NS).sum() / 1e6)  # type: ignore[assignment]
        interval.min_response_time = float(ROUNDED_MS[used[0]])  # type: ignore[assignment]
        interval.max_response_time = float(ROUNDED_MS[used[-1]])  # type: ignore[assignment]
    stats.entries[(name, method)].extend(interval)
    stats.total.extend(interval)
    if failed:
        _count_error(stats, method, name, error or "not acknowledged", failed)


def _count_error(stats: RequestStats, method: str, name: str, error: str, occurrences: int) -> None:
    errors: dict[str, Any] = stats.errors
    key = StatsError.create_key(method, name, error)
    if key not in errors:
        errors[key] = StatsError(method, name, error)
    errors[key].occurrences += occurrences
