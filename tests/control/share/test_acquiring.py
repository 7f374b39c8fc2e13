"""The choice of records to acquire, at its bounds."""

import pytest

from kbroker.control.share.acquiring import Portion, Spec, choose
from kbroker.control.share.ranges import DeliveryState, Range

ALL = Spec(500)
LIMIT = 5
THROTTLED = 3
"""The delivery count from which fewer records are acquired at a time."""


def free(first: int, last: int, count: int) -> Range:
    return Range(first, last, DeliveryState.AVAILABLE, count)


def chosen(
    *portions: Portion, spec: Spec = ALL, read: tuple[tuple[int, int], ...] = (), limit: int = LIMIT
) -> list[tuple[int, int]]:
    return [(each.first, each.last) for each in choose(portions, read, spec, limit)]


def test_records_with_many_deliveries_are_not_acquired_with_others() -> None:
    fresh, worn = Portion(8, [free(0, 7, 1)]), Portion(8, [free(8, 15, THROTTLED)])
    assert chosen(fresh, worn) == [(0, 7)]
    assert chosen(worn, fresh) == [(8, 11)]


def test_one_record_with_many_deliveries_throttles_its_portion() -> None:
    mixed = Portion(8, [free(0, 1, 1), free(2, 7, THROTTLED)])
    assert chosen(mixed, Portion(8, [free(8, 15, 1)])) == [(0, 1), (2, 3)]


def test_the_first_throttled_record_decides_how_many_of_a_portion_are_acquired() -> None:
    portion = Portion(16, [free(0, 3, 5), free(4, 15, 6)])
    assert chosen(portion, limit=10) == [(0, 3), (4, 7)]


def test_a_last_delivery_is_of_one_record_and_only_if_it_is_the_first_one() -> None:
    last = free(4, 7, LIMIT - 1)
    assert chosen(Portion(8, [last])) == [(4, 4)]
    assert chosen(Portion(8, [free(0, 3, 1), last])) == [(0, 3)]


def test_a_portion_of_which_more_is_acquired_than_its_throttled_records_allow_is_not_cut() -> None:
    portion = Portion(16, [free(0, 9, 1), free(10, 15, THROTTLED)])
    assert chosen(portion) == [(0, 9), (10, 15)]


def test_records_beyond_a_lowered_limit_are_acquired_in_small_numbers() -> None:
    """The limit of a group may be lowered while its records are in flight."""
    assert chosen(Portion(16, [free(0, 15, LIMIT)])) == [(0, 1)]


def test_with_two_deliveries_the_second_is_of_all_records() -> None:
    assert chosen(Portion(8, [free(0, 7, 1)]), limit=2) == [(0, 7)]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (Spec(500, 8), [(0, 7), (8, 15), (16, 23)]),
        (Spec(500, 9), [(0, 15), (16, 23)]),
        (Spec(500, 8, strict=True), [(0, 23)]),
    ],
)
def test_batches_are_joined_up_to_the_batch_size(spec: Spec, expected: list[tuple[int, int]]) -> None:
    new = Portion(0, [free(0, 23, 0)])
    assert chosen(new, spec=spec, read=((0, 7), (8, 15), (16, 23))) == expected


def test_nothing_more_is_acquired_once_there_are_enough_records() -> None:
    released = Portion(4, [free(0, 3, 1)]), Portion(4, [free(4, 7, 1)])
    assert chosen(*released, spec=Spec(4)) == [(0, 3)]
    assert chosen(*released, spec=Spec(5)) == [(0, 3), (4, 7)]
    new = Portion(0, [free(0, 15, 0)])
    assert chosen(new, spec=Spec(8), read=((0, 7), (8, 15))) == [(0, 7)]
    assert chosen(new, spec=Spec(9), read=((0, 7), (8, 15))) == [(0, 15)]


def test_a_strict_fetch_cuts_released_records() -> None:
    portion = Portion(8, [free(0, 1, 1), free(4, 7, 1)])
    assert chosen(portion, spec=Spec(3, strict=True)) == [(0, 1), (4, 4)]


def test_only_the_free_parts_of_batches_are_acquired() -> None:
    parts = Portion(0, [free(0, 1, 0), free(5, 9, 0)])
    assert chosen(parts, read=((0, 3), (4, 7), (8, 9))) == [(0, 1), (5, 9)]
    assert chosen(Portion(0, [free(0, 4, 0)]), read=((4, 7),)) == [(4, 4)]


@pytest.mark.parametrize(("limit", "count", "last"), [(4, 1, 7), (4, 2, 3), (3, 1, 7), (3, 2, 0)])
def test_records_are_throttled_from_half_of_the_limit_on(limit: int, count: int, last: int) -> None:
    """The last delivery of three is of one record, the third of four of half as many."""
    assert chosen(Portion(8, [free(0, 7, count)]), limit=limit) == [(0, last)]


def test_a_portion_is_not_cut_at_as_many_records_as_its_throttled_ones_allow() -> None:
    portion = Portion(16, [free(0, 7, 1), free(8, 15, THROTTLED)])
    assert chosen(portion) == [(0, 7), (8, 15)]
