"""Offsets without a dead letter: together where they are of one kind, and taken back."""

import pytest

from kbroker.control.share.dead_offsets import EXCEEDED, REJECTED, Dead, DeadOffsets


def test_neighbours_of_one_kind_are_written_together() -> None:
    dead = DeadOffsets()
    for each in (Dead(0, 1, 1, REJECTED), Dead(2, 3, 1, REJECTED), Dead(4, 4, 2, REJECTED)):
        dead.add(each)
    assert not dead.is_empty
    assert dead.take() == [Dead(0, 3, 1, REJECTED), Dead(4, 4, 2, REJECTED)]
    assert (dead.is_empty, dead.take()) == (True, [])


def test_offsets_that_are_held_again_are_removed() -> None:
    dead = DeadOffsets()
    dead.add(Dead(0, 9, 1, EXCEEDED))
    dead.add(Dead(20, 29, 1, EXCEEDED))
    dead.remove(4, 5)
    dead.remove(20, 29)
    assert dead.take() == [Dead(0, 3, 1, EXCEEDED), Dead(6, 9, 1, EXCEEDED)]


def test_only_adjacent_offsets_of_one_kind_are_written_together() -> None:
    kinds = [
        Dead(0, 1, 1, REJECTED),
        Dead(3, 3, 1, REJECTED),
        Dead(4, 4, 1, EXCEEDED),
        Dead(5, 5, 2, EXCEEDED),
        Dead(5, 6, 2, EXCEEDED),
    ]
    dead = DeadOffsets()
    for each in kinds:
        dead.add(each)
    assert dead.take() == kinds


@pytest.mark.parametrize(
    ("first", "last", "left"),
    [
        (0, 9, []),
        (0, 8, [(9, 9)]),
        (1, 9, [(0, 0)]),
        (5, 5, [(0, 4), (6, 9)]),
        (10, 12, [(0, 9)]),
        (9, 30, [(0, 8)]),
    ],
)
def test_a_removal_leaves_what_lies_on_both_sides(first: int, last: int, left: list[tuple[int, int]]) -> None:
    dead = DeadOffsets()
    dead.add(Dead(0, 9, 3, REJECTED))
    dead.remove(first, last)
    assert dead.take() == [Dead(begin, end, 3, REJECTED) for begin, end in left]
