"""Turns of requests to the broker: bounded in all and by user, and given to the next one that
waits."""

import threading

from kbroker.http.console.turns import AT_A_TIME, OF_A_USER, Turns

LONG_S = 60.0


def test_a_user_has_some_of_the_turns_and_anonymous_clients_may_have_all() -> None:
    turns = Turns()
    assert [turns.take("ann", 0) for _ in range(OF_A_USER + 1)] == [True] * OF_A_USER + [False]
    left = AT_A_TIME - OF_A_USER
    assert [turns.take(None, 0) for _ in range(left + 1)] == [True] * left + [False]
    assert not turns.take("bob", 0)
    turns.leave(None)
    assert not turns.take("ann", 0)
    assert turns.take("bob", 0)


def test_a_turn_that_ends_is_given_to_a_request_that_waits() -> None:
    turns = Turns(at_a_time=1)
    assert turns.take("ann", 0)
    found: list[bool] = []
    waiting = threading.Thread(target=lambda: found.append(turns.take("bob", LONG_S)))
    waiting.start()
    turns.leave("ann")
    waiting.join(LONG_S)
    assert found == [True]
    assert not turns.take("ann", 0)


def test_nothing_is_kept_of_users_without_requests() -> None:
    turns = Turns()
    for number in range(100):
        assert turns.take(f"user {number}", 0)
        turns.leave(f"user {number}")
    assert not turns._taken
