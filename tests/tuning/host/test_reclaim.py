from pathlib import Path

import pytest

from tests.tuning.fakes import FakeRoots
from tests.tuning.host.kdamond import with_kdamond
from tuning.host.reclaim import ADMIN, Reclaim, reclaim_of


def filtered(fake: FakeRoots, kind: str, *filters: tuple[str, str, str | None]) -> FakeRoots:
    """Filters of a scheme: type, matching, allow."""
    for place, (what, matching, allow) in enumerate(filters):
        folder = f"{ADMIN}/0/contexts/0/schemes/0/{kind}/{place}"
        fake.sys(f"{folder}/type", what).sys(f"{folder}/matching", matching)
        if allow is not None:
            fake.sys(f"{folder}/allow", allow)
    return fake


def test_a_host_without_it_has_none(tmp_path: Path) -> None:
    assert reclaim_of(FakeRoots(tmp_path).roots) == Reclaim()


def test_a_scheme_that_pages_out_says_after_which_time_and_how_fast(tmp_path: Path) -> None:
    (found,) = reclaim_of(with_kdamond(FakeRoots(tmp_path)).roots).schemes
    assert (found.after_s, found.bytes_per_s) == (60.0, 128 << 20)
    assert found.switch == "echo off > /sys/kernel/mm/damon/admin/kdamonds/0/state"


def test_the_scheme_that_waits_least_comes_first(tmp_path: Path) -> None:
    fake = with_kdamond(FakeRoots(tmp_path))
    later = f"{ADMIN}/0/contexts/0/schemes/1"
    fake.sys(f"{later}/action", "pageout").sys(f"{later}/access_pattern/age/min", "6")
    first = reclaim_of(fake.roots).first
    assert first is not None
    assert (first.after_s, first.bytes_per_s) == (30.0, None)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("state", "off"),
        ("contexts/0/operations", "vaddr"),
        ("contexts/0/schemes/0/action", "stat"),
        ("contexts/0/schemes/0/action", "lru_prio"),
    ],
)
def test_memory_that_takes_nothing_from_the_page_cache_is_not_counted(
    tmp_path: Path, name: str, value: str
) -> None:
    fake = with_kdamond(FakeRoots(tmp_path)).sys(f"{ADMIN}/0/{name}", value)
    assert reclaim_of(fake.roots) == Reclaim()


@pytest.mark.parametrize(
    ("filters", "spared"),
    [
        ([("anon", "Y", "N"), ("unmapped", "Y", "Y")], False),  # unmapped files alone, as seen
        ([("anon", "Y", None)], False),
        ([("anon", "N", None)], True),  # only anonymous memory, before Linux 6.14
        ([("anon", "N", "N")], True),
        ([("anon", "Y", "Y")], True),  # nothing but what is allowed
        ([("unmapped", "Y", "N")], True),
        ([("memcg", "Y", "N"), ("anon", "N", "N")], False),  # of another cgroup, maybe
    ],
)
@pytest.mark.parametrize("kind", ["filters", "core_filters", "ops_filters"])
def test_filters_may_spare_the_page_cache(
    tmp_path: Path, kind: str, filters: list[tuple[str, str, str | None]], spared: bool
) -> None:
    fake = filtered(with_kdamond(FakeRoots(tmp_path)), kind, *filters)
    assert bool(reclaim_of(fake.roots).schemes) is not spared


def test_the_module_counts_when_it_is_enabled(tmp_path: Path) -> None:
    fake = FakeRoots(tmp_path).sys("module/damon_reclaim/parameters/enabled", "Y\n")
    fake.sys("module/damon_reclaim/parameters/min_age", "120000000\n")
    fake.sys("module/damon_reclaim/parameters/quota_sz", "134217728\n")
    fake.sys("module/damon_reclaim/parameters/quota_reset_interval_ms", "1000\n")
    (found,) = reclaim_of(fake.roots).schemes
    assert (found.after_s, found.bytes_per_s) == (120.0, 128 << 20)
    assert found.switch == "echo N > /sys/module/damon_reclaim/parameters/enabled"
    fake.sys("module/damon_reclaim/parameters/enabled", "N\n")
    assert reclaim_of(fake.roots) == Reclaim()


def test_a_thread_whose_work_is_for_root_alone_is_named(tmp_path: Path) -> None:
    fake = FakeRoots(tmp_path).proc("77/comm", "kdamond.0\n")
    assert reclaim_of(fake.roots) == Reclaim()  # nothing below /sys: the thread of a module
    (fake.roots.sys / ADMIN / "0").mkdir(parents=True)  # a state that cannot be read
    assert reclaim_of(fake.roots) == Reclaim(hidden=True)
    fake.proc("77/comm", "bash\n")
    assert reclaim_of(fake.roots) == Reclaim()
