"""The last offset in flight, and the rest of a batch there."""

from kbroker.control.share.acquired_end import AcquiredEnd
from kbroker.control.share.ranges import DeliveryState, Range


def apart(end: AcquiredEnd, first: int, last: int) -> list[tuple[int, int]]:
    parts = end.apart(Range(first, last, DeliveryState.AVAILABLE, 0))
    return [(each.first, each.last) for each in parts]


def test_a_batch_that_was_not_cut_has_no_rest() -> None:
    end = AcquiredEnd(4)
    assert end.advance(9, [(5, 9)]) is None
    assert (end.offset, end.is_rest(10)) == (9, False)
    assert apart(end, 10, 19) == [(10, 19)]


def test_the_rest_of_a_cut_batch_is_apart() -> None:
    end = AcquiredEnd(4)
    assert end.advance(6, [(0, 3), (5, 9)]) == (7, 9)
    assert (end.offset, [each for each in range(12) if end.is_rest(each)]) == (9, [7, 8, 9])
    assert apart(end, 5, 12) == [(5, 6), (7, 9), (10, 12)]
    assert apart(end, 8, 12) == [(8, 9), (10, 12)]
    assert apart(end, 7, 8) == [(7, 8)]
    assert apart(end, 10, 12) == [(10, 12)]
    assert apart(end, 5, 6) == [(5, 6)]
    end.advance(12, ())
    assert (end.offset, end.is_rest(9)) == (12, False)
