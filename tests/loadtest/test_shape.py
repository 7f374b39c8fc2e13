"""Shapes of a load, and the schedule that follows one without forgetting what was late."""

import numpy as np
import pytest

from loadtest.shape import SHAPES, Schedule, steady

SECOND = 1_000_000_000


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_every_shape_sends_its_share_of_records(name: str) -> None:
    schedule = Schedule(1000.0, SHAPES[name], 0, 120.0)
    for step in range(1, 12_001):
        schedule.advance(step * SECOND // 100)
    mean = {"steady": 1.0, "ramp": 1.0, "peaks": 1.0, "spike": (25 + 5 * 4) / 30}[name]
    assert schedule.waiting == pytest.approx(1000 * 120 * mean, rel=0.01)


def test_late_records_keep_the_time_they_were_meant_for() -> None:
    schedule = Schedule(100.0, steady, 0, 60.0)
    schedule.advance(SECOND)
    schedule.advance(3 * SECOND)  # the client hung for two seconds
    taken = np.concatenate([schedule.take(70, 3 * SECOND) for _ in range(10)])
    assert len(taken) == 300
    assert np.all(np.diff(taken) >= 0)
    assert taken[0] <= SECOND // 100
    assert taken[150] == pytest.approx(1.5 * SECOND, rel=0.02)
    assert schedule.waiting == 0


def test_a_clock_that_goes_back_makes_nothing_due() -> None:
    schedule = Schedule(100.0, steady, 0, 60.0)
    schedule.advance(SECOND)
    schedule.advance(0)
    assert schedule.waiting == 100


def test_without_a_rate_everything_is_due_now() -> None:
    schedule = Schedule(0.0, steady, 0, 60.0)
    schedule.advance(SECOND)
    assert schedule.take(5, 42).tolist() == [42] * 5
