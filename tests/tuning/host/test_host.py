from pathlib import Path

from tests.tuning.fakes import FakeRoots
from tuning.host.host import read_host


def test_a_host_is_read_completely_from_its_roots(tmp_path: Path) -> None:
    fake = FakeRoots(tmp_path / "root").proc("meminfo", "MemTotal: 1000 kB\n")
    fake.proc("self/mountinfo", "27 1 254:0 / / rw - ext4 /dev/vda rw\n")
    host = read_host((str(tmp_path),), fake.roots, 4096)
    assert host.memory.total_bytes == 1024000
    assert host.mounts[0].kind == "ext4"
    assert host.files_limit == 4096
    assert host.sysctl("net.ipv4.tcp_rmem") == "4096 131072 6291456"
    assert host.sysctl_number("vm.swappiness") == 60
    assert host.sysctl_number("net.ipv4.tcp_rmem") is None
    assert host.sysctl("no.such") is None


def test_reclaim_is_read_with_the_host(tmp_path: Path) -> None:
    fake = FakeRoots(tmp_path / "root").sys("module/damon_reclaim/parameters/enabled", "Y\n")
    assert len(read_host((str(tmp_path),), fake.roots, 4096).reclaim.schemes) == 1


def test_the_host_the_tests_run_on_can_be_read() -> None:
    host = read_host(("/",))
    assert host.processors.cores >= 1
    assert host.files_limit
