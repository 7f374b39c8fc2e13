"""Transactions that ended in part, by what their records are in each partition."""

import pytest

pytest.importorskip("pyspark", reason="`make venv-spark` brings it")

from spark_validation.checks.partial_transactions import (
    CONTRADICTS,
    UNFINISHED,
    Stretch,
    convicted,
    transactions,
)
from spark_validation.evidence import ABORTED, OPEN, VISIBLE


def stretch(
    state: int, partition: int = 0, first: int = 0, last: int = 9, number: int = -1, producer: int = 5
) -> Stretch:
    """Records first..last of a producer. number: of their transaction, -1 where no row has it."""
    marker = -1 if state == OPEN else 100 + first
    return Stretch(producer, "t", partition, marker, state, number, first, last, False)


def kinds(*stretches: Stretch, killed: bool = False) -> list[tuple[int, str]]:
    """(partition, kind) of what is convicted."""
    found = convicted(stretches, {5} if killed else set())
    return sorted((each.partition, kind) for each, kind in found)


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        (VISIBLE, VISIBLE, []),
        (ABORTED, ABORTED, []),
        (OPEN, OPEN, []),
        (VISIBLE, ABORTED, [(0, CONTRADICTS), (1, CONTRADICTS)]),
        (VISIBLE, OPEN, [(1, UNFINISHED)]),
        (ABORTED, OPEN, [(1, UNFINISHED)]),
    ],
)
def test_a_transaction_ends_everywhere_in_the_same_way(
    one: int, other: int, found: list[tuple[int, str]]
) -> None:
    assert kinds(stretch(one, number=7), stretch(other, 1, number=7)) == found
    assert kinds(stretch(one, 0, 0, 5), stretch(other, 1, 5, 9)) == found  # their numbers overlap


def test_all_three_ends_of_a_transaction_are_named() -> None:
    each = [stretch(state, partition, number=7) for partition, state in enumerate((VISIBLE, ABORTED, OPEN))]
    assert kinds(*each) == [(0, CONTRADICTS), (1, CONTRADICTS), (2, UNFINISHED)]


def test_transactions_of_other_numbers_and_producers_may_end_otherwise() -> None:
    committed = stretch(VISIBLE, 0, 0, 9, number=7)
    assert kinds(committed, stretch(ABORTED, 1, 10, 19, number=8)) == []
    assert kinds(committed, stretch(ABORTED, 1, number=7, producer=6)) == []
    assert kinds(stretch(VISIBLE, 0, 0, 9), stretch(ABORTED, 1, 10, 19)) == []


def test_the_last_records_of_a_killed_producer_are_one_transaction() -> None:
    halves = stretch(VISIBLE, 0, 0, 9), stretch(ABORTED, 1, 10, 19)
    assert kinds(*halves, killed=True) == [(0, CONTRADICTS), (1, CONTRADICTS)]


def test_two_markers_in_a_partition_are_of_two_transactions_of_a_killed_producer() -> None:
    rows = stretch(VISIBLE, 0, 0, 9), stretch(ABORTED, 0, 10, 19), stretch(ABORTED, 1, 10, 19)
    assert kinds(*rows, killed=True) == []


def test_a_reported_transaction_of_a_killed_producer_is_apart_from_its_last_one() -> None:
    known = stretch(VISIBLE, 0, 0, 9, number=7)._replace(reported=True)
    assert kinds(known, stretch(ABORTED, 1, 10, 19), killed=True) == []


def test_numbers_that_sends_have_keep_transactions_of_a_killed_producer_apart() -> None:
    rows = stretch(VISIBLE, 0, 0, 9, number=7), stretch(ABORTED, 1, 10, 19, number=8)
    assert kinds(*rows, killed=True) == []
    assert kinds(*rows, stretch(VISIBLE, 2, 20, 29), stretch(OPEN, 3, 30, 39), killed=True) == [
        (3, UNFINISHED)
    ]


def test_stretches_are_grouped_once_each() -> None:
    rows = [stretch(VISIBLE, n % 3, 10 * n, 10 * n + 10, producer=n % 2) for n in range(6)]
    grouped = transactions(rows, set())
    assert sorted(each for group in grouped for each in group) == sorted(rows)
    assert len(grouped) == 6
    touching = [stretch(VISIBLE, n, 10 * n, 10 * n + 10) for n in range(3)]
    assert [len(group) for group in transactions(touching, set())] == [3]
    apart = [stretch(VISIBLE, n, 10 * n, 10 * n + 9) for n in range(3)]
    assert [len(group) for group in transactions(apart, set())] == [1, 1, 1]
