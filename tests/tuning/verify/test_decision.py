import random
from collections.abc import Callable, Sequence

import pytest

from tests.tuning.verify.turns import turns
from tuning.verify.decision import FEWEST_TURNS, MAX_TURNS, Judgement, Verdict, chance, decide, enough
from tuning.verify.figures import ACK_P99, CACHED, PRODUCE


def test_a_change_helps_when_a_figure_is_beyond_the_spread_and_none_is_worse() -> None:
    decision = decide(turns(800, 4.0), turns(900, 4.0))
    assert decision.verdict is Verdict.HELPED
    (better,) = decision.having(Judgement.BETTER)
    assert better.figure is PRODUCE
    assert better.gain == pytest.approx(0.125)


def test_less_is_better_for_latencies() -> None:
    assert decide(turns(800, 4.0), turns(800, 3.0)).verdict is Verdict.HELPED
    assert decide(turns(800, 3.0), turns(800, 4.0)).verdict is Verdict.HARMED


def test_a_gain_does_not_pay_for_a_loss_elsewhere() -> None:
    decision = decide(turns(800, 3.0), turns(1600, 4.0))
    assert decision.verdict is Verdict.HARMED
    assert [each.figure for each in decision.having(Judgement.WORSE)] == [ACK_P99]
    assert [each.figure for each in decision.having(Judgement.BETTER)] == [PRODUCE]


def test_a_difference_within_the_spread_decides_nothing() -> None:
    assert decide(turns(800, 4.0), turns(806, 3.99)).verdict is Verdict.NO_CHANGE


def test_an_even_but_tiny_gain_is_none() -> None:
    still = (1.0, 1.0001, 1.0002, 1.0003, 1.0004)
    decision = decide(turns(800, 4.0, still), turns(808, 4.0, still))
    assert decision.verdict is Verdict.NO_CHANGE
    assert decision.comparisons[-1].better < 0.005  # beyond its spread, but by 1 %


def test_too_few_turns_cannot_decide_however_large_the_gain_is() -> None:
    decision = decide(turns(800, 4.0)[:4], turns(8000, 0.4)[:4])
    assert decision.verdict is Verdict.UNDECIDED
    assert {each.judgement for each in decision.comparisons} == {Judgement.UNKNOWN}
    assert decide([], []).verdict is Verdict.UNDECIDED
    assert decide(turns(800, 4.0), []).verdict is Verdict.UNDECIDED


def test_the_fewest_turns_are_the_fewest_that_can_decide() -> None:
    assert enough(FEWEST_TURNS, FEWEST_TURNS)
    assert not enough(FEWEST_TURNS - 1, FEWEST_TURNS - 1)


def test_worse_needs_less_evidence_than_better() -> None:
    """One turn of each side has changed places: not enough to keep a change, enough to drop it."""
    one, other = (1.0, 2.0, 3.0, 4.0, 6.0), (5.0, 7.0, 8.0, 9.0, 10.0)
    low = [{PRODUCE.key: value} for value in one]
    high = [{PRODUCE.key: value} for value in other]
    assert decide(low, high).verdict is Verdict.NO_CHANGE
    assert decide(high, low).verdict is Verdict.HARMED


def test_a_figure_that_could_not_be_measured_is_left_out() -> None:
    without = [{**turn, CACHED.key: 1.0} for turn in turns(800, 4.0)[:1]] + turns(800, 4.0)[1:]
    decision = decide(without, turns(900, 4.0))
    assert decision.verdict is Verdict.HELPED
    assert next(each for each in decision.comparisons if each.figure is CACHED).judgement is Judgement.UNKNOWN


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        ((1, 2), (3, 4), 1 / 6),
        ((3, 4), (1, 2), 1.0),
        ((1, 3), (2, 4), 2 / 6),
        ((5, 5), (5, 5), 1.0),
        ((1, 2, 2), (2, 3, 3), 3 / 20),  # by hand, with shared ranks
        (range(5), range(5, 10), 1 / 252),
        (range(MAX_TURNS), range(8, 16), 1 / 12870),
    ],
)
def test_the_chance_is_exact(low: Sequence[float], high: Sequence[float], expected: float) -> None:
    assert chance(low, high) == pytest.approx(expected)


@pytest.mark.parametrize("draw", [random.gauss, lambda mean, _: mean * random.expovariate(1)])
def test_a_host_without_a_difference_seldom_gets_advice(draw: Callable[[float, float], float]) -> None:
    """One figure: 1 of 252 by chance. 400 runs with a fixed seed."""
    random.seed(7)
    verdicts = [
        decide(*([{PRODUCE.key: draw(100, 10)} for _ in range(5)] for _ in range(2))).verdict
        for _ in range(400)
    ]
    assert verdicts.count(Verdict.HELPED) <= 6
    assert verdicts.count(Verdict.HARMED) <= 20
