"""`python -m spark_validation.scale.compare`: the ways to read a log, side by side, on one topic.

Spark's Kafka connector with large fetches and polls, and as it comes; the segment source by
`format("kafka-segments")`, as a frame (`segment_frame`), and landed as Parquet, the conversion
counted each time. Each does the same works: all columns that the judge needs (headers of the values
decoded, checksums checked), the judge's digests of them, and as they are: the connector's columns,
key and value, or values alone. Hashes over all columns of all records must agree. Each way has a
Spark of its own, as its user would, and they take turns: in one JVM the code that is compiled for
one way is shaped by the others. Without --bootstrap a topic is made up and served by a kbroker of
its own.
"""

import argparse
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from pyspark.sql import DataFrame
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
    """One topic, to be read both ways."""

    bootstrap: str
    segments: str
    topic: str


class Spent(NamedTuple):
    """Wall seconds, CPU seconds of Spark (JVM and Python workers, not the broker's)."""

    wall: float
    cpu: float


class Way:
    """One way to read. Runs in: a process of its own, with its Spark. Parquet files are removed
    when the next ones are written."""

    def __init__(self, name: str, log: Log, scratch: Path, small: bool) -> None:
        self.name = name
        self.log = log
        self.scratch = scratch
        self.spark = spark_session(connector=name in (CONNECTOR, AS_IT_COMES), small=small)
        self.landed: tempfile.TemporaryDirectory[str] | None = None
        self.options = {"path": log.segments, "topics": log.topic}

    def frame(self, names: tuple[str, ...]) -> DataFrame:
        if self.name == MAPPED:
            return segment_frame(self.spark, self.options, names)
        if self.name == FORMATTED:
            return self.spark.read.format(FORMAT).options(**self.options).schema(ddl(RECORD, names)).load()
        if self.name == PARQUET:
            if self.landed is not None:
                self.landed.cleanup()
            self.landed = tempfile.TemporaryDirectory(dir=self.scratch)
            return land(self.spark, Path(self.landed.name), self.options, names)
        records = connector_records(
            self.spark,
            self.log.bootstrap,
            [self.log.topic],
            "read_uncommitted",
            large_fetches=self.name == CONNECTOR,
        )
        plain = set(names) <= set(CONNECTOR_COLUMNS)
        return (records if plain else identified(records, -1)).select(*names)

    def read(self, what: str) -> None:
        names, work = WORKS[what]
        work(self.frame(names))

    def spent(self, what: str) -> Spent:
        """A worker that Spark ended meanwhile is left out; it had been idle."""
        before, began = cpu_seconds(), time.monotonic()
        self.read(what)
        wall = time.monotonic() - began
        after = cpu_seconds()
        return Spent(wall, sum(seconds - before.get(pid, 0) for pid, seconds in after.items()))

    def found(self, what: str) -> tuple[int, int]:
        """Count and hash of all rows. A sum: equal rows, which values alone may be, cancel in a
        xor."""
        frame = self.frame(WORKS[what][0])
        hashes = F.sum(F.xxhash64(*frame.columns).cast("decimal(38,0)"))
        row = frame.agg(F.count("*"), hashes).first()
        return (int(row[0]), int(row[1] or 0)) if row else (0, 0)


def serve(pipe: Connection, name: str, log: Log, scratch: Path, small: bool) -> None:
    """Answers what a `Reader` asks, until it has gone."""
    way = Way(name, log, scratch, small)
    pipe.send("ready")
    with suppress(EOFError):
        while True:
            question, what = pipe.recv()
            pipe.send(getattr(way, question)(what))
    way.spark.stop()
    if way.landed is not None:
        way.landed.cleanup()


class Reader:
    """A `Way` in its process, seen from the one that compares. Raises EOFError when that has
    failed."""

    def __init__(self, name: str, log: Log, scratch: Path, small: bool = False) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, name, log, scratch, small))
        self.process.start()
        theirs.close()
        self.pipe.recv()

    def ask(self, question: str, what: str) -> Any:
        self.pipe.send((question, what))
        return self.pipe.recv()

    def close(self) -> None:
        self.pipe.close()
        self.process.join()


