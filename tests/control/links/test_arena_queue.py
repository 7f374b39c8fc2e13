"""Space in control's arena: allocated in order, freed in any order, never twice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.control.links.appender import ArenaQueue, Space


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


@given(st.lists(st.one_of(st.integers(1, 300), st.integers(-20, -1)), max_size=200))
def test_live_spaces_never_overlap(steps: list[int]) -> None:
    """A positive step takes that many bytes, a negative one gives back one of the live spaces."""
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
        elif live:
            queue.give(live.pop(step % len(live)))
    for space in live:
        queue.give(space)
    assert len(queue) == 0
    assert queue.take(1024) is not None
