import math
from dataclasses import replace
from pathlib import Path

import pytest

from kbroker.config.broker import BROKER, BrokerConfig
from tests.tuning.fakes import MOUNT, GiB, carrying, on, situation
from tuning.broker.proposal import Proposal
from tuning.broker.rules import choices, left_out, propose
from tuning.coefficients import LOOP_CPU, Coefficients
from tuning.finding import Severity
from tuning.host.network import Interface, Network
from tuning.live import Live
from tuning.situation import Situation
from tuning.workload import Workload


def proposed(base: Situation) -> dict[str, Proposal]:
    return {each.key: each for each in propose(base)}


def with_settings(base: Situation, **pairs: str) -> Situation:
    settings = dict(base.config.static) | {key.replace("__", "."): value for key, value in pairs.items()}
    return replace(base, config=BrokerConfig(settings))


def test_a_fitting_host_is_left_alone(tmp_path: Path) -> None:
    assert propose(situation(tmp_path)) == []


def test_nothing_is_proposed_because_of_a_workload_that_was_only_assumed(tmp_path: Path) -> None:
    base = replace(situation(tmp_path), workload=Workload(write_rate=5e9, partitions=100_000 // 8))
    guessed = replace(base, assumed=frozenset({"write_rate", "partitions", "rtt_ms"}))
    assert {"log.retention.bytes", "log.segment.bytes"} <= proposed(base).keys()
    assert proposed(guessed).keys() == set()


def test_a_guessed_round_trip_asks_for_no_buffers(tmp_path: Path) -> None:
    fast = on(situation(tmp_path), network=Network((Interface("eth0", 12.5e9),)))
    far = replace(fast, workload=replace(fast.workload, rtt_ms=0.5))
    assert "socket.send.buffer.bytes" in proposed(far)
    assert not proposed(replace(far, assumed=frozenset({"rtt_ms"})))


def test_missing_options_are_prompted_for(tmp_path: Path) -> None:
    base = situation(tmp_path)
    assert left_out(base) == []
    (text,) = left_out(replace(base, assumed=frozenset({"write_rate"})))
    assert "--rate" in text
    assert "log.retention.bytes" in text
    assert "log.segment.bytes" not in text


def test_processes_that_are_set_keep_within_a_quota(tmp_path: Path) -> None:
    base = situation(tmp_path)
    found = proposed(on(base, processors=replace(base.host.processors, quota_cores=4.0)))
    assert (found["num.network.threads"].value, found["num.io.threads"].value) == ("2", "1")
    assert found["num.network.threads"].severity is Severity.SERIOUS


def test_network_processes_follow_a_known_rate(tmp_path: Path) -> None:
    base = with_settings(situation(tmp_path), num__network__threads="1")
    measured = replace(
        base, coefficients=Coefficients("measured", send_cpu=LOOP_CPU / 2, receive_cpu=LOOP_CPU / 2)
    )
    found = proposed(carrying(measured, write_rate=1e9, batch_bytes=1 << 20, groups=2))
    assert found["num.network.threads"].value == "2"  # 0.39 + 2 * 0.19 and some requests, 0.6 of a core each


def test_a_host_of_many_cores_gets_as_many_network_processes_as_its_rate_needs(tmp_path: Path) -> None:
    base = with_settings(situation(tmp_path), num__network__threads="8")
    wide = on(base, processors=replace(base.host.processors, cores=64))
    measured = replace(
        wide, coefficients=Coefficients("measured", send_cpu=LOOP_CPU / 2, receive_cpu=LOOP_CPU / 2)
    )
    found = proposed(carrying(measured, write_rate=20e9, batch_bytes=1 << 20, groups=2))
    assert 8 < int(found["num.network.threads"].value) <= 63


def test_arenas_leave_three_quarters_of_the_memory(tmp_path: Path) -> None:
    base = situation(tmp_path)
    small = on(base, memory=replace(base.host.memory, limit_bytes=2 * GiB))
    value = int(proposed(small)["kbroker.arena.bytes"].value)
    assert value * 5 <= GiB // 2 < 2 * value * 5
    assert BROKER["kbroker.arena.bytes"].parse(str(value)) == value


def test_a_half_full_arena_is_doubled(tmp_path: Path) -> None:
    used = Live({"kbroker_arena_used_bytes": {(("process", "network-0"),): 200e6}})
    assert proposed(replace(situation(tmp_path), live=used))["kbroker.arena.bytes"].value == str(512 << 20)


def test_the_partition_table_has_room_for_a_quarter_more(tmp_path: Path) -> None:
    found = proposed(carrying(situation(tmp_path), partitions=40_000, segment_bytes=1))
    assert found["kbroker.max.partitions"].value == "51000"


def test_durable_acks_are_shared_syncs(tmp_path: Path) -> None:
    found = proposed(
        with_settings(carrying(situation(tmp_path), durable=True), log__flush__interval__messages="1")
    )
    assert found["kbroker.write.caching"].value == "false"
    assert found["log.flush.interval.messages"].value == str(2**63 - 1)


def test_remote_clients_far_away_get_the_kernels_own_buffers(tmp_path: Path) -> None:
    base = carrying(situation(tmp_path), rtt_ms=20.0)
    assert proposed(base)["socket.send.buffer.bytes"].value == "-1"
    assert not proposed(carrying(base, remote_clients=False))
    near = on(carrying(base, rtt_ms=0.1), network=Network((Interface("eth0", 125e6),)))
    assert not proposed(near)


def test_a_congestion_control_that_the_kernel_lacks_is_left_out(tmp_path: Path) -> None:
    base = situation(tmp_path, net__ipv4__tcp_available_congestion_control="cubic")
    assert proposed(base)["kbroker.local.congestion.control"].value == ""


def test_the_backlog_is_for_all_clients_as_far_as_the_kernel_allows(tmp_path: Path) -> None:
    base = carrying(situation(tmp_path, net__core__somaxconn="2048"), connections=5000)
    short = with_settings(base, socket__listen__backlog__size="50")
    assert proposed(short)["socket.listen.backlog.size"].value == "2048"


def test_a_backlog_that_is_not_set_is_already_the_kernels_and_is_not_shortened(tmp_path: Path) -> None:
    base = carrying(situation(tmp_path, net__core__somaxconn="65535"), connections=5000)
    assert "socket.listen.backlog.size" not in proposed(base)


def test_segments_shrink_until_active_ones_take_a_fifth(tmp_path: Path) -> None:
    value = int(proposed(carrying(situation(tmp_path), partitions=1000))["log.segment.bytes"].value)
    assert value * 1050 <= MOUNT.total_bytes * 0.2
    assert BROKER["log.segment.bytes"].parse(str(value)) == value


def test_blocks_are_reserved_ahead_of_fast_logs_on_ext4(tmp_path: Path) -> None:
    key = "kbroker.log.reserve.bytes"
    busy = carrying(situation(tmp_path), write_rate=50e6, retention_s=3600.0)
    off = with_settings(busy, **{key: "0"})
    ext4 = on(off, mounts=(replace(MOUNT, kind="ext4"),))
    assert proposed(ext4)[key].value == str(BROKER[key].default)
    assert key not in proposed(on(off, mounts=(replace(MOUNT, kind="xfs"),)))
    assert key not in proposed(carrying(ext4, write_rate=1e6))
    assert key not in proposed(with_settings(ext4, log__preallocate="true"))


def test_full_segments_are_not_reserved_where_chunks_are(tmp_path: Path) -> None:
    busy = carrying(situation(tmp_path), write_rate=50e6, retention_s=3600.0)
    both = on(with_settings(busy, log__preallocate="true"), mounts=(replace(MOUNT, kind="ext4"),))
    assert proposed(both)["log.preallocate"].value == "false"
    assert "log.preallocate" not in proposed(on(both, mounts=(replace(MOUNT, kind="xfs"),)))


def test_a_bound_by_size_keeps_the_disk_from_filling(tmp_path: Path) -> None:
    found = proposed(carrying(situation(tmp_path), write_rate=200e6, partitions=100, retention_s=7 * 86400.0))
    bound = found["log.retention.bytes"]
    assert bound.severity is Severity.SERIOUS
    assert 100 * (int(bound.value) + (1 << 30)) <= MOUNT.free_bytes * 0.81


def test_a_bound_counts_what_is_free_and_what_the_logs_hold(tmp_path: Path) -> None:
    small = replace(MOUNT, total_bytes=int(256e9), free_bytes=int(79e9))
    base = on(
        carrying(situation(tmp_path), write_rate=1e6, partitions=10, retention_s=3 * 86400.0), mounts=(small,)
    )
    alone = int(proposed(base)["log.retention.bytes"].value)
    assert 10 * alone < 79e9 * 0.8
    held = on(base, held_bytes=int(20e9))
    assert 10 * (int(proposed(held)["log.retention.bytes"].value) - alone) == pytest.approx(16e9, rel=0.01)


def test_a_bound_says_what_it_cuts_and_why(tmp_path: Path) -> None:
    small = replace(MOUNT, total_bytes=int(256e9), free_bytes=int(79e9))
    base = carrying(situation(tmp_path), write_rate=100e6, partitions=10, retention_s=3 * 86400.0)
    why = proposed(on(base, mounts=(small,)))["log.retention.bytes"].why
    for words in ("earlier than the 3 d that are set: after 8.7", " min at 100 MB/s", "25.9 TB", "79 GB"):
        assert words in why


def test_records_to_be_kept_for_ever_are_not_bounded(tmp_path: Path) -> None:
    assert not proposed(carrying(situation(tmp_path), write_rate=1e6, partitions=10, retention_s=math.inf))


def test_copies_lie_on_file_systems_of_their_own(tmp_path: Path) -> None:
    mounts = (replace(MOUNT, point="/a", dirs=("/a/x",)), replace(MOUNT, point="/b", dirs=("/b/y",)))
    base = on(carrying(situation(tmp_path), copies=2), mounts=mounts, log_dirs=("/a/x", "/b/y"))
    found = proposed(base)
    assert found["log.dirs"].value == "/a/x,/b/y"
    assert found["kbroker.replica.sites"].value == "/a/x;/b/y"


@pytest.mark.parametrize("quota", [None, 1.0, 3.0])
@pytest.mark.parametrize(
    "load", [{}, {"write_rate": 900e6, "partitions": 30_000, "connections": 9000, "durable": True}]
)
def test_proposed_settings_are_accepted_by_the_broker(
    tmp_path: Path, quota: float | None, load: dict[str, object]
) -> None:
    base = situation(tmp_path)
    base = carrying(on(base, processors=replace(base.host.processors, quota_cores=quota)), **load)
    pairs = {each.key: each.value for each in propose(base)}
    assert pairs.keys() <= BROKER.keys()
    _, warnings = BrokerConfig.load({**base.config.static, **pairs})
    assert not [text for text in warnings if any(key in text for key in pairs)]


def test_polling_is_mentioned_only_where_cores_are_left_for_it(tmp_path: Path) -> None:
    base = situation(tmp_path)  # 4 network processes and 4 IO workers
    processors = base.host.processors
    (text,) = choices(on(base, processors=replace(processors, cores=10)))
    assert "kbroker.busy.poll.network.us=" in text
    assert choices(on(base, processors=replace(processors, cores=9))) == []
    assert choices(on(base, processors=replace(processors, quota_cores=9.0))) == []
    assert choices(with_settings(base, kbroker__busy__poll__io__us="100")) == []
    assert "kbroker.busy.poll.io.us" not in proposed(base)
