"""`spark.read.format("kafka-segments")`: the records, or the batch headers, of Kafka's segment files.

Options: path (log directories, comma separated), topics (comma separated; none: all), split_bytes, run (of the load
test; -1: any), rows ("records", "batches" or "indexes"), control ("true": markers are rows too), isolation
("read_uncommitted", "read_committed"), crc ("true": batches are checked). The schema chooses among the columns of
columns.py; without one the columns are those of Spark's Kafka connector. The files are listed when the query is
planned; one task reads one range.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from spark_validation.segments import ranges, schemas

FORMAT = "kafka-segments"
WHOLE = 1 << 62


@dataclass
class RangePartition(InputPartition):
    work: ranges.Range


class SegmentSource(DataSource):
    """Kafka segment files. Runs in: Spark's Python workers and, for planning, the driver's."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        if self.options.get("rows") == "batches":
            return schemas.ddl(schemas.BATCH)
        if self.options.get("rows") == "indexes":
            return schemas.ddl(schemas.INDEX)
        return schemas.ddl(schemas.RECORD, schemas.CONNECTOR_COLUMNS)

    def reader(self, schema: StructType) -> DataSourceReader:
        return SegmentReader(dict(self.options), schema.fieldNames())


class SegmentReader(DataSourceReader):
    def __init__(self, options: dict[str, str], names: list[str]) -> None:
        self.options = {name.lower(): value for name, value in options.items()}
        self.names = names
        self.rows = self.options.get("rows", "records")
        known = {"records": schemas.RECORD, "batches": schemas.BATCH, "indexes": schemas.INDEX}.get(self.rows)
        if known is None:
            raise ValueError(f"{FORMAT} has no rows {self.rows!r}: records, batches or indexes")
        if unknown := [name for name in names if name not in known]:
            raise ValueError(f"{FORMAT} has no columns {unknown}; it has {sorted(known)}")
        if "path" not in self.options:
            raise ValueError(f"{FORMAT} needs the option path: log directories, comma separated")

    def partitions(self) -> list[InputPartition]:
        topics = [topic for topic in self.options.get("topics", "").split(",") if topic]
        split = WHOLE if self.rows == "indexes" else int(self.options.get("split_bytes", ranges.SPLIT_BYTES))
        works = ranges.plan(self.options["path"].split(","), topics, split)
        return [RangePartition(work) for work in works]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from spark_validation.segments import decode, index_check  # numba: only where records are read

        assert isinstance(partition, RangePartition)
        if self.rows == "indexes":
            return index_check.read_problems(partition.work, self.names)
        if self.rows == "batches":
            return decode.read_headers(partition.work, self.names, self.options.get("crc") == "true")
        return decode.read_records(
            partition.work,
            self.names,
            int(self.options.get("run", -1)),
            self.options.get("control") == "true",
            self.options.get("isolation") == "read_committed",
        )
