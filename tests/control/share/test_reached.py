"""The last offset in flight, and the rest of a batch there."""

from kbroker.control.share.ranges import DeliveryState, Range
from kbroker.control.share.reached import Reached


def apart(reached: Reached, first: int, last: int) -> list[tuple[int, int]]:
    parts = reached.apart(Range(first, last, DeliveryState.AVAILABLE, 0))
    return [(each.first, each.last) for each in parts]


def test_a_batch_that_was_not_cut_has_no_rest() -> None:
    reached = Reached(4)
    assert reached.advance(9, [(5, 9)]) is None
    assert (reached.offset, reached.is_rest(10)) == (9, False)
    assert apart(reached, 10, 19) == [(10, 19)]


def test_the_rest_of_a_cut_batch_is_apart() -> None:
    reached = Reached(4)
    assert reached.advance(6, [(0, 3), (5, 9)]) == (7, 9)
    assert (reached.offset, [each for each in range(12) if reached.is_rest(each)]) == (9, [7, 8, 9])
    assert apart(reached, 5, 12) == [(5, 6), (7, 9), (10, 12)]
    assert apart(reached, 8, 12) == [(8, 9), (10, 12)]
    assert apart(reached, 7, 8) == [(7, 8)]
    assert apart(reached, 10, 12) == [(10, 12)]
    assert apart(reached, 5, 6) == [(5, 6)]
    reached.advance(12, ())
    assert (reached.offset, reached.is_rest(9)) == (12, False)
