import math
from dataclasses import replace
from pathlib import Path

import pytest

from kbroker.config.broker import BrokerConfig
from tests.tuning.fakes import GiB, carrying, situation
from tuning.coefficients import LOOP_CPU, TLS_CPU, BrokerCosts, Coefficients
from tuning.sizing import demand
from tuning.sizing.supply import Supply

SUPPLY = Supply(1e12, 1e9, 500e6, 64e9, 1.25e9, 8.0, 1 << 20)


def test_disk_space_is_retention_active_segments_and_indexes(tmp_path: Path) -> None:
    base = carrying(
        situation(tmp_path),
        write_rate=1e6,
        retention_s=86400.0,
        partitions=10,
        segment_bytes=1 << 30,
        copies=2,
    )
    assert demand.log_bytes(base) == pytest.approx((2 * 86.4e9 + 20 * GiB) * 1.005)
    need = demand.disk_space(base, SUPPLY)
    assert need.share == pytest.approx(demand.log_bytes(base) / 0.8e12)


def test_active_segments_hold_no_more_than_is_written_until_they_roll(tmp_path: Path) -> None:
    base = carrying(situation(tmp_path), write_rate=1000.0, retention_s=0.0, partitions=1000)
    assert demand.log_bytes(base) == pytest.approx(1000 * 7 * 86400 * 1.005)


def test_endless_retention_says_when_the_disk_is_full(tmp_path: Path) -> None:
    need = demand.disk_space(carrying(situation(tmp_path), write_rate=1e6, retention_s=math.inf), SUPPLY)
    assert (need.share, need.endless) == (math.inf, True)
    assert "full in 9.26 d" in need.needed
    base = carrying(situation(tmp_path), write_rate=1e6, retention_s=math.inf)
    half = demand.disk_space(base, replace(SUPPLY, held_bytes=0.4e12))
    assert "full in 4.63 d" in half.needed, "what logs hold already stays, too"
    assert "full in 0 ms" in demand.disk_space(base, replace(SUPPLY, held_bytes=0.9e12)).needed
    assert "MB/s forever, active segments" in need.how


def test_a_bound_by_size_ends_what_is_kept(tmp_path: Path) -> None:
    base = carrying(situation(tmp_path), write_rate=1e6, retention_s=math.inf, partitions=10)
    config = BrokerConfig({"log.dirs": "/data/logs", "log.retention.bytes": str(GiB)})
    need = demand.disk_space(replace(base, config=config), SUPPLY)
    assert need.share == pytest.approx(20 * GiB * 1.005 / 0.8e12)


def test_nothing_fits_on_a_full_disk(tmp_path: Path) -> None:
    assert demand.disk_space(situation(tmp_path), Supply(0.0)).share == math.inf


def test_writes_and_cold_reads_share_the_disks_time(tmp_path: Path) -> None:
    base = carrying(situation(tmp_path), write_rate=100e6, lagging_groups=1, drain=2.0)
    need = demand.disk_time(base, SUPPLY)
    assert need.share == pytest.approx((0.1 + 0.4) / 0.7)
    assert need.how.endswith("1 disk, 70% of the time")


def test_memory_is_processes_and_the_cache_of_live_groups(tmp_path: Path) -> None:
    base = carrying(situation(tmp_path), write_rate=100e6, lag_s=60.0)
    assert demand.cache_bytes(base) == 100e6 * 90
    more = carrying(base, connections=base.workload.connections + 1000)
    assert demand.process_bytes(more) - demand.process_bytes(base) == pytest.approx(11e6)
    horizon = demand.cache_horizon_s(base, SUPPLY)
    assert horizon == pytest.approx((64e9 * 0.9 - demand.process_bytes(base)) / 100e6)


def test_the_busier_direction_counts_for_remote_clients(tmp_path: Path) -> None:
    base = carrying(situation(tmp_path), write_rate=100e6, groups=3)
    assert demand.network(base, SUPPLY).share == pytest.approx(300e6 / (1.25e9 * 0.7))
    unknown = demand.network(base, Supply())
    assert (unknown.share, unknown.have) == (None, "unknown (--nic)")
    assert demand.network(carrying(base, remote_clients=False), Supply(cores=2.0)).share is not None


def test_cores_follow_the_hosts_own_loop(tmp_path: Path) -> None:
    base = carrying(situation(tmp_path), write_rate=1e9, groups=1, batch_bytes=1 << 30)
    same = replace(base, coefficients=Coefficients("m", send_cpu=LOOP_CPU, receive_cpu=1e-12))
    assert sum(demand.cpu_cores(same)) == pytest.approx(0.39 + 0.19, rel=0.01)
    twice = replace(base, coefficients=Coefficients("m", send_cpu=2 * LOOP_CPU, receive_cpu=1e-12))
    assert sum(demand.cpu_cores(twice)) == pytest.approx(2 * sum(demand.cpu_cores(same)))


