import os
from pathlib import Path

from tests.tuning.fakes import FakeRoots
from tuning.host.mounts import UNKNOWN, mounts_of

INFO = """\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
40 27 259:2 / {data} rw,noatime shared:1 - xfs /dev/nvme0n1p2 rw,attr2
41 27 259:3 / {data}/with\\040blank rw - ext4 /dev/nvme1n1 rw,nobarrier
"""
VOLUMES = """\
40 27 259:2 /volumes/one {data}/one rw,noatime - xfs /dev/nvme0n1p2 rw
41 27 259:2 /volumes/two {data}/two ro,relatime - xfs /dev/nvme0n1p2 rw
42 27 259:3 /volumes/three {data}/three rw - xfs /dev/nvme1n1 rw
"""


def test_the_longest_mount_point_above_a_folder_holds_it(tmp_path: Path) -> None:
    data = tmp_path / "data"
    fake = FakeRoots(tmp_path / "root").proc("self/mountinfo", INFO.format(data=data))
    found = mounts_of(fake.roots, (str(data / "a"), str(data / "b"), str(data / "with blank" / "c")))
    assert [(each.point, each.kind, each.device) for each in found] == [
        (str(data), "xfs", "259:2"),
        (str(data / "with blank"), "ext4", "259:3"),
    ]
    assert found[0].dirs == (str(data / "a"), str(data / "b"))
    assert {"noatime", "attr2"} <= found[0].options
    assert "nobarrier" in found[1].options


def test_a_file_system_that_is_mounted_twice_has_its_space_once(tmp_path: Path) -> None:
    """As the volumes of a container that are folders of one disk of its host."""
    data = tmp_path / "data"
    fake = FakeRoots(tmp_path / "root").proc("self/mountinfo", VOLUMES.format(data=data))
    dirs = tuple(str(data / name) for name in ("one", "two", "three"))
    found = mounts_of(fake.roots, dirs)
    assert [(each.point, each.dirs) for each in found] == [(dirs[0], dirs[:2]), (dirs[2], dirs[2:])]
    assert {"noatime", "ro"} <= found[0].options


def test_space_is_that_of_the_nearest_folder_that_exists(tmp_path: Path) -> None:
    fake = FakeRoots(tmp_path / "root").proc("self/mountinfo", INFO.format(data=tmp_path / "data"))
    (found,) = mounts_of(fake.roots, (str(tmp_path / "not" / "there"),))
    assert found.point == "/"
    assert 0 < found.free_bytes <= found.total_bytes


def test_without_mountinfo_nothing_is_claimed(tmp_path: Path) -> None:
    assert mounts_of(FakeRoots(tmp_path).roots, ("/data",)) == ()


def test_a_folder_under_no_listed_mount_has_the_file_system_that_stat_names(tmp_path: Path) -> None:
    """In a chroot, mountinfo has lines of /proc and /dev, and none of the root."""
    only_proc = INFO.splitlines()[0] + "\n"
    fake = FakeRoots(tmp_path / "root").proc("self/mountinfo", only_proc)
    (found,) = mounts_of(fake.roots, (str(tmp_path / "not" / "there"),))
    device = tmp_path.stat().st_dev
    assert (found.point, found.kind) == ("/", UNKNOWN)
    assert found.device == f"{os.major(device)}:{os.minor(device)}"
    assert 0 < found.free_bytes <= found.total_bytes
