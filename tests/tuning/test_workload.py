"""Rates that follow from a workload."""

import pytest

from tuning.workload import Workload


def test_writes_reach_the_disk_of_each_copy() -> None:
    assert Workload(write_rate=10e6).disk_write_rate == 10e6
    assert Workload(write_rate=10e6, copies=3).disk_write_rate == 30e6


def test_groups_that_lag_read_faster_than_is_written_and_from_the_disk() -> None:
    load = Workload(write_rate=10e6, groups=3, lagging_groups=2, drain=1.5, copies=2)
    assert (load.read_rate, load.cold_read_rate) == (60e6, 30e6)
    live = Workload(write_rate=10e6, groups=3)
    assert (live.read_rate, live.cold_read_rate) == (30e6, 0)


def test_each_live_group_fetches_once_for_each_round_of_produce() -> None:
    assert Workload(write_rate=16384e3, batch_bytes=16384, groups=0).requests == pytest.approx(1000)
    load = Workload(write_rate=16384e3, batch_bytes=4096, groups=2, lagging_groups=5)
    assert load.requests == pytest.approx(12_000)
