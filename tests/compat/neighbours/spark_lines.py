"""A program of Spark's Kafka connector: `python -m tests.compat.neighbours.spark_lines KIND
BOOTSTRAP FOLDER`.

`batch` counts the words of topic `lines` and writes them to topic `counts`. `stream` copies the
lines that are there to Parquet files, in portions, from where an earlier run has ended; the last
line that it prints is what the files hold, as JSON.
"""

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, explode, split

from spark_validation.session import spark_session

LINES, COUNTS = "lines", "counts"
PORTION = 300


def source(bootstrap: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": LINES,
        "startingOffsets": "earliest",
        "kafka.isolation.level": "read_committed",
        "maxOffsetsPerTrigger": str(PORTION),
    }


def batch(spark: SparkSession, bootstrap: str, _folder: Path) -> None:
    lines = spark.read.format("kafka").options(**source(bootstrap)).load()
    words = lines.select(explode(split(col("value").cast("string"), " ")).alias("key"))
    counts = words.groupBy("key").count().select("key", col("count").cast("string").alias("value"))
    target = {"kafka.bootstrap.servers": bootstrap, "topic": COUNTS}
    counts.write.format("kafka").options(**target).save()


def stream(spark: SparkSession, bootstrap: str, folder: Path) -> None:
    lines = spark.readStream.format("kafka").options(**source(bootstrap)).load()
    files = str(folder / "files")
    writer = lines.select("partition", "offset", col("value").cast("string")).writeStream
    writer = writer.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.option("path", files).trigger(availableNow=True).start()
    query.awaitTermination()
    print(json.dumps(held(spark.read.parquet(files))))


def held(copied: DataFrame) -> dict[str, list[str]]:
    """Values in order of their offsets, by partition."""
    rows = copied.orderBy("partition", "offset").collect()
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(str(row["partition"]), []).append(row["value"])
    return found


def main(kind: str, bootstrap: str, folder: str) -> None:
    spark = spark_session(connector=True, small=True)
    {"batch": batch, "stream": stream}[kind](spark, bootstrap, Path(folder))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
