"""The next turn: two rounds of everything, then further ones where the two differ, while
the time lasts.

Pure but for the clock: no broker.
"""

import time
from collections.abc import Callable, Iterator, Sequence

from bench.results import Sample, figures
from bench.scenario import Scenario

EVERYWHERE = 2
"""Rounds of all scenarios; the others are for those whose first figure is not steady."""
DIFFER = 0.10
"""Rounds of a broker that are further apart than this call for another one."""
COST = "turn_seconds"


class Schedule:
    """Iterated for the turns still to be made; `note` reports each sample to it.

    done: samples of a run that was cut. budget_s: no turn begins that would probably end later; of
    those that are left the cheap ones come first, so that many figures are of two rounds.
    """

    def __init__(
        self,
        scenarios: Sequence[Scenario],
        targets: Sequence[str],
        rounds: int,
        budget_s: float = float("inf"),
        done: Sequence[Sample] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.scenarios = scenarios
        self.targets = targets
        self.rounds = rounds
        self.samples = list(done)
        self.clock = clock
        self.ends_at = clock() + budget_s
        self.left_out: list[tuple[int, str]] = []
        """Round and scenario of the turns for which no time was left."""

    def __iter__(self) -> Iterator[tuple[int, Scenario, list[str]]]:
        """Round, scenario, and the brokers that have not done it in that round, in their order."""
        for number in range(1, self.rounds + 1):
            for scenario in self._ordered(self.scenarios if number <= EVERYWHERE else self._unsteady()):
                missing = self._missing(number, scenario)
                if not missing:
                    continue
                if self._left() <= self.cost(scenario):
                    self.left_out.append((number, scenario.name))
                else:
                    yield number, scenario, missing

    def note(self, sample: Sample) -> None:
        self.samples.append(sample)

    def cost(self, scenario: Scenario) -> float:
        """Seconds of a round, by the last one of each broker; 0 before the first."""
        costs = [figures(self.samples, scenario.name, target, COST) for target in self.targets]
        return sum(list(found.values())[-1] for found in costs if found)

    def difference(self, scenario: Scenario) -> float:
        """The distance between the rounds of a broker in the first measure, 0.1 for a tenth; the
        larger of both brokers."""
        found = [0.0]
        for target in self.targets:
            rounds = figures(self.samples, scenario.name, target, scenario.measures[0].key).values()
            if len(rounds) > 1 and min(rounds) > 0:
                found.append(max(rounds) / min(rounds) - 1)
        return max(found)

    def _missing(self, number: int, scenario: Scenario) -> list[str]:
        made = {
            sample.target
            for sample in self.samples
            if (sample.round, sample.scenario) == (number, scenario.name)
        }
        return [target for target in self._order(number, scenario) if target not in made]

    def _order(self, number: int, scenario: Scenario) -> Sequence[str]:
        """Another broker comes first in each round of a scenario, and from one to the next.

        The first one pays for what the turns before have left behind, such as memory that the host
        of a virtual machine has taken back.
        """
        turned = (number + self.scenarios.index(scenario)) % 2 == 0
        return self.targets[::-1] if turned else self.targets

    def _unsteady(self) -> list[Scenario]:
        """The most different first."""
        found = [scenario for scenario in self.scenarios if self.difference(scenario) > DIFFER]
        return sorted(found, key=self.difference, reverse=True)

    def _ordered(self, scenarios: Sequence[Scenario]) -> Sequence[Scenario]:
        """As they are when all of them fit; else the cheapest first."""
        if sum(map(self.cost, scenarios)) <= self._left():
            return scenarios
        return sorted(scenarios, key=self.cost)

    def _left(self) -> float:
        return self.ends_at - self.clock()
