"""`python -m spark_validation.scale.compare`: the two ways to read a log, side by side.

The same topic through Spark's Kafka connector and through the segment source, each to the same aggregates: once the
judge's columns (headers of the values decoded, checksums checked), once key and value as they are. Both must agree.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_validation.cost import cost
from spark_validation.log_frames import connector_records, identified
from spark_validation.segments.schemas import CONNECTOR_COLUMNS, RECORD, ddl
from spark_validation.segments.source import FORMAT
from spark_validation.session import spark_session

JUDGED: tuple[str, ...] = (
    *("topic", "partition", "offset", "timestamp_ms", "record_key", "producer", "seq", "partition_seq"),
    *("flags", "intact", "intended_ns"),
)


def measured(make: Callable[[], DataFrame], rounds: int) -> tuple[Any, float, float]:
    """(aggregates over all columns, best wall seconds, least CPU seconds) of reading all columns of all records.

    What is timed is the reading: rows go to Spark's noop sink. The aggregates are made once, before.
    """
    frame = make()
    found = frame.agg(
        F.count("*").alias("records"), F.bit_xor(F.xxhash64(*frame.columns)).alias("hash")
    ).first()
    walls, cpus = [], []
    for _ in range(rounds):
        before, began = cost(os.getpid()), time.monotonic()
        make().write.format("noop").mode("overwrite").save()
        walls.append(time.monotonic() - began)
        after = cost(os.getpid())
        cpus.append(after.user + after.system - before.user - before.system)
    return found, min(walls), min(cpus)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--segments", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    spark = spark_session(connector=True)

    def segments(names: tuple[str, ...]) -> DataFrame:
        reader = spark.read.format(FORMAT).options(path=chosen.segments, topics=chosen.topic)
        return reader.schema(ddl(RECORD, names)).load()

    def records() -> DataFrame:
        return connector_records(spark, chosen.bootstrap, [chosen.topic], "read_uncommitted")

    ways = {
        "judge's columns": (lambda: segments(JUDGED), lambda: identified(records(), -1).select(*JUDGED)),
        "key and value": (lambda: segments(CONNECTOR_COLUMNS), lambda: records().select(*CONNECTOR_COLUMNS)),
    }
    agreed = True
    for what, (ours, theirs) in ways.items():
        mine, my_wall, my_cpu = measured(ours, chosen.rounds)
        other, wall, cpu = measured(theirs, chosen.rounds)
        agreed &= mine == other
        print(f"{what}: {'agree' if mine == other else 'DIFFER'} {mine} {'' if mine == other else other}")
        rates = f"segments {mine['records'] / my_wall:,.0f}/s ({my_cpu:.1f} s CPU)"
        print(
            f"  {rates}, connector {other['records'] / wall:,.0f}/s ({cpu:.1f} s CPU): {wall / my_wall:.1f} times"
        )
    spark.stop()
    return 0 if agreed else 1


if __name__ == "__main__":
    sys.exit(main())
