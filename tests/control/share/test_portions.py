"""Records that were given together stay known as such."""

from kbroker.control.share.portions import NEW, Portions
from kbroker.control.share.ranges import DeliveryState, Range


def free(first: int, last: int) -> Range:
    return Range(first, last, DeliveryState.AVAILABLE, 1)


def test_a_range_is_cut_where_its_records_were_not_given_together() -> None:
    portions = Portions()
    for first in (10, 0, 4, 4):
        portions.begin(first)
    assert portions.cut(free(2, 12), 15) == [(0, free(2, 3)), (1, free(4, 9)), (2, free(10, 12))]
    assert [portions.size(at, 15) for at in (NEW, 0, 1, 2)] == [0, 4, 6, 6]


def test_portions_below_an_offset_are_forgotten() -> None:
    portions = Portions()
    for first in (0, 4, 10):
        portions.begin(first)
    portions.drop_before(9)
    assert portions.cut(free(9, 11), 11) == [(0, free(9, 9)), (1, free(10, 11))]


def test_the_portion_of_an_offset_is_kept_and_none_before_it() -> None:
    portions = Portions()
    for first in (0, 4, 10):
        portions.begin(first)
    portions.drop_before(4)
    assert portions.cut(free(4, 11), 11) == [(0, free(4, 9)), (1, free(10, 11))]
    portions.drop_before(0)
    assert portions.cut(free(4, 11), 11) == [(0, free(4, 9)), (1, free(10, 11))]
