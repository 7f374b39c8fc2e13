from pathlib import Path

from tests.tuning.fakes import FakeRoots
from tuning.host.processors import processors_of


def test_governor_clock_and_nodes_are_read(tmp_path: Path) -> None:
    fake = FakeRoots(tmp_path)
    for core in range(2):
        fake.sys(f"devices/system/cpu/cpu{core}/cpufreq/scaling_governor", "powersave\n")
        fake.sys(f"devices/system/node/node{core}/meminfo", "")
    fake.sys("devices/system/clocksource/clocksource0/current_clocksource", "hpet\n")
    fake.sys("devices/system/clocksource/clocksource0/available_clocksource", "hpet acpi_pm \n")
    found = processors_of(fake.roots, 8)
    assert found.clocksources == ("hpet", "acpi_pm")
    assert (found.cores, found.governor, found.clocksource, found.nodes) == (8, "powersave", "hpet", 2)
    assert found.usable_cores == 8


def test_a_node_without_memory_does_not_count(tmp_path: Path) -> None:
    fake = FakeRoots(tmp_path)
    for node, kilobytes in enumerate(("16302428", "0", "10")):
        lines = f"Node {node} MemTotal:       {kilobytes} kB\nNode {node} MemFree:        0 kB\n"
        fake.sys(f"devices/system/node/node{node}/meminfo", lines)
    assert processors_of(fake.roots, 8).nodes == 2


def test_a_quota_of_either_version_leaves_fewer_cores(tmp_path: Path) -> None:
    newer = (
        FakeRoots(tmp_path / "2")
        .proc("self/cgroup", "0::/box\n")
        .sys("fs/cgroup/box/cpu.max", "150000 100000\n")
    )
    assert processors_of(newer.roots, 8).usable_cores == 1.5
    older = FakeRoots(tmp_path / "1").proc("self/cgroup", "4:cpu,cpuacct:/box\n")
    older.sys("fs/cgroup/cpu/box/cpu.cfs_quota_us", "200000\n").sys(
        "fs/cgroup/cpu/box/cpu.cfs_period_us", "100000\n"
    )
    assert processors_of(older.roots, 8).quota_cores == 2


def test_no_quota_is_none(tmp_path: Path) -> None:
    fake = FakeRoots(tmp_path).proc("self/cgroup", "4:cpu:/\n0::/\n").sys("fs/cgroup/cpu.max", "max 100000\n")
    fake.sys("fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n").sys("fs/cgroup/cpu/cpu.cfs_period_us", "100000\n")
    assert processors_of(fake.roots, 8).quota_cores is None
