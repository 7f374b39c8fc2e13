from pathlib import Path

from tests.tuning.fakes import FakeRoots
from tuning.host.disks import Disk, disk_names, disks_of
from tuning.host.mounts import Mount


def disk(fake: FakeRoots, name: str, device: str, **queue: str) -> Path:
    """A disk in sysfs with a link from its number."""
    for key, value in {"scheduler": "[none] mq-deadline", "rotational": "0", **queue}.items():
        fake.sys(f"devices/{name}/queue/{key}", value + "\n")
    folder = fake.roots.sys / "devices" / name
    fake.sys(f"devices/{name}/dev", device)
    for link in (fake.roots.sys / "block" / name, fake.roots.sys / "dev/block" / device):
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(folder)
    return folder


def test_a_partition_is_looked_up_at_its_disk(tmp_path: Path) -> None:
    fake = FakeRoots(tmp_path)
    folder = disk(
        fake, "sda", "8:0", scheduler="none [bfq]", rotational="1", read_ahead_kb="128", nr_requests="64"
    )
    fake.sys("devices/sda/sda1/partition", "1")
    (fake.roots.sys / "dev/block/8:1").symlink_to(folder / "sda1")
    (found,) = disks_of(fake.roots, [Mount("/data", "xfs", "8:1")])
    assert (found.name, found.scheduler, found.schedulers) == ("sda", "bfq", ("none", "bfq"))
    assert (found.kind, found.read_ahead_kb, found.nr_requests) == ("hdd", 128, 64)


def test_a_stripe_is_looked_up_at_the_disks_below_it(tmp_path: Path) -> None:
    fake = FakeRoots(tmp_path)
    disk(fake, "nvme0n1", "259:0")
    disk(fake, "nvme1n1", "259:1")
    disk(fake, "md0", "9:0")
    for name in ("nvme0n1", "nvme1n1"):
        slave = fake.roots.sys / "devices/md0/slaves" / name
        slave.parent.mkdir(exist_ok=True)
        slave.symlink_to(fake.roots.sys / "devices" / name)
    assert disk_names(fake.roots, "9:0") == ("nvme0n1", "nvme1n1")


def test_file_systems_without_a_device_have_no_disk(tmp_path: Path) -> None:
    assert disks_of(FakeRoots(tmp_path).roots, [Mount("/", "tmpfs", "0:33")]) == ()


def test_a_virtual_disk_is_not_taken_for_one_with_heads() -> None:
    assert Disk("vda", "", rotational=True).kind == "virtual"
    assert Disk("sda", "", rotational=False).kind == "ssd"
