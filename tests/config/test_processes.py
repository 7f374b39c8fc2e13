"""Default counts of processes: of the cores that may be used, within the cgroup's quota of their
time."""

import os
from pathlib import Path

import pytest

from kbroker.config import processes
from kbroker.config.broker import BrokerConfig
from kbroker.config.processes import _share, cgroup_path, cpu_quota, default_counts


def host(root: Path, cgroup: str, **files: str) -> float | None:
    """The quota of a host with these files below its cgroup mount; a dash in a name stands for a
    slash."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(cgroup)
    for name, content in files.items():
        path = root / "sys/fs/cgroup" / name.replace("-", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return cpu_quota(root / "proc", root / "sys")


@pytest.mark.parametrize(
    ("cgroup", "files", "quota"),
    [
        ("0::/\n", {"cpu.max": "150000 100000\n"}, 1.5),  # a container sees itself at the top
        ("0::/a/b\n", {"a-b-cpu.max": "max 100000\n", "a-cpu.max": "300000 100000\n"}, 3.0),
        ("0::/a/b\n", {"a-b-cpu.max": "100000 100000\n", "a-cpu.max": "300000 100000\n"}, 1.0),
        ("0::/a\n", {"a-cpu.max": "max 100000\n"}, None),
        ("0::/a\n", {"a-cpu.max": ""}, None),
        ("0::/not/here\n", {}, None),
        (
            "4:cpu,cpuacct:/a\n",
            {"cpu-a-cpu.cfs_quota_us": "50000\n", "cpu-a-cpu.cfs_period_us": "100000\n"},
            0.5,
        ),
        ("4:cpu:/\n", {"cpu-cpu.cfs_quota_us": "-1\n", "cpu-cpu.cfs_period_us": "100000\n"}, None),
        ("", {}, None),
    ],
)
def test_the_quota_is_the_smallest_from_the_cgroup_to_the_root(
    tmp_path: Path, cgroup: str, files: dict[str, str], quota: float | None
) -> None:
    assert host(tmp_path, cgroup, **files) == quota


def test_without_procfs_there_is_no_quota(tmp_path: Path) -> None:
    assert cpu_quota(tmp_path, tmp_path) is None


@pytest.mark.parametrize(
    ("allowed", "quota", "network", "io"),
    [
        (16, None, 8, 4),
        (16, 16.0, 8, 4),
        (16, 3.5, 2, 1),  # four cores, as Java counts them
        (64, 0.2, 1, 1),
        (4, 8.0, 2, 1),
        (64, 40.0, 8, 8),
    ],
)
def test_defaults_keep_within_the_quota(
    monkeypatch: pytest.MonkeyPatch, allowed: int, quota: float | None, network: int, io: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(allowed)))
    monkeypatch.setattr(processes, "_quota", lambda: quota)
    config = BrokerConfig()
    assert (config.get_int("num.network.threads"), config.get_int("num.io.threads")) == (network, io)


@pytest.mark.parametrize(
    ("cores", "counts"),
    [
        (1, (1, 1)),
        (3, (1, 1)),
        (4, (2, 1)),
        (7, (3, 1)),
        (8, (4, 2)),
        (16, (8, 4)),
        (31, (8, 7)),
        (32, (8, 8)),
        (256, (8, 8)),
    ],
)
def test_half_of_the_cores_parse_and_a_quarter_append(cores: int, counts: tuple[int, int]) -> None:
    assert default_counts(cores) == counts


@pytest.mark.parametrize(
    ("words", "share"),
    [
        (["150000", "100000"], 1.5),
        (["max", "100000"], None),
        (["-1", "100000"], None),
        (["0", "100000"], None),
        (["100000", "0"], None),
        (["100000"], None),
        ([], None),
        (["1", "2", "3"], None),
    ],
)
def test_a_quota_is_a_share_of_a_period(words: list[str], share: float | None) -> None:
    assert _share(words) == share


def test_a_cgroup_is_that_of_its_controller(tmp_path: Path) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "cgroup").write_text("4:memory:/m\n3:cpu,cpuacct:/c/d\n1:name=systemd:/s\n0::/u/v\n")
    found = [cgroup_path(controller, tmp_path) for controller in ("", "cpu", "cpuacct", "memory", "io")]
    assert found == ["u/v", "c/d", "c/d", "m", None]
    assert cgroup_path("", tmp_path / "none") is None
