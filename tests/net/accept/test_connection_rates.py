"""connection_creation_rate of an address: how many, and how long one too many is held."""

from kbroker.net.accept.connection_rates import DEFAULT, FORGET_FROM, ConnectionRates

HOST, OTHER = "10.0.0.1", "10.0.0.2"


def rates(limits: dict[str, float]) -> ConnectionRates:
    made = ConnectionRates(samples=3, window_ms=1000)
    made.change(limits, first=True)
    return made


def test_connections_within_the_rate_are_not_held() -> None:
    each = rates({HOST: 2.0})
    assert [each.throttle_ms(HOST, 10_000) for _ in range(4)] == [
        0
    ] * 4  # two a second, for two whole windows


def test_one_too_many_is_held_for_a_window_at_most_and_does_not_count() -> None:
    each = rates({HOST: 2.0})
    held = [each.throttle_ms(HOST, 10_000) for _ in range(8)][4:]
    assert held == [500] * 4
    assert each.throttle_ms(HOST, 10_600) == 0


def test_addresses_without_a_limit_of_their_own_have_the_default() -> None:
    each = rates({DEFAULT: 1.0, HOST: 1000.0})
    assert [each.throttle_ms(OTHER, 10_000) > 0 for _ in range(3)] == [False, False, True]
    assert not any(each.throttle_ms(HOST, 10_000) for _ in range(3))


def test_limits_that_come_in_pieces_add_up_and_the_first_piece_forgets() -> None:
    each = rates({HOST: 1.0})
    each.change({OTHER: 1.0}, first=False)
    assert each.throttle_ms(HOST, 5000) == each.throttle_ms(OTHER, 5000) == 0
    each.change({}, first=True)
    assert not any(each.throttle_ms(HOST, 5000) for _ in range(50))


def test_samples_that_are_old_do_not_count() -> None:
    each = rates({HOST: 1.0})
    assert [each.throttle_ms(HOST, 10_000) > 0 for _ in range(3)] == [False, False, True]
    assert each.throttle_ms(HOST, 13_000) == 0
    each.forget_quiet(20_000)
    assert each.throttle_ms(HOST, 20_000) == 0


def test_addresses_that_have_become_quiet_are_forgotten() -> None:
    """None of them is ever above the rate."""
    each = rates({DEFAULT: 100.0})
    for number in range(20 * FORGET_FROM):
        assert each.throttle_ms(f"2001:db8::{number:x}", 10 * number) == 0
    assert len(each._opened) <= 2 * FORGET_FROM
