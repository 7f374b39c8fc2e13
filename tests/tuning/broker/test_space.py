"""Proposals about room on the disks, at their bounds."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from kbroker.config.broker import BrokerConfig
from tests.tuning.fakes import MOUNT, GiB, carrying, on, situation
from tuning.broker.proposal import Proposal
from tuning.broker.space import FULL, MIN_SEGMENT, STEADY, reserving, retention, segments
from tuning.finding import Severity
from tuning.situation import Situation

SETTINGS = {"log.dirs": "/data/logs", "offsets.topic.num.partitions": "50"}


def host(folder: Path, room: int, kind: str = "xfs", **settings: str) -> Situation:
    """A host whose file system has that much room for logs."""
    base = on(situation(folder), mounts=(replace(MOUNT, free_bytes=room, kind=kind),), held_bytes=0)
    return replace(
        base, config=BrokerConfig(SETTINGS | {key.replace("_", "."): v for key, v in settings.items()})
    )


def values(found: list[Proposal]) -> dict[str, str]:
    return {each.key: each.value for each in found}


@pytest.mark.parametrize(
    ("room", "size"),
    [
        (500 * GiB, None),
        (500 * GiB - 5, 1 << 29),
        (300 * GiB, 1 << 29),
        (250 * GiB, 1 << 29),
        (249 * GiB, 1 << 28),
        (1 * GiB, MIN_SEGMENT),
        (0, None),
    ],
)
def test_active_segments_of_all_replicas_take_a_fifth_of_the_room(
    tmp_path: Path, room: int, size: int | None
) -> None:
    load = carrying(host(tmp_path, room), partitions=50, copies=1)
    assert load.replicas * load.config.get_int("log.segment.bytes") == 100 * GiB
    assert values(list(segments(load))) == ({} if size is None else {"log.segment.bytes": str(size)})


def test_segments_are_left_where_partitions_are_a_guess(tmp_path: Path) -> None:
    load = carrying(host(tmp_path, 100 * GiB), partitions=50, copies=1)
    assert list(segments(load))
    assert not list(segments(replace(load, assumed=frozenset({"partitions"}))))


@pytest.mark.parametrize(
    ("rate", "kind", "proposed"),
    [(STEADY, "ext4", True), (STEADY - 1, "ext4", False), (STEADY, "xfs", False)],
)
def test_blocks_are_reserved_where_write_back_is_hardly_ever_idle(
    tmp_path: Path, rate: float, kind: str, proposed: bool
) -> None:
    load = carrying(host(tmp_path, GiB, kind, kbroker_log_reserve_bytes="0"), write_rate=rate, copies=1)
    assert [each.key for each in reserving(load)] == (["kbroker.log.reserve.bytes"] if proposed else [])


def test_each_copy_counts_as_written(tmp_path: Path) -> None:
    base = host(tmp_path, GiB, "ext4", kbroker_log_reserve_bytes="0")
    assert list(reserving(carrying(base, write_rate=STEADY / 2, copies=2)))
    assert not list(reserving(carrying(base, write_rate=STEADY / 2, copies=1)))


def test_whole_segments_are_not_reserved_beside_blocks(tmp_path: Path) -> None:
    base = host(tmp_path, GiB, "ext4", log_preallocate="true", kbroker_log_reserve_bytes="1048576")
    assert values(list(reserving(carrying(base, write_rate=1.0)))) == {"log.preallocate": "false"}
    only = host(tmp_path / "only", GiB, "ext4", log_preallocate="true", kbroker_log_reserve_bytes="0")
    assert not list(reserving(carrying(only, write_rate=1.0)))


@pytest.mark.parametrize(("room", "proposed"), [(10**11, False), (10**11 - 2, True)])
def test_a_bound_is_proposed_where_time_alone_would_fill_the_disks(
    tmp_path: Path, room: int, proposed: bool
) -> None:
    load = carrying(host(tmp_path, room), write_rate=1e6, retention_s=FULL * 1e5, partitions=10, copies=1)
    assert bool(list(retention(load))) is proposed


def test_a_bound_leaves_room_for_the_active_segment(tmp_path: Path) -> None:
    base = host(tmp_path, 10**12, log_segment_bytes=str(GiB))
    load = carrying(base, write_rate=1e7, retention_s=1e6, partitions=50, copies=2)
    (found,) = retention(load)
    assert (found.key, found.severity) == ("log.retention.bytes", Severity.SERIOUS)
    assert found.value == str(int(10**12 * FULL) // 100 - GiB)
    small = carrying(base, write_rate=1e7, retention_s=1e6, partitions=1000, copies=1)
    share = int(10**12 * FULL) // 1000
    assert values(list(retention(small))) == {"log.retention.bytes": str(share - share // 2)}


def test_a_bound_that_is_set_and_endless_retention_are_left(tmp_path: Path) -> None:
    load = carrying(host(tmp_path, 10**9), write_rate=1e7, retention_s=1e6, partitions=1, copies=1)
    assert list(retention(load))
    assert not list(retention(carrying(load, retention_s=math.inf)))
    assert not list(retention(replace(load, assumed=frozenset({"write_rate"}))))
    bounded = BrokerConfig(SETTINGS | {"log.retention.bytes": "5"})
    assert not list(retention(replace(load, config=bounded)))
