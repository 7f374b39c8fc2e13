from dataclasses import replace
from pathlib import Path

import pytest

from tests.tuning.fakes import GiB, on, situation
from tests.tuning.knobs.asking import ask
from tuning.coefficients import Coefficients
from tuning.finding import Means, Remedy, Severity
from tuning.host.reclaim import Reclaim, Scheme
from tuning.situation import Situation


def with_memory(base: Situation, **facts: object) -> Situation:
    return on(base, memory=replace(base.host.memory, **facts))  # type: ignore[arg-type]


def test_swappiness_matters_only_with_swap(tmp_path: Path) -> None:
    base = situation(tmp_path)
    assert ask(base, "vm.swappiness").severity is Severity.OK
    found = ask(with_memory(base, swap_bytes=8 * GiB), "vm.swappiness")
    assert (found.severity, found.proposed) == (Severity.ADVICE, "1")
    assert found.remedy is not None
    assert found.remedy.undo == "sysctl -w vm.swappiness=60"


@pytest.mark.parametrize(
    ("rate", "severity", "proposed"),
    [
        (1e9, Severity.OK, ""),  # 12.9 s
        (100e6, Severity.ADVICE, "999292928"),  # 129 s: ten seconds of it, in whole MiB
        (20e9, Severity.ADVICE, "34359738368"),  # half a second, and no more than half of the memory
    ],
)
def test_the_dirty_limit_is_judged_by_measured_seconds(
    tmp_path: Path, rate: float, severity: Severity, proposed: str
) -> None:
    base = replace(situation(tmp_path), coefficients=Coefficients("measured", write_rate=rate))
    found = ask(base, "dirty limit (vm.dirty_bytes or vm.dirty_ratio)")
    assert (found.severity, found.proposed) == (severity, proposed)
    assert found.remedy is None or found.remedy.undo == "sysctl -w vm.dirty_ratio=20"


def test_without_a_measurement_the_dirty_limit_is_only_reported(tmp_path: Path) -> None:
    found = ask(situation(tmp_path), "dirty limit (vm.dirty_bytes or vm.dirty_ratio)")
    assert (found.severity, found.remedy) == (Severity.NOTE, None)
    assert "kbroker tune bench" in found.why


def test_strict_overcommit_is_serious_when_the_arenas_do_not_fit(tmp_path: Path) -> None:
    base = situation(tmp_path, vm__overcommit_memory="2")
    assert (
        ask(with_memory(base, commit_left_bytes=1 * GiB), "vm.overcommit_memory").severity is Severity.SERIOUS
    )
    assert ask(with_memory(base, commit_left_bytes=2 * GiB), "vm.overcommit_memory").severity is Severity.OK


def test_zone_reclaim_matters_only_with_nodes(tmp_path: Path) -> None:
    base = situation(tmp_path, vm__zone_reclaim_mode="1")
    assert ask(base, "vm.zone_reclaim_mode").severity is Severity.OK
    nodes = on(base, processors=replace(base.host.processors, nodes=2))
    assert ask(nodes, "vm.zone_reclaim_mode").proposed == "0"


def test_huge_pages_that_are_always_there_or_reserved_are_advised_against(tmp_path: Path) -> None:
    base = situation(tmp_path)
    always = ask(with_memory(base, transparent="always"), "transparent_hugepage/enabled")
    assert always.remedy is not None
    assert always.remedy.apply == "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"
    assert ask(with_memory(base, transparent="never"), "transparent_hugepage/enabled").severity is Severity.OK
    assert ask(with_memory(base, huge_bytes=32 * GiB), "reserved huge pages").severity is Severity.ADVICE


def test_reclaim_of_untouched_pages_is_advised_against_and_left_to_a_hand(tmp_path: Path) -> None:
    base = situation(tmp_path)
    assert ask(base, "proactive reclaim (DAMON)").severity is Severity.OK
    scheme = Scheme(60.0, 128e6, "echo off > /sys/kernel/mm/damon/admin/kdamonds/0/state")
    found = ask(on(base, reclaim=Reclaim((scheme, scheme))), "proactive reclaim (DAMON)")
    assert (found.severity, found.proposed) == (Severity.ADVICE, "off")
    assert found.now == "pages untouched for 1 min, up to 128 MB/s"
    assert found.remedy == Remedy(Means.HAND, f"{scheme.switch}, and in what starts it at boot")
    without_quota = on(base, reclaim=Reclaim((Scheme(30.0, None, "x"),)))
    assert ask(without_quota, "proactive reclaim (DAMON)").now == "pages untouched for 30 s"


def test_reclaim_that_only_root_sees_is_noted(tmp_path: Path) -> None:
    found = ask(on(situation(tmp_path), reclaim=Reclaim(hidden=True)), "proactive reclaim (DAMON)")
    assert (found.severity, found.now, found.remedy) == (Severity.NOTE, "kdamond runs", None)


def test_a_cgroup_that_leaves_no_page_cache_is_serious(tmp_path: Path) -> None:
    base = situation(tmp_path)
    assert ask(with_memory(base, limit_bytes=1 * GiB), "cgroup memory limit").severity is Severity.SERIOUS
    assert ask(with_memory(base, limit_bytes=16 * GiB), "cgroup memory limit").severity is Severity.NOTE


def test_a_lowered_number_of_mappings_is_reported(tmp_path: Path) -> None:
    assert ask(situation(tmp_path, vm__max_map_count="1000"), "vm.max_map_count").proposed == "65530"
