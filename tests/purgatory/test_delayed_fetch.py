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
        ({"a": 0, "b": -1}, 100, True),  # an error is returned at once
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
        500,
        min_bytes,
        {key: (key,) for key in available},
        available.__getitem__,
        lambda it, expired: ends.append(expired),
    )
    purgatory = Purgatory[str](0)
    assert purgatory.watch_each(fetch, available) == answered
    purgatory.expire(500)
    assert ends == [not answered]


class Case:
    """A fetch of some keys, with a position each, that counts its looks."""

    def __init__(self, keys: str, min_bytes: int) -> None:
        self.end = dict.fromkeys(keys, 0)
        self.looks: list[str] = []
        self.ends: list[bool] = []
        self.purgatory = Purgatory[str](0)
        self.fetch = DelayedFetch(
            500,
            min_bytes,
            {key: (key,) for key in keys},
            self.available,
            lambda _, late: self.ends.append(late),
        )

    def available(self, key: str) -> int:
        self.looks.append(key)
        return self.end[key]

    def grow(self, key: str, end: int) -> int:
        self.end[key] = end
        return self.purgatory.check_and_complete(key)


def test_a_fetch_completes_when_its_partition_grows() -> None:
    case = Case("a", 10)
    case.purgatory.watch_each(case.fetch, "a")
    assert case.grow("a", 9) == 0
    assert case.grow("a", 10) == 1
    assert case.ends == [False]


def test_a_change_of_one_partition_costs_one_look_and_the_sum_is_of_all() -> None:
    keys = "".join(map(chr, range(0x4E00, 0x4E00 + 10_000)))
    case = Case(keys, 10)
    assert not case.purgatory.watch_each(case.fetch, keys)
    case.looks.clear()
    assert case.grow(keys[5], 4) == 0
    assert case.grow(keys[7], 4) == 0
    assert case.grow(keys[5], 5) == 0  # not 4 + 5
    assert case.looks == [keys[5], keys[7], keys[5]]
    assert case.grow(keys[9], 1) == 1


def test_a_partition_that_shrinks_takes_its_bytes_along() -> None:
    case = Case("ab", 10)
    case.purgatory.watch_each(case.fetch, "ab")
    assert [case.grow("a", 9), case.grow("a", 0), case.grow("b", 9), case.grow("a", 1)] == [0, 0, 0, 1]


def test_two_positions_of_one_key_both_count() -> None:
    fetch = DelayedFetch(500, 10, {"a": (3, 7)}, lambda position: position, lambda *_: None)
    assert Purgatory[str](0).watch_each(fetch, "a")


def test_an_error_of_a_partition_completes_a_fetch_that_waits() -> None:
    case = Case("ab", 10)
    case.purgatory.watch_each(case.fetch, "ab")
    assert case.grow("b", -1) == 1


def test_a_record_that_comes_while_a_fetch_is_registered_is_not_missed() -> None:
    """Between two keys the loop has turns: before the look at a key, and after it."""
    for comes in "ab":
        case = Case("ab", 10)

        def keys(case: Case = case, comes: str = comes):  # type: ignore[no-untyped-def]
            yield "a"
            case.grow(comes, 10)
            yield "b"

        assert case.purgatory.watch_each(case.fetch, keys())
        assert (case.ends, case.purgatory.delayed) == ([False], 0)


def test_a_fetch_whose_client_leaves_while_it_is_registered_does_not_wait() -> None:
    case = Case("ab", 10)

    def keys():  # type: ignore[no-untyped-def]
        yield "a"
        case.purgatory.cancel(case.fetch)
        yield "b"

    assert case.purgatory.watch_each(case.fetch, keys())
    assert (case.looks, case.ends, case.purgatory.delayed) == (["a"], [], 0)
    case.purgatory.sweep("ab")
    assert case.purgatory.watched == 0


def test_the_error_of_one_partition_is_remembered_whatever_the_others_have() -> None:
    case = Case("ab", 10)
    assert not case.fetch.can_complete()
    case.end["a"] = -1
    assert case.fetch.can_complete_after("a")
    assert not case.fetch.can_complete_after("b")
    assert case.fetch.can_complete()
