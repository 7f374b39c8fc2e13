"""A JVM works unmeasured until its figure rises no more, at least so long and at most three times
that."""

from collections.abc import Iterator

import pytest

from bench.scenario import Measure, Scenario
from bench.size import FULL
from bench.turn import Measures
from bench.warm_up import warm_up

RATE = Measure("rate", "rate", "requests/s", "higher")
TIME = Measure("seconds", "time", "s", "lower")


class Work:
    """Turns of 5 seconds each, with the given figures; the last one stays."""

    def __init__(self, key: str, figures: list[float]) -> None:
        self.key = key
        self.figures = figures
        self.turns = 0

    def run(self) -> Measures:
        self.turns += 1
        return {self.key: self.figures[min(self.turns, len(self.figures)) - 1]}

    def clock(self) -> float:
        return self.turns * 5.0


def never(_: object) -> Measures:
    raise AssertionError


@pytest.mark.parametrize(
    ("measure", "figures", "seconds"),
    [
        (RATE, [100.0], 20),
        (RATE, [10.0, 20.0, 40.0, 80.0, 90.0, 91.0], 30),
        (RATE, [float(2**number) for number in range(40)], 60),
        (TIME, [8.0, 4.0, 2.0, 1.0, 0.5, 0.5], 30),
        (TIME, [0.0], 20),
    ],
)
def test_warm_up_ends_when_the_figure_is_steady(measure: Measure, figures: list[float], seconds: int) -> None:
    work = Work(measure.key, figures)
    assert warm_up(Scenario("work", "work", (measure,), never), work.run, 20, work.clock) == seconds


def test_a_failed_turn_counts_as_no_progress() -> None:
    turns: Iterator[Measures] = iter([{}] * 10)
    work = Work("rate", [1.0])
    assert (
        warm_up(Scenario("work", "work", (RATE,), never), lambda: work.run() and next(turns), 20, work.clock)
        == 20
    )


def test_a_title_names_the_size_of_its_run() -> None:
    scenario = Scenario("many", "{many:,} partitions, {partitions} and {twice}", (RATE,), never)
    assert scenario.title_at(FULL) == "10,000 partitions, 1000 and 2000"
