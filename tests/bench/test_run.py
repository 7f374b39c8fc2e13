"""A turn that fails is a sample that says why; only the broker whose turn it is runs meanwhile."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.generator import LoadFailed
from bench.measure import tree_pids
from bench.run import Run
from bench.scenario import Measure, Scenario
from bench.size import QUICK
from bench.targets import Target
from bench.turn import Measures
from tests.attack.processes import until


def refuse(_: object) -> Measures:
    raise LoadFailed("offset 3 where 2 was due")


def test_a_failed_turn_says_why_and_how_long_it_took(tmp_path: Path) -> None:
    target: Any = SimpleNamespace(name="kbroker", has_ended=False, folder=tmp_path)
    nothing: Any = None
    scenario = Scenario("work", "work", (Measure("rate", "rate", "", "higher"),), refuse)
    sample = Run([target], nothing, QUICK, None).turn(2, scenario, target)
    assert (sample.round, sample.scenario, sample.failure) == (2, "work", "offset 3 where 2 was due")
    assert sample.figures.keys() == {"turn_seconds"}


class Sleeper(Target):
    """A process with a child in place of a broker."""

    def __init__(self, name: str, folder: Path) -> None:
        nothing: Any = None
        super().__init__(folder, nothing)
        self.name = name
        self.waited = 0

    def command(self) -> list[str]:
        child = f"[{sys.executable!r}, '-c', 'import time; time.sleep(600)']"
        return [sys.executable, "-c", f"import subprocess; subprocess.run({child})"]

    def sibling(self, folder: Path) -> Target:
        return Sleeper(self.name, folder)

    def wait_ready(self, topic: str = "", partitions: int = 0, timeout_s: float = 60) -> float:
        self.waited += 1
        return 0.0

    def has_child(self) -> bool:
        return len(tree_pids(self.pid)) == 2

    def states(self) -> set[str]:
        """Of the tree's processes: T is stopped."""
        pids = tree_pids(self.pid)
        return {Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] for pid in pids}


@pytest.fixture
def sleepers(tmp_path: Path) -> Iterator[list[Sleeper]]:
    made = [Sleeper(name, tmp_path) for name in ("kafka", "kbroker")]
    try:
        for sleeper in made:
            sleeper.launch()
            until(sleeper.has_child)
        yield made
    finally:
        for sleeper in made:
            sleeper.stop()


def test_the_other_broker_is_paused_during_a_turn(sleepers: list[Sleeper]) -> None:
    first, second = sleepers
    nothing: Any = None
    run = Run(sleepers, nothing, QUICK, None)
    run.give_way(first)
    assert "T" not in first.states()
    until(lambda: second.states() == {"T"})
    run.give_way(second)
    until(lambda: first.states() == {"T"})
    until(lambda: "T" not in second.states())
    assert (first.waited, second.waited) == (1, 1)


def test_a_paused_broker_can_be_stopped(sleepers: list[Sleeper]) -> None:
    sleepers[0].pause()
    sleepers[0].stop()
    assert sleepers[0].process is None
