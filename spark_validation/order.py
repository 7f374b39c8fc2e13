"""Steps back in an order, without sorting all rows: chunks are summarised where they are read, then
stitched.

A chunk's summary per group is its first and last place, its first and last value, and how often the
value did not rise from one place to the next. Only groups and ranges whose summaries do not chain
are sorted row by row.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

SUMMARY = ("first_at", "last_at", "first_value", "last_value", "rows", "breaks")
ROWS_BEFORE = (Window.unboundedPreceding, -1)
"""The frame of a window with all rows before a row. Those after it are the rows before it in the
opposite order: a frame that grows from row to row is linear, one that shrinks is read again for
each row."""


def steps_back(frame: DataFrame, groups: list[str], at: str, value: str) -> DataFrame:
    """Rows of the frame whose `value` is not above that of the row before, in order of `at` within
    a group.

    With columns previous_at and previous_value. `at` is unique within a group.
    """
    chunks = summaries(frame, groups, at, value)
    window = Window.partitionBy(*groups).orderBy("first_at", "last_at")
    before = window.rowsBetween(*ROWS_BEFORE)
    linked = chunks.withColumns(
        {
            "reached": F.max("last_at").over(before),
            "highest": F.max("last_value").over(before),
            "previous_first": F.lag("first_at").over(window),
        }
    )
    linked = linked.withColumn("overlaps", F.col("first_at") <= F.col("reached"))
    whole = Window.partitionBy(*groups)
    linked = linked.withColumns(
        {
            "mixed": F.max(F.coalesce("overlaps", F.lit(False))).over(whole),
            "lowest_at": F.min("first_at").over(whole),
            "highest_at": F.max("last_at").over(whole),
        }
    )
    broken = linked.where(
        (F.col("breaks") > 0) | (F.col("first_value") <= F.col("highest")) | F.col("overlaps")
    )
    ranges = broken.select(
        *groups,
        F.when(F.col("mixed"), F.col("lowest_at"))
        .otherwise(F.coalesce("previous_first", "first_at"))
        .alias("range_first"),
        F.when(F.col("mixed"), F.col("highest_at")).otherwise(F.col("last_at")).alias("range_last"),
    ).distinct()
    ranges = ranges.select(
        *[F.col(name).alias(f"range_{name}") for name in groups], "range_first", "range_last"
    )
    within = (F.col(at) >= F.col("range_first")) & (F.col(at) <= F.col("range_last"))
    for name in groups:
        within &= F.col(name) == F.col(f"range_{name}")
    rows = frame.join(F.broadcast(ranges), within, "left_semi")
    return stepping_rows(rows, groups, at, value)


def stepping_rows(rows: DataFrame, groups: list[str], at: str, value: str) -> DataFrame:
    """Rows whose value does not exceed that of the row before, by sorting all rows. This defines
    the result of `steps_back`."""
    window = Window.partitionBy(*groups).orderBy(at)
    named = rows.withColumns(
        {"previous_at": F.lag(at).over(window), "previous_value": F.lag(value).over(window)}
    )
    return named.where(F.col(value) <= F.col("previous_value"))


def summaries(frame: DataFrame, groups: list[str], at: str, value: str) -> DataFrame:
    """groups and SUMMARY: a row per group and chunk of rows."""
    picked = frame.select(*groups, at, value)
    schema = ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in picked.schema.fields[: len(groups)])
    schema += "".join(f", {name} bigint" for name in SUMMARY)

    def summarise(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                yield summary_of(batch, len(groups))

    return picked.mapInArrow(summarise, schema)


def summary_of(batch: pa.RecordBatch, group_count: int) -> pa.RecordBatch:
    """One chunk's summary. Columns of the batch: groups, at, value."""
    groups = [codes(batch.column(n)) for n in range(group_count)]
    at = batch.column(group_count).to_numpy(zero_copy_only=False)
    value = batch.column(group_count + 1).to_numpy(zero_copy_only=False)
    keys = [key for key in groups if key[0] != key[-1] or (key != key[0]).any()]
    if len(at) > 1 and not (at[1:] > at[:-1]).all():
        keys.insert(0, at)
    if keys:
        order = np.lexsort(keys)
        at, value = at[order], value[order]
        groups = [key[order] for key in groups]
    else:
        order = np.arange(len(at))
    starts = np.zeros(len(at), bool)
    starts[0] = True
    for key in groups:
        starts[1:] |= key[1:] != key[:-1]
    first = np.flatnonzero(starts)
    last = np.append(first[1:], len(at)) - 1
    breaks = np.zeros(len(at), np.int64)
    breaks[1:] = (value[1:] <= value[:-1]) & ~starts[1:]
    # the highest value of a chunk in order is its last; where there are breaks the rows are looked
    # at anyway
    columns = [batch.column(n).take(pa.array(order[first])) for n in range(group_count)]
    numbers = (
        at[first],
        at[last],
        value[first],
        value[last],
        last - first + 1,
        np.add.reduceat(breaks, first),
    )
    columns += [pa.array(column.astype(np.int64)) for column in numbers]
    return pa.RecordBatch.from_arrays(columns, [*batch.schema.names[:group_count], *SUMMARY])


def codes(column: pa.Array) -> NDArray[np.int64]:
    """Numbers that are equal where the values are."""
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return column.dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return column.to_numpy(zero_copy_only=False)
