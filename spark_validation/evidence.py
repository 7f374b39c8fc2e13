"""The evidence of a judgement: the histories of a run and the broker's log, as frames."""

import tempfile
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from loadtest import history
from loadtest.run import (
    ConsumerClient,
    ProducerClient,
    Run,
    load_consumers,
    load_intents,
    load_producers,
    load_run,
)

SPARK_TYPES = {
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.bool_(): "boolean",
    pa.string(): "string",
}
PLACE = ["topic", "partition", "offset"]
IDENTITY = ["producer", "seq"]
BUCKET_BITS = 12  # offsets whose digests are compared as one

# state of a log record; those of spark_validation.segments.walk
VISIBLE, ABORTED, OPEN, CONTROL = 0, 1, 2, 3
LOG_SCHEMA = (
    "topic string, partition int, offset bigint, timestamp_ms bigint, record_key int, producer int, seq bigint, "
    "partition_seq bigint, flags tinyint, intact boolean, intended_ns bigint, header_sum bigint, state tinyint, "
    "marker bigint"
)


@dataclass
class Evidence:
    """Frames of one run. Owner: the driver. `log` has LOG_SCHEMA; `batches` only where segment
    files are read."""

    spark: SparkSession
    folder: Path
    log: DataFrame
    source: str  # segments | connector
    batches: DataFrame | None = None
    data_dirs: list[str] = field(default_factory=list)
    earlier: DataFrame | None = None
    decided: DataFrame | None = None  # of checks.transaction_offsets
    landing: tempfile.TemporaryDirectory[str] | None = (
        None  # what `log` is read from; removed with the last reference
    )

    @cached_property
    def run(self) -> Run:
        return load_run(self.folder)

    @cached_property
    def producer_clients(self) -> list[ProducerClient]:
        return load_producers(self.folder)

    @cached_property
    def consumer_clients(self) -> list[ConsumerClient]:
        return load_consumers(self.folder)

    def rows(self, kind: str, every_topic: bool = False) -> DataFrame:
        """A history of history.KINDS, of the judged topics or of every one; empty when the run has
        none."""
        schema = ", ".join(f"`{f.name}` {SPARK_TYPES[f.type]}" for f in history.KINDS[kind])
        folder = self.folder / kind
        if not folder.is_dir() or not any(folder.glob("*.parquet")):
            return self.spark.createDataFrame([], schema)
        rows = self.spark.read.schema(schema).parquet(str(folder))
        if every_topic or "topic" not in rows.columns:
            return rows
        return rows.where(F.col("topic").isin([topic.name for topic in self.run.topics]))

    @cached_property
    def sends(self) -> DataFrame:
        rows = self.rows("sends").withColumnRenamed("key", "record_key")
        return rows.withColumns(
            {
                "header_sum": F.coalesce("header_sum", F.lit(0)),
                "tombstone": F.coalesce("tombstone", F.lit(False)),
            }
        )

    @cached_property
    def reads(self) -> DataFrame:
        rows = self.rows("reads").withColumnRenamed("key", "record_key")
        return rows.withColumn("header_sum", F.coalesce("header_sum", F.lit(0)))

    @cached_property
    def producers(self) -> DataFrame:
        """producer, idempotent, acks, transactional."""
        rows = [
            (
                p.producer,
                p.idempotent or p.transactional_id is not None,
                p.acks,
                p.transactional_id is not None,
            )
            for p in self.producer_clients
        ]
        schema = "producer int, idempotent boolean, acks string, transactional boolean"
        return F.broadcast(self.spark.createDataFrame(rows, schema))

    @cached_property
    def consumers(self) -> DataFrame:
        """consumer, group, role, committed (isolation), finished."""
        rows = [
            (c.consumer, c.group, c.role, c.isolation == "read_committed", c.finished, c.ended_ns is not None)
            for c in self.consumer_clients
        ]
        schema = (
            "consumer int, `group` string, role string, committed boolean, finished boolean, ended boolean"
        )
        return F.broadcast(self.spark.createDataFrame(rows, schema))

    @cached_property
    def ends(self) -> DataFrame:
        """topic, partition, start_offset, high_watermark, last_stable_offset."""
        rows = [
            (topic, int(partition), e.start_offset, e.high_watermark, e.last_stable_offset)
            for topic, partitions in self.run.ends.items()
            for partition, e in partitions.items()
        ]
        schema = "topic string, partition int, start_offset bigint, high_watermark bigint, last_stable_offset bigint"
        return F.broadcast(self.spark.createDataFrame(rows, schema))

    @cached_property
    def intents(self) -> DataFrame:
        """producer, first_seq, last_seq."""
        return self.spark.createDataFrame(self.announced, "producer int, first_seq bigint, last_seq bigint")

    @cached_property
    def announced(self) -> list[tuple[int, int, int]]:
        """The same: what was announced, of a producer that ended no more than what it attempted."""
        ends = {p.producer: p.attempted for p in self.producer_clients if p.attempted is not None}
        intents = ((i["producer"], i["first_seq"], i["last_seq"]) for i in load_intents(self.folder))
        return [(who, first, min(last, ends.get(who, last + 1) - 1)) for who, first, last in intents]

    def topics(self, *modes: str, compacted: bool = False) -> list[str]:
        """Names of the run's topics of modes (all modes when none is named) that are compacted, or
        are not."""
        return [
            topic.name
            for topic in self.run.topics
            if (not modes or topic.mode in modes) and ("compact" in topic.cleanup_policy) == compacted
        ]

    @cached_property
    def append_time_topics(self) -> list[str]:
        """Topics whose records have the time of their append."""
        setting = "message.timestamp.type"
        return [topic.name for topic in self.run.topics if topic.config.get(setting) == "LogAppendTime"]

    @property
    def ends_ms(self) -> int:
        """When the logs' ends were asked for; everything was over then."""
        run = self.run
        return (run.ends_ns or run.ended_ns or run.started_ns) // 1_000_000

    @cached_property
    def clock_moved(self) -> bool:
        """Whether the clocks of the run were set: then the broker's times prove nothing."""
        faults = self.folder / "faults.jsonl"
        return bool(self.run.clock_steps) or (faults.exists() and '"clock"' in faults.read_text())

    @cached_property
    def calm(self) -> bool:
        """No fault was put into the run and every client ended by itself: nothing was repeated for
        a lost answer."""
        faults = self.folder / "faults.jsonl"
        quiet = not faults.exists() or not faults.read_text().strip()
        producers_ended = all(client.ended_ns is not None for client in self.producer_clients)
        return quiet and producers_ended and all(c.ended_ns is not None for c in self.consumer_clients)

    def sent_stamp(self) -> Column:
        """The timestamp that a record was sent with and must keep; -1 where the broker sets it."""
        stamp = F.col("timestamp_ms")
        if not self.append_time_topics:
            return stamp
        return F.when(F.col("topic").isin(self.append_time_topics), F.lit(-1)).otherwise(stamp)

    @cached_property
    def silent_producers(self) -> list[int]:
        """Producers that get no offsets (acks=0)."""
        return [p.producer for p in self.producer_clients if p.acks == "0"]


def bucket(column: str = "offset") -> Column:
    return F.shiftright(F.col(column), BUCKET_BITS).alias("bucket")
