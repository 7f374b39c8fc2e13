"""Space in control's arena: allocated in order, freed in any order, never twice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.control.links.arena_queue import ArenaQueue, Space


def test_space_is_reused_only_after_everything_before_it() -> None:
    queue = ArenaQueue(256)
    first, second, third = (queue.take(64) for _ in range(3))
    assert first
    assert second
    assert third
    queue.give(second)
    assert queue.take(128) is None
    queue.give(first)
    assert (space := queue.take(64))
    assert space.start == 192
    assert (space := queue.take(64))
    assert space.start == 0


def test_more_than_the_arena_is_refused() -> None:
    with pytest.raises(ValueError, match="do not fit"):
        ArenaQueue(64).take(65)


def test_a_space_set_aside_does_not_keep_others_from_being_reused() -> None:
    """An IO worker that hangs may read it hours later."""
    queue = ArenaQueue(256)
    first, hanging = queue.take(64), queue.take(64)
    assert first
    assert hanging
    queue.set_aside([hanging])
    queue.give(first)
    starts, before = [], None
    for _ in range(4):
        space = queue.take(64)
        assert space
        starts.append(space.start)
        if before:
            queue.give(before)
        before = space
    assert starts == [0, 128, 192, 0]
    assert before
    queue.give(before)
    assert queue.take(192) is None
    queue.give(hanging)
    assert len(queue) == 0
    assert queue.take(256)


@given(st.lists(st.one_of(st.integers(1, 300), st.integers(-40, -1)), max_size=200))
def test_live_spaces_never_overlap(steps: list[int]) -> None:
    """A positive step takes that many bytes, a negative one gives back one of the live spaces, or
    sets it aside."""
    queue, live = ArenaQueue(1024), list[Space]()
    for step in steps:
        if step > 0:
            space = queue.take(step)
            if space is None:
                assert live
                continue
            assert space.end - space.start >= step
            assert space.end <= 1024
            assert all(space.end <= other.start or other.end <= space.start for other in live)
            live.append(space)
        elif live and step < -20:
            queue.set_aside([live[step % len(live)]])
        elif live:
            queue.give(live.pop(step % len(live)))
    for space in live:
        queue.give(space)
    assert len(queue) == 0
    assert queue.take(1024) is not None
