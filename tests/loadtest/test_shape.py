"""Shapes of a load, and the schedule that follows one without forgetting what was late."""

import math

import numpy as np
import pytest

from loadtest.shape import SHAPES, Schedule, peaks, ramp, spike, steady

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


def test_each_shape_has_its_share_at_each_moment() -> None:
    assert [steady(at_s, 60.0) for at_s in (0.0, 30.0, 60.0)] == [1.0, 1.0, 1.0]
    assert [ramp(at_s, 60.0) for at_s in (-1.0, 0.0, 15.0, 30.0, 60.0, 61.0)] == [
        0.0,
        0.0,
        0.5,
        1.0,
        2.0,
        2.0,
    ]
    assert [spike(at_s, 60.0) for at_s in (0.0, 24.9, 25.0, 29.9, 30.0, 55.0)] == [
        1.0,
        1.0,
        4.0,
        4.0,
        1.0,
        4.0,
    ]
    assert [peaks(at_s, 600.0) for at_s in (0.0, 15.0, 30.0, 60.0)] == pytest.approx([0.0, 1.0, 2.0, 0.0])


def test_parts_of_a_record_are_kept_until_it_is_whole() -> None:
    schedule = Schedule(1.0, steady, 0, 60.0)
    waiting = []
    for quarter in range(1, 9):
        schedule.advance(quarter * SECOND // 4)
        waiting.append(schedule.waiting)
    assert waiting == [0, 0, 0, 1, 1, 1, 1, 2]


def test_records_are_taken_oldest_first_and_once() -> None:
    schedule = Schedule(4.0, steady, 0, 60.0)
    schedule.advance(SECOND)
    schedule.advance(2 * SECOND)
    quarter = SECOND // 4
    assert schedule.take(3, 0).tolist() == [quarter, 2 * quarter, 3 * quarter]
    assert schedule.waiting == 5
    assert schedule.take(2, 0).tolist() == [SECOND, SECOND + quarter]
    assert schedule.take(9, 0).tolist() == [SECOND + part * quarter for part in (2, 3, 4)]
    assert schedule.take(9, 0).tolist() == []
    assert schedule.waiting == 0


def test_a_schedule_begins_at_its_begin() -> None:
    schedule = Schedule(4.0, ramp, 10 * SECOND, 60.0)
    schedule.advance(10 * SECOND)
    assert schedule.waiting == 0
    schedule.advance(40 * SECOND)
    assert schedule.waiting == 60, "a quarter of the area below a rate that grows from 0 to 8 in 60 s"
    first = 10 + math.sqrt(15)  # where that area is one record
    assert schedule.take(1, 0) / SECOND == pytest.approx([first], abs=0.01)


@pytest.mark.parametrize("name", sorted(SHAPES))
@pytest.mark.parametrize("stall_s", [7, 27, 46, 60])
def test_a_stall_adds_as_many_records_as_were_due_meanwhile(name: str, stall_s: int) -> None:
    """A stall that ends within a spike counts the spike only for as long as it lasted."""
    prompt, stalled = (Schedule(100.0, SHAPES[name], 0, 120.0) for _ in range(2))
    for step in range(1, stall_s * 100 + 1):
        prompt.advance(step * SECOND // 100)
    stalled.advance(stall_s * SECOND)
    assert stalled.waiting == pytest.approx(prompt.waiting, abs=1)
    times = [schedule.take(1 << 20, 0) for schedule in (prompt, stalled)]
    both = min(map(len, times))
    assert np.abs(times[0][:both] - times[1][:both]).max() < SECOND // 100


def test_times_since_the_epoch_are_as_exact_as_small_ones() -> None:
    """They have more digits than a float."""
    begin_ns = 1_700_000_000_123_456_789
    schedule = Schedule(4.0, steady, begin_ns, 60.0)
    schedule.advance(begin_ns + SECOND)
    assert (schedule.take(9, 0) - begin_ns).tolist() == [part * SECOND // 4 for part in (1, 2, 3, 4)]


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_a_schedule_that_starts_later_follows_the_shape_of_the_run(name: str) -> None:
    whole = Schedule(10.0, SHAPES[name], 0, 120.0)
    whole.advance(26 * SECOND)
    before = whole.waiting
    late = Schedule(10.0, SHAPES[name], 0, 120.0, from_ns=26 * SECOND)
    late.advance(26 * SECOND)
    assert late.waiting == 0
    for schedule in (whole, late):
        schedule.advance(40 * SECOND)
    assert late.waiting == pytest.approx(whole.waiting - before, abs=1)
    assert late.take(1, 0)[0] > 26 * SECOND
