"""The conditions of delayed operations."""

import pytest

from kbroker.purgatory.delayed_fetch import DelayedFetch
from kbroker.purgatory.purgatory import Purgatory


@pytest.mark.parametrize(
    ("available", "min_bytes", "answered"),
    [
        ({"a": 0, "b": 0}, 1, False),
        ({"a": 40, "b": 59}, 100, False),
        ({"a": 40, "b": 60}, 100, True),
        ({"a": 0, "b": -1}, 100, True),  # an error is told at once
        ({"a": 0}, 0, True),
        ({}, 0, True),
        ({}, 1, False),
    ],
)
def test_a_fetch_is_answered_with_min_bytes_or_an_error(
    available: dict[str, int], min_bytes: int, answered: bool
) -> None:
    ends = []
    fetch = DelayedFetch(
        500, min_bytes, tuple(available), available.__getitem__, lambda it, expired: ends.append(expired)
    )
    purgatory = Purgatory[str](0)
    assert purgatory.watch(fetch, available) == answered
    purgatory.expire(500)
    assert ends == [not answered]


def test_a_fetch_completes_when_its_partition_grows() -> None:
    end = {"a": 0}
    ends = []
    fetch = DelayedFetch(500, 10, ("a",), end.__getitem__, lambda it, expired: ends.append(it.positions))
    purgatory = Purgatory[str](0)
    purgatory.watch(fetch, ("a",))
    end["a"] = 9
    assert purgatory.check_and_complete("a") == 0
    end["a"] = 10
    assert purgatory.check_and_complete("a") == 1
    assert ends == [("a",)]
