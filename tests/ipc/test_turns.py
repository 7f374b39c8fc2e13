"""The order in which requests with much work have their turns."""

import pytest

from kbroker.ipc.turns import Turns


def test_requests_take_turns_and_the_work_of_each_keeps_its_order() -> None:
    turns: Turns[str, int] = Turns()
    for request, work in (("a", 1), ("a", 2), ("a", 3), ("b", 4), ("c", 5), ("c", 6)):
        turns.put(request, work)
    taken = []
    while turns:
        taken.append(turns.take())
    assert taken == [("a", 1), ("b", 4), ("c", 5), ("a", 2), ("c", 6), ("a", 3)]


def test_a_request_that_returns_is_the_last() -> None:
    turns: Turns[str, int] = Turns()
    turns.put("a", 1)
    turns.put("b", 2)
    assert turns.take() == ("a", 1)
    turns.put("a", 3)
    assert [turns.take(), turns.take()] == [("b", 2), ("a", 3)]


def test_no_turn_is_left_when_all_work_is_taken() -> None:
    turns: Turns[str, int] = Turns()
    turns.put("a", 1)
    turns.take()
    assert not turns
    with pytest.raises(KeyError):
        turns.take()
