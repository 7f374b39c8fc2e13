"""Named timers on a wheel, with a clock of the test."""

import asyncio

from kbroker.control.coordinator.timers import IN_A_TURN, WheelTimers
from tests.control.coordinator.clock import Clock


def timers() -> tuple[WheelTimers, Clock, list[str]]:
    clock = Clock()
    made = WheelTimers(clock, lambda: clock.now_ms)
    return made, clock, []


def test_a_timer_fires_once_at_its_time() -> None:
    made, clock, fired = timers()
    made.schedule("a", 100, lambda: fired.append("a"))
    clock.advance(99)
    assert not fired
    clock.advance(100)
    assert fired == ["a"]
    clock.advance(10_000)
    assert fired == ["a"]
    assert len(made) == 0


def test_a_name_scheduled_again_replaces_its_timer() -> None:
    made, clock, fired = timers()
    made.schedule("a", 100, lambda: fired.append("first"))
    made.schedule("a", 200, lambda: fired.append("second"))
    clock.advance(500)
    assert fired == ["second"]


def test_a_renewed_timer_fires_later_with_its_own_action() -> None:
    made, clock, fired = timers()
    made.schedule("a", 100, lambda: fired.append("a"))
    clock.advance(50)
    assert made.renew("a", 100)
    clock.advance(149)
    assert not fired
    clock.advance(150)
    assert fired == ["a"]
    assert not made.renew("a", 100)  # it has fired
    assert not made.renew("unknown", 100)


def test_a_timer_may_be_renewed_at_the_time_when_it_was_scheduled() -> None:
    made, clock, fired = timers()
    made.schedule("a", 100, lambda: fired.append("a"))
    assert made.renew("a", 100)
    clock.advance(100)
    assert fired == ["a"]


def test_a_timer_is_postponed_and_never_brought_forward() -> None:
    made, clock, fired = timers()
    made.schedule("a", 100, lambda: fired.append("a"))
    for due_ms in (300, 200):
        made.postpone("a", due_ms)
    made.postpone("unknown", 500)
    clock.advance(299)
    assert not fired
    clock.advance(300)
    assert fired == ["a"]


def test_timers_may_be_postponed_just_before_they_fire() -> None:
    made, clock, fired = timers()
    made.before_advance = lambda: made.postpone("a", 200)
    made.schedule("a", 100, lambda: fired.append("a"))
    clock.advance(199)
    assert not fired
    clock.advance(200)
    assert fired == ["a"]


def test_a_timer_that_fails_does_not_stop_others_of_its_time() -> None:
    made, clock, fired = timers()

    def fail() -> None:
        raise ValueError("a bug")

    made.schedule("a", 100, fail)
    made.schedule("b", 100, lambda: fired.append("b"))
    clock.advance(100)
    assert (fired, len(made)) == (["b"], 0)


def test_the_loop_has_one_call_for_all_timers() -> None:
    made, clock, _ = timers()
    for delay_ms, due_ms in ((50, 50), (10, 10), (30, 10)):
        made.schedule(str(delay_ms), delay_ms, lambda: None)
        assert [at for at, _ in clock.due] == [due_ms]
    made.close()
    assert clock.due == []


def test_a_timer_is_not_renewed_to_an_earlier_time() -> None:
    """It is in a place of the wheel that is too late."""
    made, clock, fired = timers()
    made.schedule("a", 100_000, lambda: fired.append("a"))
    assert not made.renew("a", 100)
    clock.advance(99_999)
    assert not fired
    clock.advance(100_000)
    assert fired == ["a"]


def test_a_cancelled_timer_never_fires() -> None:
    made, clock, fired = timers()
    made.schedule("a", 100, lambda: fired.append("a"))
    made.cancel("a")
    made.cancel("unknown")
    clock.advance(500)
    assert not fired


def test_an_earlier_timer_is_not_held_up_by_a_later_one() -> None:
    made, clock, fired = timers()
    made.schedule("late", 100_000, lambda: fired.append("late"))
    made.schedule("soon", 10, lambda: fired.append("soon"))
    clock.advance(10)
    assert fired == ["soon"]
    clock.advance(100_000)
    assert fired == ["soon", "late"]


def test_a_timer_may_schedule_itself_again() -> None:
    made, clock, fired = timers()

    def again() -> None:
        fired.append("a")
        made.schedule("a", 50, again)

    made.schedule("a", 50, again)
    for now in range(0, 201, 10):
        clock.advance(now)
    assert len(fired) == 4


def test_timers_that_fire_together_may_cancel_each_other() -> None:
    made, clock, fired = timers()
    made.schedule("a", 10, lambda: (fired.append("a"), made.cancel("b")))
    made.schedule("b", 10, lambda: fired.append("b"))
    clock.advance(10)
    assert fired == ["a"]


def test_very_many_timers_of_one_time_fire_a_few_in_each_turn_of_the_loop() -> None:
    made, clock, fired = timers()
    turns: list[int] = []
    advance = made.advance

    def turn() -> None:
        advance()
        turns.append(len(fired))

    made.advance = turn  # type: ignore[method-assign]
    count = 1000
    for number in range(count):
        made.schedule(str(number), 10_000, lambda number=number: fired.append(str(number)))  # type: ignore[misc]

    def change() -> None:
        made.cancel("999")
        made.postpone("998", 20_000)
        made.schedule("997", 20_000, lambda: fired.append("later"))

    made.schedule("0", 10_000, change)
    clock.advance(10_000)
    assert fired == [str(number) for number in range(1, 997)]
    assert max(after - before for before, after in zip([0, *turns], turns, strict=False)) <= IN_A_TURN
    clock.advance(40_000)
    assert set(fired[996:]) == {"998", "later"}
    assert len(made) == 0


def test_closed_timers_are_silent() -> None:
    made, clock, fired = timers()
    made.schedule("a", 10, lambda: fired.append("a"))
    made.close()
    clock.advance(100)
    assert not fired
    assert asyncio.iscoroutinefunction(made.close) is False


def test_a_timer_that_is_put_off_again_and_again_fires_once_at_its_last_time() -> None:
    made, clock, fired = timers()
    for _ in range(50):
        made.schedule("session", 100, lambda: fired.append("expired"))
        clock.advance(clock.now_ms + 90)
    assert not fired
    clock.advance(clock.now_ms + 9)
    assert not fired
    clock.advance(clock.now_ms + 1)
    assert fired == ["expired"]
    assert len(made) == 0


def test_a_timer_that_is_put_off_and_then_cancelled_or_brought_forward_obeys() -> None:
    made, clock, fired = timers()
    for name in ("cancelled", "sooner"):
        made.schedule(name, 100, lambda name=name: fired.append(name))  # type: ignore[misc]
        made.schedule(name, 1000, lambda name=name: fired.append(f"late {name}"))  # type: ignore[misc]
    made.cancel("cancelled")
    made.schedule("sooner", 50, lambda: fired.append("sooner"))
    clock.advance(50)
    assert fired == ["sooner"]
    clock.advance(5000)
    assert fired == ["sooner"]
