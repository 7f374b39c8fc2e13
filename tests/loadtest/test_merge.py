"""Locust's statistics hold what was merged: counts, sums, percentiles below a millisecond,
failures."""

import os
from unittest import mock

import numpy as np
import pytest

from loadtest.histogram import count

# Locust would give this whole test process gevent's sockets and threads
with mock.patch.dict(os.environ, {"LOCUST_SKIP_MONKEY_PATCH": "1"}):
    from locust.stats import RequestStats, StatsEntry

    from loadtest.merge import merge


def test_an_interval_is_added_to_its_entry_and_to_the_total() -> None:
    stats = RequestStats()
    for _ in range(3):
        merge(stats, "produce", "plain", count(np.full(1000, 130_000)), 256_000, failed=2, error="timed out")
    entry = stats.get("plain", "produce")
    assert (entry.num_requests, entry.num_failures, entry.total_content_length) == (3006, 6, 768_000)
    assert stats.total.num_requests == 3006
    assert entry.get_response_time_percentile(0.5) == pytest.approx(0.13, rel=0.05)
    assert entry.avg_response_time == pytest.approx(0.13, rel=0.05)
    assert [error.occurrences for error in stats.errors.values()] == [6]


def test_nothing_is_no_entry() -> None:
    stats = RequestStats()
    merge(stats, "produce", "plain", count(np.empty(0, np.int64)), 0)
    assert not stats.entries


def test_counts_of_a_worker_arrive_at_the_master() -> None:
    worker, master = RequestStats(), RequestStats()
    merge(worker, "produce", "plain", count(np.full(10, 2_000_000)), 10)
    for report in worker.serialize_stats():
        master.entries["plain", "produce"].extend(StatsEntry.unserialize(report, master))
    assert master.get("plain", "produce").num_requests == 10
    assert worker.get("plain", "produce").num_requests == 0
