"""`python -m spark_validation.scale.compare`: the ways to read a log, side by side, on one topic.

Spark's Kafka connector with large fetches and polls, and as it comes; the segment source by `format("kafka-segments")`,
as a frame (`segment_frame`), and landed as Parquet, the conversion counted each time. Each does the same works: all
columns that the judge needs (headers of the values decoded, checksums checked), the judge's digests of them, and as
they are: the connector's columns, key and value, or values alone. Hashes over all columns of all records must agree.
Without --bootstrap a topic is made up and served by a kbroker of its own.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import psutil
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from spark_validation.evidence import bucket
from spark_validation.log_frames import connector_records, identified
from spark_validation.scale import make
from spark_validation.segments.frame import segment_frame
from spark_validation.segments.landing import land
from spark_validation.segments.schemas import CONNECTOR_COLUMNS, RECORD, ddl
from spark_validation.segments.source import FORMAT
from spark_validation.session import spark_session
from tests.peer.kbroker_node import KBroker

JUDGED: tuple[str, ...] = (
    *("topic", "partition", "offset", "timestamp_ms", "record_key", "producer", "seq", "partition_seq"),
    *("flags", "intact", "intended_ns"),
)
CONNECTOR, AS_IT_COMES = "connector", "connector as it comes"
FORMATTED, MAPPED, PARQUET = "segments by format", "segments as a frame", "segments as Parquet"
WAYS = (CONNECTOR, AS_IT_COMES, FORMATTED, MAPPED, PARQUET)


class Log(NamedTuple):
    """One topic, to be read both ways. broker: its process, when it was started here."""

    bootstrap: str
    segments: str
    topic: str
    broker: int | None = None


class Spent(NamedTuple):
    """Wall seconds, CPU seconds of Spark (JVM and Python workers, not the broker's)."""

    wall: float
    cpu: float


class Ways:
    """The frames that are compared. Runs in: the driver. Parquet files are removed when the next ones are written."""

    def __init__(self, spark: SparkSession, log: Log, scratch: Path) -> None:
        self.spark = spark
        self.log = log
        self.scratch = scratch
        self.landed: tempfile.TemporaryDirectory[str] | None = None
        self.options = {"path": log.segments, "topics": log.topic}

    def frame(self, way: str, names: tuple[str, ...]) -> DataFrame:
        if way == MAPPED:
            return segment_frame(self.spark, self.options, names)
        if way == FORMATTED:
            return self.spark.read.format(FORMAT).options(**self.options).schema(ddl(RECORD, names)).load()
        if way == PARQUET:
            if self.landed is not None:
                self.landed.cleanup()
            self.landed = tempfile.TemporaryDirectory(dir=self.scratch)
            return land(self.spark, Path(self.landed.name), self.options, names)
        records = connector_records(
            self.spark,
            self.log.bootstrap,
            [self.log.topic],
            "read_uncommitted",
            large_fetches=way == CONNECTOR,
        )
        plain = set(names) <= set(CONNECTOR_COLUMNS)
        return (records if plain else identified(records, -1)).select(*names)

    def read(self, way: str, names: tuple[str, ...], work: Callable[[DataFrame], None]) -> None:
        work(self.frame(way, names))


def to_nowhere(frame: DataFrame) -> None:
    """All rows, to Spark's noop sink."""
    frame.write.format("noop").mode("overwrite").save()


def digested(frame: DataFrame) -> None:
    """Count and hash of every bucket of offsets, as the judge makes them."""
    hashed = frame.select("topic", "partition", bucket(), F.xxhash64(*frame.columns).alias("h"))
    to_nowhere(hashed.groupBy("topic", "partition", "bucket").agg(F.count("*"), F.bit_xor("h")))


def fingerprint(frame: DataFrame) -> Row | None:
    """Count and hash of all rows. A sum: equal rows, which values alone may be, cancel in a xor."""
    return frame.agg(F.count("*"), F.sum(F.xxhash64(*frame.columns).cast("decimal(38,0)"))).first()


Work = tuple[tuple[str, ...], Callable[[DataFrame], None]]
WORKS: dict[str, Work] = {
    "the judge's columns": (JUDGED, to_nowhere),
    "the judge's digests": (JUDGED, digested),
    "all columns": (CONNECTOR_COLUMNS, to_nowhere),
    "key and value": (("key", "value"), to_nowhere),
    "value": (("value",), to_nowhere),
}


def spent_on(work: Callable[[], None], broker: int | None) -> Spent:
    """What a work took. A worker that Spark ended meanwhile is left out; it had been idle."""
    before, began = cpu_seconds(broker), time.monotonic()
    work()
    wall = time.monotonic() - began
    after = cpu_seconds(broker)
    return Spent(wall, sum(seconds - before.get(pid, 0) for pid, seconds in after.items()))


def cpu_seconds(broker: int | None) -> dict[int, float]:
    """Of every process below this one that is none of the broker's."""
    found = {}
    family = psutil.Process().children(recursive=True)
    apart = {child.pid for child in psutil.Process(broker).children(recursive=True)} if broker else set()
    for process in family:
        if process.pid != broker and process.pid not in apart:
            with suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                found[process.pid] = times.user + times.system
    return found


def compare(ways: Ways, rounds: int, chosen: list[str]) -> bool:
    """Prints what each way took, in turn; whether all found the same records."""
    agreed = True
    for what in chosen:
        names, work = WORKS[what]
        found = {}
        for way in WAYS:
            frame = ways.frame(way, names)
            found[way] = fingerprint(frame)
            ways.read(way, names, work)  # starts the workers and compiles the code
        same = len(set(found.values())) == 1
        agreed &= same
        records, digest = found[CONNECTOR] or (0, 0)
        print(f"{what}: {records:,} records, {f'all agree, hash {digest}' if same else f'DIFFER: {found}'}")
        spent: dict[str, list[Spent]] = {way: [] for way in found}
        for _ in range(rounds):
            for way in spent:
                spent[way].append(spent_on(partial(ways.read, way, names, work), ways.log.broker))
        report(records, spent)
    return agreed


def report(records: int, spent: dict[str, list[Spent]]) -> None:
    """Medians, and the median of the ratios within a round."""
    for way, each in spent.items():
        wall, cpu = (statistics.median(values) for values in zip(*each, strict=True))
        theirs = spent[CONNECTOR]
        faster = statistics.median(other.wall / mine.wall for mine, other in zip(each, theirs, strict=True))
        cheaper = statistics.median(
            other.cpu / max(mine.cpu, 0.01) for mine, other in zip(each, theirs, strict=True)
        )
        print(
            f"  {way:<22} {wall:6.2f} s {cpu:6.2f} s CPU  {records / wall:12,.0f} records/s"
            f"  {faster:5.1f} times the connector's, {cheaper:5.1f} by CPU",
            flush=True,
        )


@contextmanager
def made_up(records: int, value_bytes: int, scratch: Path) -> Iterator[Log]:
    """A topic of that many records, and a kbroker that serves it."""
    with tempfile.TemporaryDirectory(prefix="compare-", dir=scratch) as name:
        folder = Path(name)
        make.make(folder, records, value_bytes)
        broker = KBroker(folder, {"log.retention.ms": "-1"})  # the records' times are made up, too
        broker.start()
        try:
            yield Log(broker.bootstrap, str(broker.data_dir), make.TOPIC, broker.pid)
        finally:
            broker.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=5_000_000, help="of the made-up topic")
    parser.add_argument("--value-bytes", type=int, default=make.VALUE_BYTES, help="of the made-up topic")
    parser.add_argument("--bootstrap", help="HOST:PORT of a broker that runs already")
    parser.add_argument("--segments", help="its log directories")
    parser.add_argument("--topic", help="one of its topics")
    parser.add_argument("--works", help=f"some of: {', '.join(WORKS)}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--folder", type=Path, default=Path(".cache/spark"), help="for topic and Parquet files"
    )
    chosen = parser.parse_args()
    if chosen.bootstrap and not (chosen.segments and chosen.topic):
        parser.error("--bootstrap needs --segments and --topic")
    works = chosen.works.split(",") if chosen.works else list(WORKS)
    if unknown := [work for work in works if work not in WORKS]:
        parser.error(f"no work {unknown}; there are {list(WORKS)}")
    chosen.folder.mkdir(parents=True, exist_ok=True)
    scratch = chosen.folder.absolute()

    def judged(log: Log) -> int:
        spark = spark_session(connector=True)
        agreed = compare(Ways(spark, log, scratch), chosen.rounds, works)
        spark.stop()
        return 0 if agreed else 1

    if chosen.bootstrap:
        return judged(Log(chosen.bootstrap, chosen.segments, chosen.topic))
    with made_up(chosen.records, chosen.value_bytes, scratch) as log:
        return judged(log)


if __name__ == "__main__":
    sys.exit(main())
