"""Earlier readings: the one from the start of a window, and few of them."""

import numpy as np

from kbroker.http.recent_readings import STEPS, Reading, RecentReadings


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def reading(number: int) -> Reading:
    return {("a", "b"): np.array([number], np.int64)}


def number_of(found: Reading) -> int:
    """-1 for none."""
    return int(found["a", "b"][0]) if found else -1


def test_the_reading_from_the_start_of_the_window_is_given() -> None:
    clock = Clock()
    recent = RecentReadings(clock)
    found = []
    for step in range(10):
        earlier, age_s = recent.remember_at(reading(step), 60.0)
        found.append((number_of(earlier), age_s))
        clock.now_s += 20
    assert found == [
        (-1, 0), (0, 20), (0, 40), (0, 60), (1, 60), (2, 60), (3, 60), (4, 60), (5, 60), (6, 60)
    ]  # fmt: skip
    assert recent.now_s() == clock.now_s


def test_a_window_without_readings_reaches_to_the_last_one_before_it() -> None:
    clock = Clock()
    recent = RecentReadings(clock)
    recent.remember(reading(0), 60.0)
    clock.now_s += 10
    recent.remember(reading(1), 60.0)
    clock.now_s += 500
    earlier, age_s = recent.remember_at(reading(2), 60.0)
    assert (number_of(earlier), age_s) == (1, 500)


def test_readings_in_quick_succession_are_not_all_kept() -> None:
    clock = Clock()
    recent = RecentReadings(clock)
    for step in range(1000):
        recent.remember(reading(step), 60.0)
        clock.now_s += 0.5
    assert len(recent._readings) <= STEPS + 1
    gaps = np.diff([at_s for at_s, _ in recent._readings])
    assert gaps.min() >= 60.0 / STEPS
