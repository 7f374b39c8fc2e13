"""The segment source's rows as a DataFrame, for half of what `format("kafka-segments")` costs in
the JVM.

Spark copies a row of a Python data source twice (out of Arrow, and into the row of a projection
that it puts after every source that returns rows), a row of `mapInArrow` once; and for a data
source it asks two Python processes for schema and plan, each time. Rows and columns are the same.
The files are listed here, on the driver, when the frame is made.
"""

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from spark_validation.segments import schemas
from spark_validation.segments.source import SegmentReader


def segment_frame(spark: SparkSession, options: dict[str, str], names: Iterable[str] = ()) -> DataFrame:
    """Columns of the source's rows; without names those that `format` gives without a schema.

    options: of spark_validation.segments.source. What is appended to the log afterwards is not
    seen. Raises ValueError for options and columns that are not known.
    """
    reader = SegmentReader(options, list(names))
    works = reader.partitions()

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from reader.read(works[number])

    tasks = spark.range(0, len(works), 1, max(len(works), 1))  # a number a task
    return tasks.mapInArrow(read, schemas.ddl(reader.types, reader.names))
