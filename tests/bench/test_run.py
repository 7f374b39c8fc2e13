"""A turn that fails is a sample that says why, and how long it took."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from bench.generator import LoadFailed
from bench.run import Run
from bench.scenario import Measure, Scenario
from bench.size import QUICK
from bench.turn import Measures


def refuse(_: object) -> Measures:
    raise LoadFailed("offset 3 where 2 was due")


def test_a_failed_turn_says_why_and_how_long_it_took(tmp_path: Path) -> None:
    target: Any = SimpleNamespace(name="kbroker", has_ended=False, folder=tmp_path)
    nothing: Any = None
    scenario = Scenario("work", "work", (Measure("rate", "rate", "", "higher"),), refuse)
    sample = Run([target], nothing, QUICK, None).turn(2, scenario, target)
    assert (sample.round, sample.scenario, sample.failure) == (2, "work", "offset 3 where 2 was due")
    assert sample.figures.keys() == {"turn_seconds"}
