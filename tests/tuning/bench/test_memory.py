from tests.tuning.bench.ticking import ticking
from tuning.bench.memory import ARRAY_BYTES, clock_cost, copy_rate


def test_the_best_round_counts() -> None:
    assert copy_rate(0.0, ticking(0.5)) == ARRAY_BYTES / 0.5


def test_a_reading_of_the_clock_costs_something() -> None:
    assert 0 < clock_cost(100) < 1
