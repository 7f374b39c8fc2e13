"""A child that dies once is back at once; one that keeps dying does not eat the machine."""

from kbroker.supervisor.child import HEALTHY_MS, MAX_DELAY_MS, BackOff


def test_first_death_restarts_at_once() -> None:
    assert BackOff().next_delay_ms(lived_ms=5) == 0


def test_delays_double_up_to_a_limit() -> None:
    back_off = BackOff()
    delays = [back_off.next_delay_ms(lived_ms=1) for _ in range(12)]
    assert delays[:4] == [0, 20, 40, 80]
    assert delays[-1] == MAX_DELAY_MS


def test_long_life_forgives() -> None:
    back_off = BackOff()
    for _ in range(5):
        back_off.next_delay_ms(lived_ms=1)
    assert back_off.next_delay_ms(lived_ms=HEALTHY_MS) == 0
