"""Offsets without a dead letter: together where they are of one kind, and taken back."""

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
