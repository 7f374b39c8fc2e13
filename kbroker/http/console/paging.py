"""Lists in pages: `limit` rows from `offset` on, and the total."""

from collections.abc import Mapping, Sequence
from typing import Any

from kbroker.http.console.schema import INT, INT32, Parameter, Schema, fields, many

PAGE = (
    Parameter("offset", "Number of rows to skip.", "integer", 0, high=INT32),
    Parameter("limit", "Rows at most.", "integer", 100, low=1, high=1000),
)


def page_of(name: str, row: Schema) -> Schema:
    """Schema of a page."""
    return fields(**{name: many(row)}, total=INT, offset=INT)


def page(name: str, rows: Sequence[Any], values: Mapping[str, Any] | Any) -> dict[str, Any]:
    """The page of the rows that a request names."""
    offset = values["offset"]
    return {name: rows[offset : offset + values["limit"]], "total": len(rows), "offset": offset}