def to_nowhere(frame: DataFrame) -> None:
    """All rows, to Spark's noop sink."""
    frame.write.format("noop").mode("overwrite").save()


def digested(frame: DataFrame) -> None:
    """Count and hash of every bucket of offsets, as the judge makes them."""
    hashed = frame.select("topic", "partition", bucket(), F.xxhash64(*frame.columns).alias("h"))
    to_nowhere(hashed.groupBy("topic", "partition", "bucket").agg(F.count("*"), F.bit_xor("h")))


Work = tuple[tuple[str, ...], Callable[[DataFrame], None]]
WORKS: dict[str, Work] = {
    "the judge's columns": (JUDGED, to_nowhere),
    "the judge's digests": (JUDGED, digested),
    "all columns": (CONNECTOR_COLUMNS, to_nowhere),
    "key and value": (("key", "value"), to_nowhere),
    "value": (("value",), to_nowhere),
}


def cpu_seconds() -> dict[int, float]:
    """pid -> CPU seconds of every process below this one: Spark's JVM and Python workers."""
    found = {}
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            found[process.pid] = times.user + times.system
    return found


def compare(readers: dict[str, Reader], rounds: int, chosen: list[str]) -> bool:
    """Prints what each way took, in turn; whether all found the same records. rounds 0: nothing is
    timed."""
    agreed = True
    for what in chosen:
        for reader in readers.values() if rounds else ():
            reader.ask("read", what)  # starts the workers and compiles the code
        spent: dict[str, list[Spent]] = {way: [] for way in readers}
        for _ in range(rounds):
            for way, reader in readers.items():
                spent[way].append(reader.ask("spent", what))
        found = {way: reader.ask("found", what) for way, reader in readers.items()}
        same = len(set(found.values())) == 1
        agreed &= same
        records, digest = found[CONNECTOR]
        print(f"{what}: {records:,} records, {f'all agree, hash {digest}' if same else f'DIFFER: {found}'}")
        if rounds:
            report(records, spent)
    return agreed


def report(records: int, spent: dict[str, list[Spent]]) -> None:
    """Medians, and the median of the ratios within a round."""
    for way, each in spent.items():
        wall, cpu = (statistics.median(values) for values in zip(*each, strict=True))
        theirs = spent[CONNECTOR]
        faster = statistics.median(other.wall / own.wall for own, other in zip(each, theirs, strict=True))
        cheaper = statistics.median(
            other.cpu / max(own.cpu, 0.01) for own, other in zip(each, theirs, strict=True)
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
            yield Log(broker.bootstrap, str(broker.data_dir), make.TOPIC)
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
    parser.add_argument("--ways", help=f"beside the connector some of: {', '.join(WAYS[1:])}")
    parser.add_argument("--rounds", type=int, default=3, help="0: compare the records, time nothing")
    parser.add_argument(
        "--folder", type=Path, default=Path(".cache/spark"), help="for topic and Parquet files"
    )
    chosen = parser.parse_args()
    if chosen.bootstrap and not (chosen.segments and chosen.topic):
        parser.error("--bootstrap needs --segments and --topic")
    works = chosen.works.split(",") if chosen.works else list(WORKS)
    if unknown := [work for work in works if work not in WORKS]:
        parser.error(f"no work {unknown}; there are {list(WORKS)}")
    ways = dict.fromkeys((CONNECTOR, *chosen.ways.split(","))) if chosen.ways else WAYS
    if unknown := [way for way in ways if way not in WAYS]:
        parser.error(f"no way {unknown}; there are {list(WAYS)}")
    chosen.folder.mkdir(parents=True, exist_ok=True)
    scratch = chosen.folder.absolute()

    def judged(log: Log) -> int:
        readers: dict[str, Reader] = {}
        try:
            for way in ways:
                readers[way] = Reader(way, log, scratch, small=not chosen.rounds)
            return 0 if compare(readers, chosen.rounds, works) else 1
        finally:
            for reader in readers.values():
                reader.close()

    if chosen.bootstrap:
        return judged(Log(chosen.bootstrap, chosen.segments, chosen.topic))
    with made_up(chosen.records, chosen.value_bytes, scratch) as log:
        return judged(log)


if __name__ == "__main__":
    sys.exit(main())
