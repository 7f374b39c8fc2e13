"""The evidence of a judgement: the histories of a run and the broker's log, as frames."""

import json
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from loadtest import history
from loadtest.history import AssignmentEvent
from loadtest.run import (
    ConsumerClient,
    ProducerClient,
    Run,
    load_consumers,
    load_intents,
    load_producers,
    load_run,
)
from spark_validation.cut_files import cut_files
from spark_validation.lossy_consumers import lossy_consumers
from spark_validation.merged_files import merged

SPARK_TYPES = {
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.bool_(): "boolean",
    pa.string(): "string",
}
ARROW_TYPES = {name: kind for kind, name in SPARK_TYPES.items()}
PARTITION = ["topic", "partition"]
PLACE = [*PARTITION, "offset"]
IDENTITY = ["producer", "seq"]
ACKED = "status = 0 and offset >= 0"  # of a send; with acks=0 it has no offset
FOREVER_MS = 1 << 62
BUCKET_BITS = 12  # offsets whose digests are compared as one
FARTHEST = 1 << 32  # offsets of which all buckets are listed: a log may have gaps of any size

FOREIGN = -2  # the producer of a record of another run, as spark_validation.segments.identities has it

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
    files are read. Its frames can be read until it is closed."""

    spark: SparkSession
    folder: Path
    log: DataFrame
    source: str  # segments | connector
    batches: DataFrame | None = None
    data_dirs: list[str] = field(default_factory=list)
    earlier: DataFrame | None = None
    earlier_batches: DataFrame | None = None  # of the same copy
    decided: DataFrame | None = None  # of checks.transaction_offsets
    landing: tempfile.TemporaryDirectory[str] | None = None  # of copies that are read instead
    histories: dict[str, DataFrame] = field(default_factory=dict, init=False)  # of `rows`, by kind

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Removes the copies of log and histories: frames made from this evidence can be read no
        more."""
        if self.landing is not None:
            self.landing.cleanup()

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
        if kind not in self.histories:
            schema = ", ".join(f"`{f.name}` {SPARK_TYPES[f.type]}" for f in history.KINDS[kind])
            folder = self.folder / kind
            there = folder.is_dir() and any(folder.glob("*.parquet"))
            if there and self.landing is not None:
                folder = merged(folder, kind, Path(self.landing.name, "histories"))
            read = self.spark.read.schema(schema)
            self.histories[kind] = read.parquet(str(folder)) if there else self.table([], schema)
        rows = self.histories[kind]
        if every_topic or "topic" not in history.KINDS[kind].names:
            return rows
        return rows.where(F.col("topic").isin([topic.name for topic in self.run.topics]))

    def table(self, rows: Iterable[Sequence[Any]], schema: str) -> DataFrame:
        """Rows of the driver as a frame. Spark plans with their number and content, and drops what
        is joined with none; a list that it is given without Arrow is copied by a Python worker in
        each query that reads it."""
        fields = [part.replace("`", "").split() for part in schema.split(", ")]
        columns = list(zip(*rows, strict=True)) or [()] * len(fields)
        arrays = [
            pa.array(column, ARROW_TYPES[kind]) for column, (_, kind) in zip(columns, fields, strict=True)
        ]
        return self.spark.createDataFrame(pa.table(arrays, [name for name, _ in fields]))

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
    def acked(self) -> DataFrame:
        """Acknowledged sends that have an offset."""
        return self.sends.where(ACKED)

    @cached_property
    def reads(self) -> DataFrame:
        rows = self.rows("reads").withColumnRenamed("key", "record_key")
        return rows.withColumn("header_sum", F.coalesce("header_sum", F.lit(0)))

    @cached_property
    def unanswered(self) -> DataFrame:
        """PLACE, IDENTITY, sent_to (the topic), sent_ns of the log's records whose sends have no
        answer. Several checks read it, when the log does not grow any more."""
        sent = self.sends.where("status = 2").select(F.col("topic").alias("sent_to"), *IDENTITY, "sent_ns")
        sent = sent.dropDuplicates(["sent_to", *IDENTITY])
        if sent.isEmpty():
            place = "topic string, partition int, offset bigint, producer int, seq bigint"
            return self.table([], f"{place}, sent_to string, sent_ns bigint")
        held = self.log.where(F.col("state") != CONTROL).select(*PLACE, *IDENTITY)
        return held.join(F.broadcast(sent), IDENTITY).persist(StorageLevel.DISK_ONLY)

    def begun(self) -> DataFrame:
        """Rows of the assignments that began."""
        return self.rows("assignments").where(F.col("event") == int(AssignmentEvent.ASSIGNED))

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
        return F.broadcast(self.table(rows, schema))

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
        return F.broadcast(self.table(rows, schema))

    @cached_property
    def sizes(self) -> DataFrame:
        """topic, partitions: their number."""
        rows = [(topic.name, topic.partitions) for topic in self.run.topics]
        return F.broadcast(self.table(rows, "topic string, partitions int"))

    @cached_property
    def ends(self) -> DataFrame:
        """topic, partition, start_offset, high_watermark, last_stable_offset."""
        rows = [
            (topic, int(partition), e.start_offset, e.high_watermark, e.last_stable_offset)
            for topic, partitions in self.run.ends.items()
            for partition, e in partitions.items()
        ]
        schema = "topic string, partition int, start_offset bigint, high_watermark bigint, last_stable_offset bigint"
        return F.broadcast(self.table(rows, schema))

    @cached_property
    def intents(self) -> DataFrame:
        """producer, first_seq, last_seq."""
        return self.table(self.announced, "producer int, first_seq bigint, last_seq bigint")

    @cached_property
    def announced(self) -> list[tuple[int, int, int]]:
        """The rows of `intents`. The last one of a producer that ended by itself ends at its last
        attempt."""
        ends = {p.producer: p.attempted for p in self.producer_clients if p.attempted is not None}
        intents = ((i["producer"], i["first_seq"], i["last_seq"]) for i in load_intents(self.folder))
        return [(who, first, min(last, ends.get(who, last + 1) - 1)) for who, first, last in intents]

    @cached_property
    def unannounced(self) -> list[int]:
        """Producers that sent what no intent announces, or whose intents leave a gap: what they
        sent cannot be distinguished from what no producer sent."""
        reached: dict[int, int] = {}
        gaps = set()
        for producer, first, last in sorted(self.announced):
            if last >= first > reached.get(producer, 0):
                gaps.add(producer)
            reached[producer] = max(reached.get(producer, 0), last + 1)
        highest = self.rows("sends").groupBy("producer").agg(F.max("seq").alias("seq"))
        beyond = {
            row["producer"] for row in highest.collect() if row["seq"] >= reached.get(row["producer"], 0)
        }
        topics = {topic.name for topic in self.run.topics}
        return [
            p.producer
            for p in self.producer_clients
            if p.topic in topics
            and (p.producer in gaps | beyond or (p.producer not in reached and p.attempted != 0))
        ]

    @cached_property
    def uncommitted_groups(self) -> list[str]:
        """Groups that have offsets at the end and no commit in the histories."""
        ends = {g for g, topics in self.run.committed.items() if any(topics.values())}
        if not ends:
            return []
        known = {row["group"] for row in self.rows("commits").select("group").distinct().collect()}
        return sorted(ends - known)

    @cached_property
    def uncopied_producers(self) -> list[int]:
        """Producers of copies that sent, ended by themselves, and have no row of a copy."""
        copied = self.topics("copied")
        own = [p for p in self.producer_clients if p.topic in copied and p.ended_ns is not None]
        if not any(p.attempted != 0 for p in own):
            return []
        known = {row["producer"] for row in self.rows("copies").select("producer").distinct().collect()}
        return [p.producer for p in own if p.attempted != 0 and p.producer not in known]

    @cached_property
    def lossy_consumers(self) -> list[int]:
        """Consumers whose histories lack whole portions: what they were not given proves
        nothing."""
        reads = self.rows("reads", every_topic=True)
        lossy = lossy_consumers(reads, self.consumer_clients, self.run)
        return sorted({*lossy, *self.cut.get("reads", ())})

    @cached_property
    def cut(self) -> dict[str, list[int]]:
        """History -> clients of which a file of it is missing."""
        return cut_files(self.folder, self.producer_clients, self.consumer_clients)

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

    @cached_property
    def records_removed(self) -> bool:
        """Whether records may have been removed from a log: by compaction, or below its start."""
        starts = [end.start_offset for ends in self.run.ends.values() for end in ends.values()]
        return any(starts) or bool(self.topics(compacted=True))

    @property
    def ends_ms(self) -> int:
        """The time at which the logs' ends were requested, when everything had ended."""
        run = self.run
        return (run.ends_ns or run.ended_ns or run.started_ns) // 1_000_000

    @property
    def latest_ms(self) -> int:
        """Time of the last possible change of the log; FOREVER_MS for a run without an end."""
        return self.ends_ms if self.run.ends_ns or self.run.ended_ns else FOREVER_MS

    @cached_property
    def clock_moved(self) -> bool:
        """Whether the clocks of the run were set: then the broker's times prove nothing."""
        faults = self.folder / "faults.jsonl"
        return bool(self.run.clock_steps) or (faults.exists() and '"clock"' in faults.read_text())

    @cached_property
    def stepped_ns(self) -> int:
        """The sum of all steps of the clients' clocks: times that differ by less have no order."""
        return sum(abs(step["step_ns"]) for step in self.run.clock_steps)

    @cached_property
    def faults(self) -> list[tuple[int, int]]:
        """Begin and end of each fault that was put into the run."""
        path = self.folder / "faults.jsonl"
        found = []
        for line in path.read_text().splitlines() if path.exists() else ():
            try:
                row = json.loads(line)
            except json.JSONDecodeError:
                row = {}
            found.append((int(row.get("begin_ns") or 0), int(row.get("end_ns") or 1 << 62)))
        return found

    @property
    def faults_missing(self) -> bool:
        """Whether faults.jsonl has fewer rows than were written."""
        return self.run.faults is not None and len(self.faults) < self.run.faults

    @cached_property
    def undisturbed(self) -> bool:
        """Whether no fault was injected and every client ended by itself: then no request was
        repeated for a lost answer."""
        producers_ended = all(client.ended_ns is not None for client in self.producer_clients)
        return producers_ended and self.undisturbed_consumers

    @cached_property
    def undisturbed_consumers(self) -> bool:
        """Whether no fault was injected and every consumer ended by itself."""
        quiet = not self.faults and not self.faults_missing
        return quiet and all(c.ended_ns is not None for c in self.consumer_clients)

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
