"""The clock of a run: one offset, whatever the wall clock does meanwhile, until the next boot."""

import time
from pathlib import Path

import pytest

from loadtest import clock
from loadtest.clock import Clock, boot_id


@pytest.fixture
def boot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the boot's id: "b1"."""
    path = tmp_path / "boot_id"
    path.write_text("b1\n")
    monkeypatch.setattr(clock, "BOOT_ID", path)
    monkeypatch.setattr(time, "time_ns", lambda: 5_000_000)
    monkeypatch.setattr(time, "monotonic_ns", lambda: 2_000)
    return path


@pytest.mark.usefixtures("boot")
def test_the_offset_of_the_same_boot_is_kept() -> None:
    made = Clock(70, "b1")
    assert (made.offset_ns, made.boot, made.now_ns()) == (70, "b1", 2_070)
    assert Clock(0, "b1").now_ns() == 2_000


@pytest.mark.usefixtures("boot")
@pytest.mark.parametrize(("offset_ns", "of"), [(70, "b0"), (70, ""), (None, "b1"), (None, "")])
def test_another_offset_is_measured(offset_ns: int | None, of: str) -> None:
    made = Clock(offset_ns, of)
    assert (made.offset_ns, made.boot, made.now_ns()) == (4_998_000, "b1", 5_000_000)


@pytest.mark.usefixtures("boot")
def test_a_step_of_the_wall_clock_moves_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Clock()
    monkeypatch.setattr(time, "time_ns", lambda: 9_000_000)
    assert made.now_ns() == 5_000_000
    monkeypatch.setattr(time, "monotonic_ns", lambda: 2_100)
    assert made.now_ns() == 5_000_100


def test_a_host_without_an_id_of_its_boot_has_an_empty_one(boot: Path) -> None:
    assert boot_id() == "b1"
    boot.unlink()
    assert boot_id() == ""
    assert Clock(70, "").offset_ns == 70
