"""The broker's log as frames: from segment files, or through Spark's Kafka connector."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from loadtest.client_settings import java_settings
from loadtest.record import header_bytes
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
    """LOG_SCHEMA of the topics, markers as rows of state CONTROL. run: the run's number, -1 for
    any.

    since: "topic-partition" -> offset: of these partitions alone, without segments that end below
    the offset.
    """
    options = segment_options(data_dirs, topics, run)
    if since is not None:
        options["since"] = json.dumps(since)
    return segment_frame(spark, options, LOG_COLUMNS)


def landed_log(
    spark: SparkSession, data_dirs: list[str], topics: list[str], run: int, folder: Path
) -> DataFrame:
    """The frame of `segment_log`, decoded once into Parquet files below `folder`, because several
    checks read it."""
    return land(spark, folder, segment_options(data_dirs, topics, run), LOG_COLUMNS)


def segment_options(data_dirs: list[str], topics: list[str], run: int) -> dict[str, str]:
    return {"path": ",".join(data_dirs), "topics": ",".join(topics), "run": str(run), "control": "true"}


def segment_batches(
    spark: SparkSession, data_dirs: list[str], topics: list[str], check: bool = True
) -> DataFrame:
    """Batch headers of the topics. check: their checksums and records, too."""
    options = {"path": ",".join(data_dirs), "topics": ",".join(topics), "rows": "batches"}
    return segment_frame(spark, options | {"crc": str(check).lower()})


def login_options() -> dict[str, str]:
    """The connector's options for a broker that requires TLS or a login."""
    return {f"kafka.{name}": value for name, value in java_settings().items()}


def connector_records(
    spark: SparkSession,
    bootstrap: str,
    topics: list[str],
    isolation: str,
    ends: str = "latest",
    large_fetches: bool = True,
    headers: bool = False,
) -> DataFrame:
    """The columns that Spark's Kafka connector reads: key, value, topic, partition, offset,
    timestamp, timestampType."""
    options = (LARGE_FETCHES if large_fetches else {}) | {
        **login_options(),
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": ",".join(topics),
        "startingOffsets": "earliest",
        "endingOffsets": ends,
        "kafka.isolation.level": isolation,
        "includeHeaders": str(headers).lower(),
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

    State: VISIBLE is what read_committed delivers, ABORTED the rest (the connector does not
    distinguish an open transaction from an aborted one). ends: topic, partition: read up to there,
    so that both isolation levels see one log.
    """
    until = json.dumps(ends) if ends else "latest"
    records = connector_records(spark, bootstrap, topics, "read_uncommitted", until, headers=True)
    log = identified(records, run)
    if transactional:
        committed = connector_records(spark, bootstrap, topics, "read_committed", until)
        shown = committed.select(*PLACE, F.lit(VISIBLE).cast("tinyint").alias("shown"))
        log = log.drop("state").join(shown, PLACE, "left")
        log = log.withColumn("state", F.coalesce("shown", F.lit(ABORTED).cast("tinyint"))).drop("shown")
    return log.persist(StorageLevel.DISK_ONLY)


def identified(records: DataFrame, run: int) -> DataFrame:
    """The connector's columns as LOG_SCHEMA, all VISIBLE; values are decoded as those of segments
    are."""
    names = ["key", "value", "topic", "partition", "offset"]
    headers = ["headers"] if "headers" in records.columns else []
    columns = records.select(*names, *headers, F.unix_millis("timestamp").alias("timestamp_ms"))

    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from spark_validation.segments.identities import header_sums, identify

        for batch in batches:
            data, found = as_records(batch.column("key"), batch.column("value"))
            if headers and batch.column("headers").null_count < batch.num_rows:
                data = with_headers(data, found, batch.column("headers").to_pylist())
            who = identify(data, found, run)
            made = [batch.column(name) for name in ("topic", "partition", "offset", "timestamp_ms")]
            made += [pa.array(who.record_key.astype(np.int32)), pa.array(who.producer.astype(np.int32))]
            made += [pa.array(column) for column in who[2:]]
            made += [pa.array(header_sums(data, found)), pa.array(np.zeros(len(found), np.int8))]
            yield pa.RecordBatch.from_arrays([*made, pa.array(np.full(len(found), -1))], list(LOG_COLUMNS))

    return columns.mapInArrow(decode, LOG_SCHEMA)


def as_records(keys: pa.Array, values: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Keys and values in one buffer, and rows of RECORD_COLUMNS that say where they are."""
    from spark_validation.segments import record_kernels as rk

    found = np.zeros((len(keys), rk.RECORD_COLUMNS), np.int64)
    parts: list[np.ndarray] = []
    for column, at in ((keys, rk.KEY_AT), (values, rk.VALUE_AT)):
        _, ends_buffer, data = column.buffers()
        kind = np.int64 if pa.types.is_large_binary(column.type) else np.int32
        ends = np.frombuffer(ends_buffer, kind)[column.offset : column.offset + len(column) + 1]
        found[:, at] = ends[:-1].astype(np.int64) + sum(map(len, parts))
        found[:, at + 1] = np.diff(ends)
        if column.null_count:
            found[np.asarray(column.is_null()), at + 1] = -1
        parts.append(np.frombuffer(data, np.uint8) if data else np.empty(0, np.uint8))
    return np.concatenate([*parts, np.zeros(1, np.uint8)]), found


def with_headers(
    data: np.ndarray, found: np.ndarray, headers: list[list[dict[str, Any]] | None]
) -> np.ndarray:
    """The buffer with the records' headers after it, as a log has them."""
    from spark_validation.segments import record_kernels as rk

    parts, end = [data.tobytes()], len(data)
    for n, listed in enumerate(headers):
        if listed:
            parts.append(header_bytes([(header["key"], header["value"]) for header in listed]))
            found[n, [rk.HEADERS_AT, rk.HEADERS_SIZE]] = end, len(parts[-1])
            end += len(parts[-1])
    return np.frombuffer(b"".join(parts), np.uint8)
