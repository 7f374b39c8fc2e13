"""Summaries of chunks of rows, by which only groups and ranges out of order are sorted."""

from pathlib import Path

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="`make venv-spark` brings it")

import spark_validation
from spark_validation.order import SUMMARY, summary_of

Rows = list[tuple[str, int, int, int]]


def summary(rows: Rows) -> list[tuple[object, ...]]:
    """Of rows of (topic, partition, at, value)."""
    columns = [list(column) for column in zip(*rows, strict=True)]
    arrays = [pa.array(columns[0], pa.string()), pa.array(columns[1], pa.int32())]
    arrays += [pa.array(column, pa.int64()) for column in columns[2:]]
    batch = pa.RecordBatch.from_arrays(arrays, ["topic", "partition", "at", "value"])
    found = summary_of(batch, 2)
    assert tuple(found.schema.names) == ("topic", "partition", *SUMMARY)
    return sorted(zip(*(found.column(n).to_pylist() for n in range(found.num_columns)), strict=True))


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ([("a", 0, 5, 50)], [("a", 0, 5, 5, 50, 50, 1, 0)]),
        ([("a", 0, 5, 50), ("a", 0, 7, 51), ("a", 0, 9, 60)], [("a", 0, 5, 9, 50, 60, 3, 0)]),
        ([("a", 0, 5, 50), ("a", 0, 7, 50)], [("a", 0, 5, 7, 50, 50, 2, 1)]),
        ([("a", 0, 5, 50), ("a", 0, 7, 49), ("a", 0, 8, 48)], [("a", 0, 5, 8, 50, 48, 3, 2)]),
        # out of order in the chunk, in order by place
        ([("a", 0, 9, 60), ("a", 0, 5, 50), ("a", 0, 7, 51)], [("a", 0, 5, 9, 50, 60, 3, 0)]),
        # a lower value of another group is no break
        (
            [("a", 0, 5, 50), ("a", 1, 6, 3), ("b", 1, 7, 2), ("a", 0, 8, 51)],
            [("a", 0, 5, 8, 50, 51, 2, 0), ("a", 1, 6, 6, 3, 3, 1, 0), ("b", 1, 7, 7, 2, 2, 1, 0)],
        ),
        (
            [("a", 0, 5, 50), ("a", 1, 5, 3), ("a", 0, 6, 40), ("a", 1, 4, 9)],
            [("a", 0, 5, 6, 50, 40, 2, 1), ("a", 1, 4, 5, 9, 3, 2, 1)],
        ),
        # the first and the last row are of one group, the middle is not
        (
            [("a", 0, 1, 1), ("b", 0, 2, 0), ("a", 0, 3, 2)],
            [("a", 0, 1, 3, 1, 2, 2, 0), ("b", 0, 2, 2, 0, 0, 1, 0)],
        ),
    ],
)
def test_a_chunk_has_its_ends_and_its_steps_back(rows: Rows, found: list[tuple[object, ...]]) -> None:
    assert summary(rows) == found


def test_no_window_is_read_to_its_end_for_each_row() -> None:
    """Spark reads a frame that ends at the window's end once for each of its rows: the check of an
    hour's reads took an hour."""
    sources = Path(spark_validation.__file__).parent.rglob("*.py")
    assert not [file.name for file in sources if "unboundedFollowing" in file.read_text()]
