"""The forecast of a full disk follows what it has seen."""

import math

import pytest

from kbroker.http.time_to_full import EVERY_S, MIN_S, WINDOW_S, TimeToFull
from kbroker.ipc.layout import FreeSpace


def filled(rate: float, seconds: float, start: float = 1e9, every: float = 15.0) -> TimeToFull:
    forecast = TimeToFull()
    for step in range(int(seconds / every) + 1):
        forecast.add(step * every, start - rate * step * every)
    return forecast


def test_a_steady_rate_gives_what_is_left_over_the_rate() -> None:
    forecast = filled(1e5, 600)
    assert forecast.seconds() == pytest.approx((1e9 - 1e5 * 600) / 1e5)


def test_nothing_is_reported_before_a_minute_was_seen() -> None:
    assert filled(1e5, MIN_S - 15).seconds() is None
    assert filled(1e5, MIN_S).seconds() is not None


def test_a_disk_that_does_not_fill_is_never_full() -> None:
    assert filled(0, 600).seconds() == math.inf
    assert filled(-1e3, 600).seconds() == math.inf


@pytest.mark.parametrize("free", [0, 1 << 20])
def test_a_full_disk_is_full_at_once_and_for_as_long_as_it_is(free: int) -> None:
    forecast = TimeToFull()
    forecast.add(0, free)
    assert forecast.seconds() == 0
    for second in range(0, int(2 * WINDOW_S), 60):
        forecast.add(second, free)
    assert forecast.seconds() == 0
    forecast.add(2 * WINDOW_S, 1e9)
    assert forecast.seconds() is None


def test_a_large_deletion_starts_over() -> None:
    forecast = filled(1e5, 600)
    forecast.add(615, 5e9)
    assert forecast.seconds() is None


def test_only_the_last_hour_counts() -> None:
    forecast = TimeToFull()
    for second in range(0, int(2 * WINDOW_S) + 1, 60):
        forecast.add(second, 1e9 if second < WINDOW_S else 1e9 - (second - WINDOW_S) * 1e4)
    assert forecast.seconds() == pytest.approx((1e9 - WINDOW_S * 1e4) / 1e4)


@pytest.mark.parametrize("quiet_s", [WINDOW_S, 1800, 300])
def test_a_ramp_after_a_quiet_hour_is_seen_within_minutes(quiet_s: float) -> None:
    """The line through the whole hour is 50 times too long then."""
    forecast = TimeToFull()
    for second in range(0, int(quiet_s) + 301, 15):
        forecast.add(second, 1.6e9 - 1e6 * max(0.0, second - quiet_s))
    assert forecast.seconds() == pytest.approx(1300, rel=0.1)


def test_a_fast_hour_counts_although_the_last_minutes_are_quiet() -> None:
    forecast = filled(1e5, 3300)
    for second in range(3300, 3601, 15):
        forecast.add(second, 1e9 - 3.3e8)
    assert forecast.seconds() == pytest.approx(6.7e8 / 1e5, rel=0.1)


def test_minutes_between_two_deletions_by_retention_are_no_trend() -> None:
    """Each ten minutes 4.5 % are deleted: without that, the disk would be full in 3.7 hours."""
    forecast, found = TimeToFull(), []
    for second in range(0, 4 * 3600, 15):
        forecast.add(second, 1e9 - 0.045e9 * (second % 600) / 600)
        found.append(forecast.seconds())
    assert min(left for left in found[-480:] if left is not None) > 4 * 3600


def test_samples_are_bounded_however_often_it_is_scraped() -> None:
    forecast = TimeToFull()
    for tenth in range(100_000):
        forecast.add(tenth / 10, 1e9)
    assert len(forecast._samples) <= WINDOW_S / EVERY_S + 1


@pytest.mark.parametrize("seconds", [60, 3600, 10_000])
def test_the_next_process_knows_what_the_one_before_has_seen(seconds: int) -> None:
    kept = FreeSpace.table(FreeSpace.SAMPLES)
    before = TimeToFull(kept)
    for second in range(1, seconds + 2, 5):
        before.add(second, 1e9 - 1e4 * second)
    after = TimeToFull(kept)
    assert after.seconds() == pytest.approx((1e9 - 1e4 * second) / 1e4)
    after.add(second + 15, 1e9 - 1e4 * (second + 15))
    assert after.seconds() == pytest.approx((1e9 - 1e4 * (second + 15)) / 1e4)
    assert len(after._samples) <= WINDOW_S / EVERY_S + 1


def test_the_next_process_does_not_see_what_was_before_a_large_deletion() -> None:
    kept = FreeSpace.table(FreeSpace.SAMPLES)
    before = TimeToFull(kept)
    for second in range(1, 602, 15):
        before.add(second, 1e9 - 1e5 * second)
    before.add(615, 5e9)
    assert TimeToFull(kept).seconds() is None
