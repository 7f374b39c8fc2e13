"""Work before the first measured turn of a JVM: a compiler that still runs is not what is to be
measured."""

import time
from collections.abc import Callable
from typing import Literal

from bench.scenario import Scenario
from bench.turn import Measures

STEADY = 1.03
"""A figure that is less than 3 % better than the last one's rises no more."""
LONGEST = 3
"""Times the wanted seconds: then it is as warm as it gets."""


def warm_up(
    scenario: Scenario,
    run: Callable[[], Measures],
    seconds: float,
    clock: Callable[[], float] = time.monotonic,
) -> float:
    """Runs the scenario unmeasured for at least `seconds`, and on while its first figure improves;
    returns the seconds it took."""
    begun, best = clock(), 0.0
    first = scenario.measures[0]
    while True:
        figure = run().get(first.key, 0.0)
        score = _score(figure, first.better)
        spent = clock() - begun
        if spent >= seconds * LONGEST or (spent >= seconds and score <= best * STEADY):
            return spent
        best = max(best, score)


def _score(figure: float, better: Literal["higher", "lower"]) -> float:
    if better == "higher":
        return figure
    return 1 / figure if figure else 0.0
