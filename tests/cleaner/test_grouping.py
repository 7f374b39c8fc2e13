"""Groups of segments stay within the limits of one segment."""

from hypothesis import given
from hypothesis import strategies as st

from kbroker.cleaner.grouping import MANY, Extent, group
from kbroker.kernels.memory import INT32_MAX


def extents(*sizes: int, step: int = 100) -> list[Extent]:
    return [Extent(n * step, size, size // 10, size // 20) for n, size in enumerate(sizes)]


def test_neighbours_are_joined_up_to_the_size_of_a_segment() -> None:
    assert group(extents(40, 60, 1, 99, 100, 50, 50), 100, 1000, 700) == [
        [0, 100],
        [200, 300],
        [400],
        [500, 600],
    ]


def test_indexes_have_their_own_limit() -> None:
    assert group(extents(100, 100, 100), 1000, 25, 300) == [[0, 100], [200]]


def test_both_indexes_keep_to_the_limit() -> None:
    for first, second, most in ((10, 5, 20), (5, 10, 20)):
        segments = [Extent(n * 100, 1, first, second) for n in range(3)]
        assert group(segments, 1000, most, 300) == [[0, 100], [200]]
        assert group(segments, 1000, most - 1, 300) == [[0], [100], [200]]
        assert group(segments, 1000, most + 10, 300) == [[0, 100, 200]]


def test_offsets_of_a_group_fit_into_32_bits() -> None:
    step = INT32_MAX // 2 + 1
    assert group(extents(1, 1, 1, step=step), 100, 100, 3 * step) == [[0, step], [2 * step]]
    assert group(extents(1, 0, 0, step=step), 100, 100, 3 * step) == [
        [0, step, 2 * step]
    ]  # empty ones add nothing


def test_a_group_has_a_bounded_number_of_segments() -> None:
    """A client may make thousands, each of one record: the IO worker swapped all of them in one
    piece."""
    groups = group(extents(*[1] * (2 * MANY + 1)), 10_000, 10_000, 100_000)
    assert [len(bases) for bases in groups] == [MANY, MANY, 1]


@given(st.lists(st.integers(0, 50), max_size=40), st.integers(1, 100))
def test_every_segment_is_in_one_group_in_order(sizes: list[int], most: int) -> None:
    segments = extents(*sizes)
    groups = group(segments, most, 1000, 100 * len(sizes))
    assert [base for bases in groups for base in bases] == [segment.base_offset for segment in segments]
    by_base = {segment.base_offset: segment.size for segment in segments}
    assert all(len(bases) == 1 or sum(by_base[base] for base in bases) <= most for bases in groups)
