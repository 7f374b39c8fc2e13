"""The broker's log as frames: from segment files, or through Spark's own Kafka connector."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from spark_validation.evidence import ABORTED, LOG_SCHEMA, PLACE, VISIBLE
from spark_validation.segments.frame import segment_frame
from spark_validation.segments.landing import land

# Larger fetches and polls than the connector's own: it is given its best.
LARGE_FETCHES = {
    "kafka.max.poll.records": "20000",
    "kafka.max.partition.fetch.bytes": str(8 << 20),
    "kafka.fetch.max.bytes": str(64 << 20),
    "failOnDataLoss": "false",
}
LOG_COLUMNS = tuple(part.split()[0] for part in LOG_SCHEMA.split(", "))


def segment_log(
    spark: SparkSession,
    data_dirs: list[str],
    topics: list[str],
    run: int,
    since: dict[str, int] | None = None,
) -> DataFrame:
    """LOG_SCHEMA of the topics, markers as rows of state CONTROL. run: the run's number, -1 for any.

    since: "topic-partition" -> offset: of these partitions alone, without segments that end below the offset.
    """
    options = segment_options(data_dirs, topics, run)
    if since is not None:
        options["since"] = json.dumps(since)
    return segment_frame(spark, options, LOG_COLUMNS)


def landed_log(
    spark: SparkSession, data_dirs: list[str], topics: list[str], run: int, folder: Path
) -> DataFrame:
    """The same, decoded once into Parquet files below `folder`, because several checks read it."""
    return land(spark, folder, segment_options(data_dirs, topics, run), LOG_COLUMNS)


def segment_options(data_dirs: list[str], topics: list[str], run: int) -> dict[str, str]:
    return {"path": ",".join(data_dirs), "topics": ",".join(topics), "run": str(run), "control": "true"}


def segment_batches(spark: SparkSession, data_dirs: list[str], topics: list[str]) -> DataFrame:
    """Batch headers of the topics, their checksums checked."""
    options = {"path": ",".join(data_dirs), "topics": ",".join(topics), "rows": "batches", "crc": "true"}
    return segment_frame(spark, options)


def connector_records(
    spark: SparkSession,
    bootstrap: str,
    topics: list[str],
    isolation: str,
    ends: str = "latest",
    large_fetches: bool = True,
) -> DataFrame:
    """What Spark's Kafka connector reads: key, value, topic, partition, offset, timestamp, timestampType."""
    options = (LARGE_FETCHES if large_fetches else {}) | {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": ",".join(topics),
        "startingOffsets": "earliest",
        "endingOffsets": ends,
        "kafka.isolation.level": isolation,
    }
    return spark.read.format("kafka").options(**options).load()


def connector_log(
    spark: SparkSession,
    bootstrap: str,
    topics: list[str],
    run: int,
    transactional: bool,
    ends: dict[str, dict[str, int]],
) -> DataFrame:
    """LOG_SCHEMA through the connector, kept on disk because several checks read it.

    State: VISIBLE is what read_committed delivers, ABORTED the rest (the connector does not tell an open transaction
    from an aborted one). ends: topic, partition: read up to there, so that both isolation levels see one log.
    """
    until = json.dumps(ends) if ends else "latest"
    log = identified(connector_records(spark, bootstrap, topics, "read_uncommitted", until), run)
    if transactional:
        committed = connector_records(spark, bootstrap, topics, "read_committed", until)
        shown = committed.select(*PLACE, F.lit(VISIBLE).cast("tinyint").alias("shown"))
        log = log.drop("state").join(shown, PLACE, "left")
        log = log.withColumn("state", F.coalesce("shown", F.lit(ABORTED).cast("tinyint"))).drop("shown")
    return log.persist(StorageLevel.DISK_ONLY)


def identified(records: DataFrame, run: int) -> DataFrame:
    """The connector's columns as LOG_SCHEMA, all VISIBLE; values are decoded by the segment source's kernel."""
    columns = records.select(
        "topic", "partition", "offset", F.unix_millis("timestamp").alias("timestamp_ms"), "key", "value"
    )

    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from spark_validation.segments import decode_kernel as dk

        for batch in batches:
            count = batch.num_rows
            found = np.zeros((count, dk.RECORD_COLUMNS), np.int64)
            place_bytes(batch.column("key"), found, dk.KEY_AT)
            place_bytes(batch.column("value"), found, dk.VALUE_AT)
            identity = np.empty((count, dk.IDENTITY_COLUMNS), np.int64)
            dk.identities(found, 0, count, run, identity)
            made = [batch.column(name) for name in ("topic", "partition", "offset", "timestamp_ms")]
            kinds = (
                (dk.KEY, np.int32),
                (dk.PRODUCER, np.int32),
                (dk.SEQ, np.int64),
                (dk.PARTITION_SEQ, np.int64),
            )
            made += [pa.array(identity[:, column].astype(kind)) for column, kind in kinds]
            made.append(pa.array(identity[:, dk.FLAGS].astype(np.int8)))
            made.append(pa.array(identity[:, dk.INTACT] > 0))
            made.append(pa.array(identity[:, dk.INTENDED_NS]))
            made.append(pa.array(np.zeros(count, np.int8)))
            yield pa.RecordBatch.from_arrays(made, list(LOG_COLUMNS))

    return columns.mapInArrow(decode, LOG_SCHEMA)


def place_bytes(column: pa.Array, found: np.ndarray, at: int) -> None:
    """Address and size of each value of a binary column, as the decoding kernel gives them."""
    _, ends_buffer, data = column.buffers()
    wide = pa.types.is_large_binary(column.type)
    ends = np.frombuffer(ends_buffer, np.int64 if wide else np.int32)[
        column.offset : column.offset + len(column) + 1
    ]
    found[:, at] = ends[:-1].astype(np.int64) + (data.address if data else 0)
    found[:, at + 1] = np.diff(ends)
    if column.null_count:
        found[np.asarray(column.is_null()), at + 1] = -1
