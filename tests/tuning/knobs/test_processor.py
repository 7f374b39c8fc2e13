from dataclasses import replace
from pathlib import Path

from tests.tuning.fakes import on, situation
from tests.tuning.knobs.asking import ask
from tuning.coefficients import Coefficients
from tuning.finding import Finding, Severity
from tuning.host.features import Features
from tuning.host.upkeep import Upkeep


def checked(tmp_path: Path, name: str, **facts: object) -> Finding:
    base = situation(tmp_path)
    return ask(on(base, processors=replace(base.host.processors, **facts)), name)  # type: ignore[arg-type]


def test_a_governor_that_saves_power_is_advised_against(tmp_path: Path) -> None:
    assert checked(tmp_path, "scaling governor", governor="powersave").proposed == "performance"
    assert checked(tmp_path, "scaling governor", governor=None).severity is Severity.UNSEEN


def test_a_slow_clock_is_recognised_by_name_or_by_measurement(tmp_path: Path) -> None:
    assert checked(tmp_path, "clocksource", clocksource="hpet").proposed == "tsc"
    assert checked(tmp_path, "clocksource", clocksource="kvm-clock").severity is Severity.OK
    slow = replace(situation(tmp_path), coefficients=Coefficients("measured", clock_s=2e-6))
    assert ask(slow, "clocksource").severity is Severity.ADVICE


def test_a_clock_that_the_kernel_does_not_offer_is_not_advised(tmp_path: Path) -> None:
    found = checked(tmp_path, "clocksource", clocksource="hpet", clocksources=("hpet", "acpi_pm"))
    assert (found.severity, found.proposed) == (Severity.NOTE, "")
    offered = checked(tmp_path, "clocksource", clocksource="hpet", clocksources=("tsc", "hpet"))
    assert offered.proposed == "tsc"


def test_a_quota_below_the_processes_is_serious(tmp_path: Path) -> None:
    assert checked(tmp_path, "cgroup cpu quota", quota_cores=2.0).severity is Severity.SERIOUS
    assert checked(tmp_path, "cgroup cpu quota", quota_cores=8.0).severity is Severity.OK


def test_nodes_are_a_note(tmp_path: Path) -> None:
    assert checked(tmp_path, "NUMA nodes", nodes=2).severity is Severity.NOTE


def test_missing_abilities_of_the_kernel_are_reported(tmp_path: Path) -> None:
    old = on(situation(tmp_path), features=Features((5, 15), False, True, None))
    assert ask(old, "cachestat").severity is Severity.ADVICE
    assert ask(old, "preadv2 RWF_NOWAIT").severity is Severity.OK
    assert ask(old, "short time slices").severity is Severity.NOTE
    assert ask(old, "io_uring").severity is Severity.UNSEEN
    new = on(situation(tmp_path), features=Features((6, 18), True, True, "disabled"))
    assert ask(new, "cachestat").severity is ask(new, "io_uring").severity is Severity.OK


def test_a_clock_that_nothing_sets_is_advised_against(tmp_path: Path) -> None:
    base = situation(tmp_path)
    assert ask(on(base, upkeep=Upkeep(clock=False)), "clock").proposed == "synchronised"
    assert ask(on(base, upkeep=Upkeep(clock=True)), "clock").severity is Severity.OK
    assert ask(on(base, upkeep=Upkeep()), "clock").severity is Severity.UNSEEN
