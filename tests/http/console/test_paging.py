"""Pages of a list: their rows, the total, and the parameters."""

import pytest

from kbroker.http.console.paging import PAGE, page, page_of
from kbroker.http.console.refusal import Refusal
from kbroker.http.console.schema import TEXT, from_query


@pytest.mark.parametrize(
    ("offset", "limit", "rows"),
    [(0, 2, [1, 2]), (1, 2, [2, 3]), (2, 2, [3]), (3, 2, []), (9, 1, []), (0, 3, [1, 2, 3]), (2, 1, [3])],
)
def test_a_page_has_its_rows_and_the_total_of_all(offset: int, limit: int, rows: list[int]) -> None:
    found = page("topics", [1, 2, 3], {"offset": offset, "limit": limit})
    assert found == {"topics": rows, "total": 3, "offset": offset}


def test_a_page_begins_at_the_start_with_a_hundred_rows() -> None:
    assert from_query(PAGE, {}) == {"offset": 0, "limit": 100}


@pytest.mark.parametrize(
    ("name", "accepted", "refused"),
    [("offset", 0, -1), ("offset", 2**31 - 1, 2**31), ("limit", 1, 0), ("limit", 1000, 1001)],
)
def test_a_page_has_bounds(name: str, accepted: int, refused: int) -> None:
    assert from_query(PAGE, {name: [str(accepted)]})[name] == accepted
    with pytest.raises(Refusal, match=f"{name}: expected"):
        from_query(PAGE, {name: [str(refused)]})


def test_the_schema_of_a_page_requires_rows_total_and_offset() -> None:
    schema = page_of("topics", TEXT)
    assert schema["required"] == ["topics", "total", "offset"]
    assert schema["properties"]["topics"] == {"type": "array", "items": {"type": "string"}}
