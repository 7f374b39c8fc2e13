"""The decision about one change, from the figures of its turns. Pure.

The test is Mann and Whitney's, exact: of all ways to deal the turns' values to the two sides, the
share in which one side is above the other at least as far as it was measured. It asks nothing of
the values' distribution, and one odd turn among many changes little. The bounds are not the same
both ways: a change is found worse on less evidence than it is found better.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import combinations

from tuning.verify.figures import FIGURES, Figure

HELPS, HARMS = 0.005, 0.02
MIN_CHANGE = 0.02  # of the median without the change; less is not worth a setting
FEWEST_TURNS = 5  # of each side: 1 of 252 ways separates them in full
MAX_TURNS = 8  # 12,870 ways


class Judgement(Enum):
    """Judgement of one figure."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "within the spread"
    UNKNOWN = "too few turns"


class Verdict(Enum):
    """Verdict of a change."""

    HELPED = "helped"
    HARMED = "made something worse"
    NO_CHANGE = "within the spread"
    UNDECIDED = "cannot be decided: too few turns"
    FAILED = "did not work"


@dataclass(frozen=True, slots=True)
class Comparison:
    """One figure of both sides. better, worse: chances that turns which differ in nothing are dealt
    like this."""

    figure: Figure
    without: tuple[float, ...]
    changed: tuple[float, ...]
    better: float
    worse: float
    judgement: Judgement

    @property
    def gain(self) -> float:
        """The improvement of the median, as a share of the one without; negative is worse."""
        return gain(self.figure, self.without, self.changed)


@dataclass(frozen=True, slots=True)
class Decision:
    """verdict of one change, and what it rests on."""

    verdict: Verdict
    comparisons: tuple[Comparison, ...]

    def having(self, judgement: Judgement) -> tuple[Comparison, ...]:
        return tuple(each for each in self.comparisons if each.judgement is judgement)


def decide(without: Sequence[Mapping[str, float]], changed: Sequence[Mapping[str, float]]) -> Decision:
    """Better in one figure at least and worse in none: it helped."""
    found = tuple(
        compare(figure, _values(figure, without), _values(figure, changed))
        for figure in FIGURES
        if any(figure.key in turn for turn in (*without, *changed))
    )
    return Decision(_verdict({each.judgement for each in found}), found)


def _verdict(judgements: set[Judgement]) -> Verdict:
    if Judgement.WORSE in judgements:
        return Verdict.HARMED
    if Judgement.BETTER in judgements:
        return Verdict.HELPED
    return Verdict.NO_CHANGE if Judgement.SAME in judgements else Verdict.UNDECIDED


def _values(figure: Figure, turns: Sequence[Mapping[str, float]]) -> tuple[float, ...]:
    return tuple(turn[figure.key] for turn in turns if figure.key in turn)


def compare(figure: Figure, without: tuple[float, ...], changed: tuple[float, ...]) -> Comparison:
    """One figure of both sides."""
    if not enough(len(without), len(changed)):
        return Comparison(figure, without, changed, 1.0, 1.0, Judgement.UNKNOWN)
    more, less = chance(without, changed), chance(changed, without)
    better, worse = (more, less) if figure.more_is_better else (less, more)
    gained = gain(figure, without, changed)
    judgement = Judgement.SAME
    if better <= HELPS and gained >= MIN_CHANGE:
        judgement = Judgement.BETTER
    elif worse <= HARMS and gained <= -MIN_CHANGE:
        judgement = Judgement.WORSE
    return Comparison(figure, without, changed, better, worse, judgement)


def enough(without: int, changed: int) -> bool:
    """Whether turns that separate in full would be evidence."""
    return 1 / math.comb(without + changed, changed) <= HELPS


def gain(figure: Figure, without: Sequence[float], changed: Sequence[float]) -> float:
    """See Comparison.gain; 0 where a side is empty or the median is 0."""
    if not without or not changed or not (base := statistics.median(without)):
        return 0.0
    more = statistics.median(changed) / base - 1
    return more if figure.more_is_better else -more


def chance(low: Sequence[float], high: Sequence[float]) -> float:
    """One-sided and exact; equal values share the mean of their ranks."""
    ranks = _ranks([*low, *high])
    measured = sum(ranks[len(low) :]) - 1e-9
    ways = [sum(dealt) >= measured for dealt in combinations(ranks, len(high))]
    return sum(ways) / len(ways)


def _ranks(values: Sequence[float]) -> list[float]:
    ordered = sorted(values)
    first = {value: place for place, value in reversed(list(enumerate(ordered)))}
    return [first[value] + (ordered.count(value) - 1) / 2 for value in values]
