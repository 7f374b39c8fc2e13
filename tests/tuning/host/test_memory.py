from pathlib import Path

from tests.tuning.fakes import FakeRoots
from tuning.host.memory import memory_of

INFO = """\
MemTotal:       65536000 kB
MemAvailable:   60000000 kB
SwapTotal:       1000000 kB
CommitLimit:    33000000 kB
Committed_AS:   30000000 kB
HugePages_Total:    512
Hugepagesize:       2048 kB
"""


def test_sizes_are_bytes(tmp_path: Path) -> None:
    fake = FakeRoots(tmp_path).proc("meminfo", INFO)
    fake.sys("kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n")
    found = memory_of(fake.roots)
    assert found.total_bytes == 65536000 * 1024
    assert found.swap_bytes == 1000000 * 1024
    assert found.commit_left_bytes == 3000000 * 1024
    assert found.huge_bytes == 1 << 30
    assert found.transparent == "always"
    assert found.limit_bytes is None


def test_the_smallest_limit_up_to_the_root_holds(tmp_path: Path) -> None:
    fake = FakeRoots(tmp_path).proc("meminfo", INFO).proc("self/cgroup", "0::/a.slice/b.service\n")
    fake.sys("fs/cgroup/a.slice/memory.max", "1000000\n").sys(
        "fs/cgroup/a.slice/b.service/memory.max", "max\n"
    )
    found = memory_of(fake.roots)
    assert found.limit_bytes == found.usable_bytes == 1000000


def test_a_limit_of_version_1_holds_too_and_its_none_is_none(tmp_path: Path) -> None:
    fake = FakeRoots(tmp_path).proc("meminfo", INFO).proc("self/cgroup", "5:memory:/box\n0::/\n")
    fake.sys("fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
    assert memory_of(fake.roots).limit_bytes is None
    fake.sys("fs/cgroup/memory/box/memory.limit_in_bytes", "2000000\n")
    assert memory_of(fake.roots).limit_bytes == 2000000


def test_a_host_that_hides_everything_is_not_an_error(tmp_path: Path) -> None:
    found = memory_of(FakeRoots(tmp_path).roots)
    assert (found.total_bytes, found.usable_bytes, found.transparent) == (None, None, None)
