"""The order of a partition's appends: whatever is refused, no older batch is written after a newer
one. And the space of batches in the arena: allocated in order, freed in any order, never twice."""

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.control.links.append_queue import Append, AppendQueue, ArenaQueue, Ended, Space
from kbroker.control.metadata.catalogue import Partition, Replica
from kbroker.protocol.errors import ErrorCode

REFUSED: Final = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)


def append(content: bytes = b"x", deadline_ns: int = 100) -> Append:
    return Append(content, deadline_ns, lambda error, base_offset: None)


@pytest.fixture
def queue() -> AppendQueue:
    return AppendQueue(Partition("t", 0, "/d", 3, 77))


def pushed(queue: AppendQueue, count: int) -> list[Append]:
    """Add and push so many appends."""
    found = []
    for number in range(count):
        queue.add(append(b"%d" % number))
        following = queue.next()
        assert following is not None
        queue.pushed()
        found.append(following)
    return found


def test_an_empty_queue_pushes_nothing(queue: AppendQueue) -> None:
    assert queue.next() is None
    assert not queue.is_waiting
    assert len(queue) == 0


def test_appends_are_pushed_without_a_wait_for_each_other(queue: AppendQueue) -> None:
    first, second = pushed(queue, 2)
    assert not queue.is_waiting
    assert len(queue) == 2
    assert queue.ended(first, 0, 10) == [Ended(first, 0, 10)]
    assert queue.ended(second, 0, 11) == [Ended(second, 0, 11)]
    assert len(queue) == 0


def test_ends_are_reported_in_order(queue: AppendQueue) -> None:
    first, second = pushed(queue, 2)
    assert queue.ended(second, 0, 11) == []
    assert queue.ended(first, 5, -1) == [Ended(first, 5, -1), Ended(second, 0, 11)]


def test_a_refused_append_is_pushed_again_after_a_pause_and_first(queue: AppendQueue) -> None:
    (first,) = pushed(queue, 1)
    assert queue.ended(first, REFUSED, -1) == []
    assert first.refused
    second = append()
    queue.add(second)
    assert queue.next() is None
    assert queue.is_waiting
    assert queue.resume(99) == []
    assert queue.next() is first


def test_after_a_refusal_one_append_is_pushed_until_one_is_written(queue: AppendQueue) -> None:
    first, second = pushed(queue, 2)
    queue.ended(first, REFUSED, -1)
    queue.ended(second, REFUSED, -1)
    queue.resume(0)
    assert queue.next() is first
    queue.pushed()
    assert queue.next() is None
    assert queue.ended(first, 0, 5) == [Ended(first, 0, 5)]
    assert queue.next() is second
    queue.pushed()
    third = append()
    queue.add(third)
    assert queue.next() is third


def test_a_refused_append_waits_for_the_outcome_of_those_pushed_after_it(queue: AppendQueue) -> None:
    first, second = pushed(queue, 2)
    queue.ended(first, REFUSED, -1)
    assert queue.is_waiting
    assert len(queue) == 2
    queue.resume(0)
    queue.add(append())
    assert queue.next() is None
    queue.ended(second, REFUSED, -1)
    queue.resume(0)
    assert queue.next() is first


def test_a_refused_append_fails_once_a_later_one_is_written(queue: AppendQueue) -> None:
    first, second, third = pushed(queue, 3)
    queue.ended(first, REFUSED, -1)
    assert queue.ended(second, 0, 5) == [Ended(first, REFUSED, -1), Ended(second, 0, 5)]
    assert queue.ended(third, 0, 6) == [Ended(third, 0, 6)]
    assert len(queue) == 0


def test_a_refused_append_is_repeated_if_the_later_one_failed(queue: AppendQueue) -> None:
    first, second = pushed(queue, 2)
    queue.ended(first, REFUSED, -1)
    assert queue.ended(second, int(ErrorCode.NOT_ENOUGH_REPLICAS), -1) == [
        Ended(second, ErrorCode.NOT_ENOUGH_REPLICAS, -1)
    ]
    queue.resume(0)
    assert queue.next() is first


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
    ],
)
def test_a_refused_append_fails_if_a_later_one_failed_but_may_be_in_the_log(
    queue: AppendQueue, error: ErrorCode
) -> None:
    first, second = pushed(queue, 2)
    queue.ended(first, REFUSED, -1)
    assert queue.ended(second, int(error), -1) == [Ended(first, REFUSED, -1), Ended(second, error, -1)]
    assert len(queue) == 0


def elect(queue: AppendQueue) -> None:
    """Another replica leads."""
    queue.partition.leader = Replica("t", 0, "/e", 4, 78, worker=1)


def test_appends_at_a_leader_are_not_abandoned(queue: AppendQueue) -> None:
    pushed(queue, 1)
    assert queue.abandon() == []
    assert not queue.is_waiting


def test_the_appends_at_a_former_leader_are_repeated_in_their_order(queue: AppendQueue) -> None:
    first, second = pushed(queue, 2)
    elect(queue)
    assert queue.abandon() == []
    queue.resume(0)
    assert queue.next() is first
    queue.pushed()
    assert queue.abandon() == []
    assert queue.ended(first, 0, 5) == [Ended(first, 0, 5)]
    assert queue.next() is second


def test_a_former_leader_does_not_keep_back_the_outcome_of_later_appends(queue: AppendQueue) -> None:
    (old,) = pushed(queue, 1)
    elect(queue)
    (new,) = pushed(queue, 1)
    assert queue.ended(new, 0, 5) == []
    assert queue.abandon() == [Ended(old, REFUSED, -1), Ended(new, 0, 5)]
    assert len(queue) == 0


def test_waiting_appends_expire_with_another_error_than_those_in_the_log(queue: AppendQueue) -> None:
    (first,) = pushed(queue, 1)
    queue.ended(first, REFUSED, -1)
    late, early = append(deadline_ns=101), append(deadline_ns=100)
    queue.add(late)
    queue.add(early)
    assert queue.resume(100) == [
        Ended(first, REFUSED, -1),
        Ended(early, REFUSED, -1),
    ]
    assert queue.next() is late


@given(st.lists(st.tuples(st.sampled_from("apeer"), st.integers(0, 7)), max_size=120))
def test_batches_are_written_and_reported_in_order(
    steps: list[tuple[str, int]],
) -> None:
    """An IO worker that opens and closes: a, an append; p, a push; e, the worker takes an entry; r,
    the pause ends."""
    queue = AppendQueue(Partition("t", 0, "/d", 3, 77))
    ring: list[Append] = []
    log: list[int] = []
    reported: list[tuple[int, int]] = []
    added = 0

    def report(ended: list[Ended]) -> None:
        reported.extend((int(each.append.batch), each.error) for each in ended)

    def push() -> None:
        while (following := queue.next()) is not None:
            ring.append(following)
            queue.pushed()

    def take(is_open: bool) -> None:
        first = ring.pop(0)
        if is_open:
            log.append(int(first.batch))
        report(queue.ended(first, 0 if is_open else REFUSED, len(log)))

    for step, number in steps:
        if step == "a":
            queue.add(append(b"%d" % added))
            added += 1
        elif step == "p":
            push()
        elif step == "e" and ring:
            take(number > 3)
        elif step == "r":
            report(queue.resume(0))
    while len(queue):
        report(queue.resume(0))
        push()
        while ring:
            take(True)
    assert log == sorted(set(log))
    assert [number for number, error in reported if not error] == log
    assert [number for number, _ in reported] == list(range(added))


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
    assert ArenaQueue(100).may_hold(64)
    assert not ArenaQueue(100).may_hold(65), "spaces are aligned"


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