def test_small_requests_cost_cores(tmp_path: Path) -> None:
    base = carrying(situation(tmp_path), write_rate=10e6, groups=0)
    small, large = carrying(base, batch_bytes=100), carrying(base, batch_bytes=100_000)
    assert sum(demand.cpu_cores(small)) > 20 * sum(demand.cpu_cores(large))


def test_tls_costs_cores_in_both_directions_by_the_hosts_own_tls(tmp_path: Path) -> None:
    plain = carrying(situation(tmp_path), write_rate=1e9, groups=2, batch_bytes=1 << 30)
    plain = replace(plain, coefficients=Coefficients("m", tls_cpu=TLS_CPU))
    tls = carrying(plain, tls=True)
    costs = BrokerCosts()
    more = [
        after - before for before, after in zip(demand.cpu_cores(plain), demand.cpu_cores(tls), strict=True)
    ]
    assert more == pytest.approx([costs.tls_in_cpu, 2 * costs.tls_out_cpu])
    slow = replace(tls, coefficients=Coefficients("m", tls_cpu=2 * TLS_CPU))
    assert sum(demand.cpu_cores(slow)) - sum(demand.cpu_cores(tls)) == pytest.approx(sum(more))
    assert "over TLS" in demand.cores(tls, SUPPLY).how
    assert "over TLS" not in demand.cores(plain, SUPPLY).how


def test_lagging_groups_read_ahead_in_as_many_partitions_as_are_read_at_a_time(tmp_path: Path) -> None:
    config = BrokerConfig({"num.network.threads": "2"})
    base = replace(situation(tmp_path), config=config)
    few = carrying(base, write_rate=0.0, lagging_groups=3, partitions=5)
    many = carrying(few, partitions=100)
    assert demand.cache_bytes(few) == 3 * 5 * demand.READ_AHEAD
    assert demand.cache_bytes(many) == 3 * 8 * demand.READ_AHEAD


def test_arenas_take_a_tenth_of_a_second_of_requests_as_far_as_they_reach(tmp_path: Path) -> None:
    base = carrying(situation(tmp_path), write_rate=0.0)
    fixed = demand.process_bytes(base)
    assert demand.process_bytes(carrying(base, write_rate=10e6)) - fixed == pytest.approx(1e6)
    endless = demand.process_bytes(carrying(base, write_rate=1e18)) - fixed
    assert endless == pytest.approx(base.arena_bytes)


def test_memory_may_be_used_to_nine_tenths(tmp_path: Path) -> None:
    base = carrying(situation(tmp_path), write_rate=100e6)
    needed = demand.process_bytes(base) + demand.cache_bytes(base)
    assert demand.memory(base, SUPPLY).share == pytest.approx(needed / (64e9 * 0.9))
    assert demand.memory(base, Supply()).share is None


def test_no_consumer_has_a_horizon_without_writes_or_memory(tmp_path: Path) -> None:
    base = carrying(situation(tmp_path), write_rate=100e6)
    assert demand.cache_horizon_s(base, Supply()) is None
    assert demand.cache_horizon_s(carrying(base, write_rate=0.0), SUPPLY) is None
    assert demand.cache_horizon_s(base, Supply(memory_bytes=1.0)) == 0.0


def test_clients_of_this_host_need_a_core_on_each_side_of_loopback(tmp_path: Path) -> None:
    base = replace(situation(tmp_path), coefficients=Coefficients("m", loopback_rate=1e9))
    load = carrying(base, write_rate=100e6, groups=1, remote_clients=False)
    assert demand.network(load, Supply(cores=4.0)).share == pytest.approx(100e6 / (2e9 * 0.7))
    without = carrying(load, groups=0)
    assert demand.network(without, Supply(cores=4.0)).share == pytest.approx(100e6 / (2e9 * 0.7))


def test_requests_are_shared_between_both_directions_by_their_bytes(tmp_path: Path) -> None:
    base = replace(situation(tmp_path), coefficients=Coefficients("m", send_cpu=LOOP_CPU, receive_cpu=1e-12))
    load = carrying(base, write_rate=1e6, groups=3, batch_bytes=1000)
    costs = base.costs
    each = 4000 * costs.request_cpu
    expected = (1e-3 * costs.in_cpu + each / 4, 3e-3 * costs.out_cpu + each * 3 / 4)
    assert demand.cpu_cores(load) == pytest.approx(expected)
    assert demand.cpu_cores(carrying(load, write_rate=0.0)) == (0.0, 0.0)
    assert demand.cores(load, Supply(cores=2.0)).share == pytest.approx(sum(expected) / 1.4)


def test_descriptors_may_be_used_up(tmp_path: Path) -> None:
    base = situation(tmp_path)
    need = demand.descriptors(base, Supply(files=base.files_needed))
    assert (need.share, need.needed) == (1.0, str(base.files_needed))
    assert demand.descriptors(base, Supply()).share is None


def test_a_share_is_of_the_usable_part() -> None:
    assert demand.share_of(4.0, 10.0, 0.8) == 0.5
    assert demand.share_of(4.0, 0.0, 0.8) == math.inf
    assert demand.share_of(4.0, None, 0.8) is None
