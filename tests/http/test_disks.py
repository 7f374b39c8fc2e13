"""Disks of log dirs, from a procfs and a sysfs of our own."""

import os
from pathlib import Path

import psutil
import pytest

from kbroker.http.disks import disks_of

LINES = (
    "   7       0 loop0 1 1 1 1 1 1 1 1 0 1 1\n"
    " 104       0 cciss/c0d0 10 0 80 2000 20 0 160 3000 0 4000 5000 1 2 3 4 5 6\n"
)


@pytest.fixture
def devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The disk of tmp_path is cciss/c0d0."""
    (tmp_path / "diskstats").write_text(LINES)
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path))
    folder = tmp_path / "block"
    folder.mkdir()
    number = tmp_path.stat().st_dev
    (folder / f"{os.major(number)}:{os.minor(number)}").symlink_to("../../devices/block/cciss!c0d0")
    return folder


def test_the_disk_of_a_log_dir_is_found_and_no_other(tmp_path: Path, devices: Path) -> None:
    (name,) = found = disks_of([str(tmp_path), str(devices)], devices)
    disk = found[name]
    assert name == "cciss/c0d0"
    assert (disk.read_count, disk.read_bytes, disk.read_time) == (10, 80 * 512, 2000)
    assert (disk.write_count, disk.write_bytes, disk.write_time) == (20, 160 * 512, 3000)
    assert disk.busy_time == 4000


def test_folders_without_a_disk_are_left_out(tmp_path: Path, devices: Path) -> None:
    for link in devices.iterdir():
        link.unlink()
    assert disks_of([str(tmp_path), str(tmp_path / "gone")], devices) == {}
