import json
import os
import signal
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.tuning.fakes import FakeRoots, on, situation
from tests.tuning.verify.samples import QUEUE, Bench, broker_change, host_change, value_of
from tuning.situation import Situation
from tuning.verify.change import WrongTry
from tuning.verify.command import NEEDS_YES, Files, Request, may_change_host, prove, verify
from tuning.verify.figures import Figures
from tuning.verify.host_change import UNDO_FILE, LeftBehind
from tuning.verify.plan import Plan
from tuning.verify.turn import NoRoom, check_room


@pytest.fixture
def host(tmp_path: Path) -> Situation:
    """A host whose logs are to be below tmp_path, with a queue that reads 128 KiB ahead."""
    base = situation(tmp_path / "root")
    FakeRoots(tmp_path / "root").sys(QUEUE, "128\n")
    (tmp_path / "logs").mkdir()
    return on(base, log_dirs=(str(tmp_path / "logs"),))


class Screen:
    """Lines of progress and of the result."""

    def __init__(self) -> None:
        self.progress: list[str] = []
        self.result: list[str] = []


@pytest.fixture
def screen() -> Screen:
    return Screen()


def both(seconds: float = 100.0) -> Plan:
    return Plan((host_change(), broker_change()), (), 5, 2.0, seconds)


def test_a_change_that_helped_is_reported_and_stays(host: Situation, tmp_path: Path, screen: Screen) -> None:
    bench = Bench(host.host.roots, lambda _, queue: (900.0 if queue == "1024" else 800.0, 4.0))
    files = Files(tmp_path / "a.json", tmp_path / "a.html")
    assert prove(host, both(), files, bench.turn, screen.progress.append, screen.result.append) == 0
    assert value_of(host.host.roots) == "1024"
    reported = json.loads((tmp_path / "a.json").read_text())
    assert reported["kept"] == [f"/sys/{QUEUE}=1024"]
    assert "1 of 2 changes helped and stay." in screen.result[0]
    assert "/sys/block" in (tmp_path / "a.html").read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("turn_of_the_signal", [3, 14])
def test_a_signal_in_any_turn_leaves_the_host_as_it_was(
    host: Situation, tmp_path: Path, screen: Screen, number: signal.Signals, turn_of_the_signal: int
) -> None:
    """In turn 3 the value is being tried, in turn 14 it was kept already."""
    bench = Bench(host.host.roots, lambda _, queue: (900.0 if queue == "1024" else 800.0, 4.0))

    def turn(settings: Mapping[str, str], seconds: float) -> Figures:
        figures = bench.turn(settings, seconds)
        if len(bench.seen) == turn_of_the_signal:
            assert value_of(host.host.roots) == "1024"
            os.kill(os.getpid(), number)
        return figures

    files = Files(tmp_path / "a.json")
    code = prove(host, both(), files, turn, screen.progress.append, screen.result.append)
    assert code == 128 + number
    assert value_of(host.host.roots) == "128"
    reported = json.loads((tmp_path / "a.json").read_text())
    assert (reported["interrupted"], reported["kept"]) == (signal.Signals(number).name, [])
    assert not (tmp_path / "logs" / UNDO_FILE).exists()


def test_a_dry_run_asks_and_changes_nothing(host: Situation, tmp_path: Path, screen: Screen) -> None:
    def never(question: str) -> bool:
        raise AssertionError(question)

    named = (f"/sys/{QUEUE}=1024", "num.io.threads=2")
    request = Request(600.0, named, dry_run=True, confirm=never)
    assert verify(host, request, screen.progress.append, screen.result.append) == 0
    assert f"try   /sys/{QUEUE}=1024" in screen.result[0]
    assert "about" in screen.result[0]
    assert value_of(host.host.roots) == "128"
    assert not list((tmp_path / "logs").iterdir())


def test_the_host_is_changed_only_after_a_yes(host: Situation) -> None:
    questions: list[str] = []

    def answer(yes: bool) -> Request:
        def confirm(question: str) -> bool:
            questions.append(question)
            return yes

        return Request(600.0, confirm=confirm)

    assert may_change_host(both(), answer(True))
    assert not may_change_host(both(), answer(False))
    assert all(f"/sys/{QUEUE}=1024  (now 128)" in question for question in questions)
    assert not may_change_host(both(), Request(600.0))
    assert may_change_host(replace(both(), changes=(broker_change(),)), Request(600.0))
    assert len(questions) == 2


def test_without_a_yes_nothing_of_the_host_is_tried(host: Situation, tmp_path: Path, screen: Screen) -> None:
    request = Request(600.0, (f"/sys/{QUEUE}=1024",), files=Files(tmp_path / "a.json"))
    assert verify(host, request, screen.progress.append, screen.result.append) == 0
    reported = json.loads((tmp_path / "a.json").read_text())
    assert reported["conclusion"] == "There was nothing to try."
    assert reported["left"] == [{"what": f"/sys/{QUEUE}=1024", "why": NEEDS_YES}]
    assert value_of(host.host.roots) == "128"


def test_a_run_that_was_killed_is_cleared_up_first(host: Situation, tmp_path: Path, screen: Screen) -> None:
    (tmp_path / "logs" / UNDO_FILE).write_text("#!/bin/sh\n")
    with pytest.raises(LeftBehind, match=UNDO_FILE):
        verify(host, Request(60.0, ("num.io.threads=2",)), screen.progress.append, screen.result.append)


def test_a_folder_that_cannot_hold_a_turn_is_refused(host: Situation, tmp_path: Path, screen: Screen) -> None:
    with pytest.raises(NoRoom, match="a quarter"):
        check_room(tmp_path, 1 << 60)
    missing = on(host, log_dirs=(str(tmp_path / "none"),))
    with pytest.raises(NoRoom, match="--dir"):
        verify(missing, Request(60.0, ("num.io.threads=2",)), screen.progress.append, screen.result.append)
    with pytest.raises(WrongTry):
        verify(host, Request(60.0, ("nothing",)), screen.progress.append, screen.result.append)
