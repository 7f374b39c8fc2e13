import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.tuning.fakes import FakeRoots
from tuning.host.upkeep import NOT_SYNCHRONISED, TIMER, kernel_clock, unwritable_of, upkeep_of


@pytest.mark.parametrize(("state", "synchronised"), [(0, True), (NOT_SYNCHRONISED, False), (-1, None)])
def test_the_kernel_says_whether_its_clock_is_set(
    tmp_path: Path, state: int, synchronised: bool | None
) -> None:
    assert upkeep_of(FakeRoots(tmp_path).roots, lambda: state).clock is synchronised


def test_this_kernel_has_the_system_call() -> None:
    assert -1 <= kernel_clock() <= NOT_SYNCHRONISED


def test_the_timer_is_on_when_it_is_enabled_by_timers(tmp_path: Path) -> None:
    roots = replace(FakeRoots(tmp_path).roots, etc=tmp_path / "etc")
    assert upkeep_of(roots, lambda: 0).trim_timer is None
    (roots.etc / TIMER).parent.mkdir(parents=True)
    assert upkeep_of(roots, lambda: 0).trim_timer is False
    (roots.etc / TIMER).symlink_to("/lib/systemd/system/fstrim.timer")
    assert upkeep_of(roots, lambda: 0).trim_timer is True


def test_a_missing_log_dir_may_be_made_where_its_folder_is_writable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, missing, closed = (str(tmp_path / name) for name in ("there", "a/b/c", "closed"))
    Path(there).mkdir()
    Path(closed).mkdir()
    allowed = os.access  # root may write everywhere
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "closed" and allowed(path, mode))
    assert unwritable_of((there, missing, closed, closed + "/below")) == (closed, closed + "/below")
