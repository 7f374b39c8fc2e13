"""Segment files as Parquet: decoded once in Spark's Python workers, then read by Spark's own
vectorized reader.

A row on its way from a Python data source to the JVM costs Spark some 500 ns, eight times what
decoding it takes. A row of Parquet costs 60 ns to write and as much to read, and what reads the log
again pays the reading alone.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from spark_validation.segments import schemas
from spark_validation.segments.source import RangePartition, SegmentReader

# Few values a partition, and numbers that mostly rise: a tenth of the plain size, for less than it
# costs to write that.
REPEATED = (
    "topic",
    "partition",
    "timestampType",
    "producer",
    "flags",
    "state",
    "producer_epoch",
    "leader_epoch",
)
RISING = (
    *("offset", "timestamp", "timestamp_ms", "record_key", "seq", "partition_seq", "intended_ns"),
    *("value_bytes", "producer_id", "sequence", "marker"),
)


def land(spark: SparkSession, folder: Path, options: dict[str, str], names: Iterable[str]) -> DataFrame:
    """The columns of the source's records, written below `folder` as a file a task and read from
    there.

    options: of spark_validation.segments.source. Driver and executors must see `folder` under this
    path; the caller removes it. Records that are appended to the log afterwards are not seen.
    """
    names = tuple(names)
    reader = SegmentReader(options, list(names))
    folder.mkdir(parents=True, exist_ok=True)
    works = list(enumerate(reader.partitions()))
    if works:
        spark.sparkContext.parallelize(works, len(works)).foreachPartition(Writer(reader, str(folder)))
    return spark.read.schema(schemas.ddl(schemas.RECORD, names)).parquet(str(folder))


class Writer:
    """The work of a task. Runs in: Spark's Python workers."""

    def __init__(self, reader: SegmentReader, folder: str) -> None:
        self.reader = reader
        self.folder = folder

    def __call__(self, works: Iterator[tuple[int, RangePartition]]) -> None:
        for number, work in works:
            write(self.reader.read(work), f"{self.folder}/_{number}", f"{self.folder}/{number:06d}.parquet")


def write(batches: Iterator[pa.RecordBatch], unfinished: str, path: str) -> None:
    """A file of batches, whole or not at all; none where there are no rows. A task may be tried
    again."""
    from pyarrow import parquet

    writer = None
    for batch in map(of_one_topic, batches):
        if writer is None:
            names = batch.schema.names
            writer = parquet.ParquetWriter(
                unfinished,
                batch.schema,
                compression="none",
                use_dictionary=[name for name in names if name in REPEATED],
                column_encoding={name: "DELTA_BINARY_PACKED" for name in names if name in RISING},
                write_statistics=[
                    name for name in names if name == "offset"
                ],  # skips what a check does not ask for
                store_schema=False,  # texts are read as texts
            )
        writer.write_batch(batch)
    if writer is not None:
        writer.close()
        Path(unfinished).replace(path)


def of_one_topic(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch, a range's and so of one topic, with its name once: as text it is hashed again for
    each row."""
    at = batch.schema.get_field_index("topic")
    if at < 0 or not batch.num_rows:
        return batch
    places = pa.repeat(pa.scalar(0, pa.int32()), batch.num_rows)
    name = pa.DictionaryArray.from_arrays(places, batch.column(at)[:1])
    return batch.set_column(at, "topic", name)
