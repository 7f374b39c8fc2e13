"""The choice of the rows with series of their own."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from kbroker.http.shown_rows import CLEARLY_LARGER, ShownRows, largest


def names(shown: ShownRows[str], sizes: dict[str, float]) -> list[str]:
    """The chosen keys of items with these sizes."""
    return shown.of(list(sizes), lambda name: name, sizes.__getitem__)


def owned(shown: ShownRows[str], sizes: dict[str, float]) -> list[str]:
    """The same, if the first letter of a key is its owner."""
    return shown.of(list(sizes), lambda name: name, sizes.__getitem__, lambda name: name[0])


def test_all_rows_within_the_bound_are_shown_in_their_order() -> None:
    assert names(ShownRows(3), {"c": 1, "a": 3, "b": 0}) == ["c", "a", "b"]


def test_the_largest_rows_are_shown_in_their_order() -> None:
    assert names(ShownRows(2), {"a": 5, "b": 1, "c": 0, "d": 9}) == ["a", "d"]


def test_a_shown_row_stays_beside_one_that_is_hardly_larger() -> None:
    shown: ShownRows[str] = ShownRows(1)
    assert names(shown, {"a": 100, "b": 90}) == ["a"]
    assert names(shown, {"a": 100, "b": 120}) == ["a"]
    assert names(shown, {"a": 100, "b": 126}) == ["b"]
    assert names(shown, {"a": 130, "b": 126}) == ["b"]


def test_shown_rows_stay_among_equal_ones_also_without_a_size() -> None:
    shown: ShownRows[str] = ShownRows(2)
    assert names(shown, {"a": 0, "b": 2, "c": 2, "d": -1}) == ["b", "c"]
    assert names(shown, {"a": 0, "b": 0, "c": 0, "d": 0}) == ["b", "c"]
    assert names(shown, {"a": -1, "b": -1, "c": -1, "d": -1}) == ["b", "c"]


def test_of_equal_rows_each_owner_has_one_before_one_has_two() -> None:
    sizes: dict[str, float] = dict.fromkeys(("a1", "a2", "a3", "b1", "b2", "c1"), 7)
    assert owned(ShownRows(3), sizes) == ["a1", "b1", "c1"]
    assert owned(ShownRows(4), sizes) == ["a1", "a2", "b1", "c1"]
    assert owned(ShownRows(3), dict.fromkeys(sizes, 0.0)) == ["a1", "b1", "c1"]


def test_a_larger_row_counts_for_its_owner() -> None:
    assert owned(ShownRows(2), {"a1": 5, "a2": 9, "b1": 5}) == ["a2", "b1"]
    assert owned(ShownRows(2), {"a1": 5, "a2": 9, "b1": 4}) == ["a1", "a2"]
    assert owned(ShownRows(0), {"a1": 5, "b1": 5}) == []


def test_a_shown_row_counts_for_its_owner_wherever_it_is() -> None:
    shown: ShownRows[str] = ShownRows(2)
    assert owned(shown, {"a1": 0, "a2": 9, "b1": 0, "c1": 9}) == ["a2", "c1"]
    assert owned(shown, {"a1": 0, "a2": 0, "b1": 0}) == ["a2", "b1"]


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(-1, 3)), max_size=30),
    st.integers(1, 12),
    st.sets(st.integers(0, 29)),
)
def test_an_owner_with_an_equal_row_left_out_has_as_many_as_another(
    rows: list[tuple[str, int]], most: int, before: set[int]
) -> None:
    """Of the rows without series of their own until now: shown ones stay."""
    numbers = range(len(rows))
    chosen = largest(numbers, most, before, lambda n: n, lambda n: rows[n][1], lambda n: rows[n][0])
    counts = Counter(rows[n][0] for n in chosen)
    added = [n for n in chosen if n not in before]
    for out in (n for n in numbers if n not in chosen):
        for other in (n for n in added if rows[n][1] == rows[out][1]):
            assert counts[rows[other][0]] <= counts[rows[out][0]] + 1


def test_a_row_that_is_gone_leaves_its_place() -> None:
    shown: ShownRows[str] = ShownRows(1)
    assert names(shown, {"a": 10, "b": 5, "c": 1}) == ["a"]
    assert names(shown, {"b": 5, "c": 1}) == ["b"]


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=30), st.integers(0, 10), st.data())
def test_sizes_that_change_little_change_nothing(sizes: list[int], most: int, data: st.DataObject) -> None:
    """A change by less than the factor, from one choice to the next, of all rows at once."""
    shown: ShownRows[int] = ShownRows(most)
    first = shown.of(range(len(sizes)), lambda row: row, sizes.__getitem__)
    factor = st.floats(1, CLEARLY_LARGER**0.5 * 0.999)
    moved = [size / data.draw(factor) * data.draw(factor) for size in sizes]
    assert shown.of(range(len(sizes)), lambda row: row, moved.__getitem__) == first


@given(st.lists(st.integers(-1, 50), max_size=20), st.integers(1, 10), st.sets(st.integers(0, 19)))
def test_no_row_is_clearly_larger_than_a_shown_one(sizes: list[int], most: int, before: set[int]) -> None:
    rows = range(len(sizes))
    chosen = largest(rows, most, before, lambda row: row, sizes.__getitem__)
    assert len(chosen) == min(most, len(sizes))
    smallest = min((sizes[row] for row in chosen), default=0)
    left_out = [sizes[row] for row in rows if row not in chosen]
    assert all(size <= max(smallest, 0) * CLEARLY_LARGER or size <= smallest for size in left_out)
