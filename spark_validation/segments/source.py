"""`spark.read.format("kafka-segments")`: the records, or the batch headers, of Kafka's segment
files.

Options: path (log directories, comma separated), topics (comma separated; none: all), since (JSON,
"topic-partition" to offset: these partitions alone, without segments that end below the offset),
split_bytes, run (of the load test; -1: any), rows ("records", "batches" or "indexes"), control
("true": markers are rows too), isolation ("read_uncommitted", "read_committed"), crc ("true":
batches are checked), indexed ("true": the broker is known to make all files beside a log). The
schema chooses among the columns of columns.py; without one the columns are those of Spark's Kafka
connector. The files are listed when the query is planned; one task reads one large range or several
small ones.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from spark_validation.segments import ranges, schemas

FORMAT = "kafka-segments"
WHOLE = 1 << 62


@dataclass
class RangePartition(InputPartition):
    works: tuple[ranges.Range, ...]


class SegmentSource(DataSource):
    """Kafka segment files. Runs in: Spark's Python workers and, for planning, the driver's."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        rows = self.options.get("rows", "records")
        if rows not in schemas.ROWS:
            rows = "records"  # the reader will say what there is
        return schemas.ddl(schemas.ROWS[rows], schemas.UNASKED[rows])

    def reader(self, schema: StructType) -> DataSourceReader:
        return SegmentReader(dict(self.options), schema.fieldNames())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  Spark's name
        return SegmentTail(dict(self.options), schema.fieldNames())


class SegmentReader(DataSourceReader):
    def __init__(self, options: dict[str, str], names: list[str]) -> None:
        self.options = {name.lower(): value for name, value in options.items()}
        self.rows = self.options.get("rows", "records")
        if self.rows not in schemas.ROWS:
            raise ValueError(f"{FORMAT} has no rows {self.rows!r}: records, batches or indexes")
        self.types = schemas.ROWS[self.rows]
        self.names = names or list(schemas.UNASKED[self.rows])
        if unknown := [name for name in names if name not in self.types]:
            raise ValueError(f"{FORMAT} has no columns {unknown}; it has {sorted(self.types)}")
        if "path" not in self.options:
            raise ValueError(f"{FORMAT} needs the option path: log directories, comma separated")

    def partitions(self) -> list[InputPartition]:
        topics = [topic for topic in self.options.get("topics", "").split(",") if topic]
        beside = self.rows == "indexes"  # files beside whole segments, and empty ones
        split = WHOLE if beside else int(self.options.get("split_bytes", ranges.SPLIT_BYTES))
        since = json.loads(self.options["since"]) if "since" in self.options else None
        works = ranges.plan(self.options["path"].split(","), topics, split, since, beside)
        return [RangePartition(bundle) for bundle in ranges.bundled(works)]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Batches of Arrow rows. partition: Spark passes None if `partitions` is empty, for an
        empty log."""
        assert partition is None or isinstance(partition, RangePartition)
        for work in partition.works if partition else ():
            yield from self.read_range(work)

    def read_range(self, work: ranges.Range) -> Iterator[pa.RecordBatch]:
        from spark_validation.segments import decode, index_check  # numba: only where records are read

        if self.rows == "indexes":
            return index_check.read_problems(work, self.names, self.options.get("indexed") == "true")
        if self.rows == "batches":
            return decode.read_headers(work, self.names, self.options.get("crc") == "true")
        return decode.read_records(
            work,
            self.names,
            int(self.options.get("run", -1)),
            self.options.get("control") == "true",
            self.options.get("isolation") == "read_committed",
        )


class SegmentTail(DataSourceStreamReader):
    """Follows the segment files: records from the start of the log, then what is appended. State is
    never known.

    Offsets are {folder: [segment, byte]}; a micro-batch ends at the last whole batch of every
    partition.
    """

    def __init__(self, options: dict[str, str], names: list[str]) -> None:
        self.batch = SegmentReader(options, names)
        if {"state", "marker"}.intersection(names) or self.batch.rows != "records":
            raise ValueError(f"{FORMAT} as a stream gives records without their state")
        self.at: dict[str, list[int]] = {}

    def folders(self) -> list[tuple[str, str, int]]:
        topics = [topic for topic in self.batch.options.get("topics", "").split(",") if topic]
        return ranges.partition_folders(self.batch.options["path"].split(","), topics)

    def initialOffset(self) -> dict[str, list[int]]:  # noqa: N802
        return {}

    def latestOffset(self) -> dict[str, list[int]]:  # noqa: N802
        from spark_validation.segments import tail

        for folder, _, _ in self.folders():
            self.at[folder] = list(tail.end_of(folder, position_in(self.at, folder)))
        return dict(self.at)

    def partitions(self, start: dict[str, list[int]], end: dict[str, list[int]]) -> list[InputPartition]:
        from spark_validation.segments import tail

        works = [
            tail.between(folder, topic, partition, position_in(start, folder), position_in(end, folder))
            for folder, topic, partition in self.folders()
        ]
        return [
            RangePartition(bundle) for bundle in ranges.bundled([work for work in works if work is not None])
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self.batch.read(partition)

    def commit(self, end: dict[str, list[int]]) -> None:
        """Nothing to keep: the next micro-batch starts at `end`."""


def position_in(offsets: dict[str, list[int]], folder: str) -> tuple[int, int]:
    segment, byte = offsets.get(folder, (-1, 0))
    return segment, byte
