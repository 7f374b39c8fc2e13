"""No more bytes a second than allowed, over any time."""

import pytest

from kbroker.cleaner.throttle import MAX_S, Throttle


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_bytes_take_the_time_they_are_allowed() -> None:
    clock = Clock()
    throttle = Throttle(1000, clock, clock.sleep)
    for _ in range(100):
        throttle.used(50)
    assert 4.9 <= clock.now <= 5.0


def test_time_that_was_not_used_is_not_made_up_for() -> None:
    clock = Clock()
    throttle = Throttle(1000, clock, clock.sleep)
    clock.now = 100
    throttle.used(1000)
    assert clock.now == 101


def test_small_amounts_add_up() -> None:
    clock = Clock()
    throttle = Throttle(1_000_000, clock, clock.sleep)
    for _ in range(10_000):
        throttle.used(100)
    assert 0.99 <= clock.now <= 1.0


def test_no_limit_never_waits() -> None:
    clock = Clock()
    Throttle(1.7976931348623157e308, clock, clock.sleep).used(1 << 40)
    assert clock.now == 0


@pytest.mark.parametrize("rate", [5e-324, 0.0, -1.0])
def test_a_rate_of_nothing_does_not_outlast_its_setting(rate: float) -> None:
    clock = Clock()
    throttle = Throttle(rate, clock, clock.sleep)
    throttle.used(1000)
    assert clock.now == MAX_S
    throttle.bytes_per_second = 1000
    throttle.used(1000)
    assert clock.now == MAX_S + 1


@pytest.mark.parametrize(("count", "slept"), [(1000, 0.0), (1001, 0.001001)])
def test_a_wait_of_a_millisecond_is_left_out_and_a_longer_one_is_not(count: int, slept: float) -> None:
    clock = Clock()
    Throttle(1_000_000, clock, clock.sleep).used(count)
    assert clock.now == pytest.approx(slept)


def test_a_wait_is_a_minute_at_most() -> None:
    clock = Clock()
    throttle = Throttle(1.0, clock, clock.sleep)
    throttle.used(59)
    assert clock.now == 59
    throttle.used(61)
    assert clock.now == 59 + MAX_S
