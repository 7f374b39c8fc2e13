from dataclasses import replace
from pathlib import Path

from tests.tuning.fakes import DISK, MOUNT, GiB, on, situation
from tuning.live import Live
from tuning.sizing.supply import supply_of


def test_this_hosts_is_what_is_free_and_what_the_logs_hold(tmp_path: Path) -> None:
    live = Live({"kbroker_topic_log_bytes": {(("topic", "t"),): 5e9}})
    found = supply_of(replace(situation(tmp_path), live=live))
    assert (found.disk_bytes, found.held_bytes) == (MOUNT.free_bytes + 5e9, 5e9)
    assert supply_of(replace(situation(tmp_path), live=live), 4e12).held_bytes == 0, "another disk"
    assert (found.memory_bytes, found.cores, found.network_rate) == (64 * GiB, 16, None)


def test_a_full_disk_is_no_unknown_one(tmp_path: Path) -> None:
    full = on(situation(tmp_path), mounts=(replace(MOUNT, free_bytes=0),))
    assert supply_of(full).disk_bytes == 0
    assert supply_of(on(full, mounts=(replace(MOUNT, total_bytes=0, free_bytes=0),))).disk_bytes is None


def test_disks_add_up(tmp_path: Path) -> None:
    base = situation(tmp_path)
    mounts = (MOUNT, replace(MOUNT, point="/other", device="259:2"))
    two = on(base, mounts=mounts, disks=(DISK, replace(DISK, name="nvme1n1")))
    assert supply_of(two).write_rate == 2 * supply_of(base).write_rate
    unseen = on(base, mounts=mounts, disks=())
    assert supply_of(unseen).write_rate == 2 * supply_of(base).write_rate


def test_file_systems_on_one_disk_share_its_speed(tmp_path: Path) -> None:
    base = situation(tmp_path)
    two = on(base, mounts=(MOUNT, replace(MOUNT, point="/other", device="259:2")))
    assert supply_of(two) == replace(supply_of(base), disk_bytes=2 * MOUNT.free_bytes)


def test_given_values_describe_a_host_that_is_yet_to_be_bought(tmp_path: Path) -> None:
    found = supply_of(situation(tmp_path), 4e12, 128e9, 3e9, 64)
    assert (found.disk_bytes, found.memory_bytes, found.network_rate, found.cores) == (4e12, 128e9, 3e9, 64)
