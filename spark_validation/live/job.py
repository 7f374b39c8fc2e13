"""The streaming job: three streams (sends, log, reads) feed one small state; differences are judged exactly, at once.

Live are V01, V02 and V05 by the digests of sends against log, once a bucket of offsets has been quiet for the grace,
and altered values that consumers saw. The other anomalies need the end of the run: `judge` has them all.
"""

import argparse
import json
import logging
import tempfile
import threading
import time
from datetime import UTC, datetime
from html import escape
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from loadtest.history import KINDS
from spark_validation.checks import places
from spark_validation.digests import BUCKET, content_hash
from spark_validation.evidence import LOG_SCHEMA, SPARK_TYPES, Evidence, bucket
from spark_validation.live.state import Bucket, Live
from spark_validation.log_frames import CONNECTOR_OPTIONS, identified
from spark_validation.opening import existing, open_evidence, opened_run
from spark_validation.segments.source import FORMAT
from spark_validation.verdict import LISTED, Verdict

log = logging.getLogger("spark_validation")
TRIGGER = "2 seconds"
STATELESS = ", ".join(part for part in LOG_SCHEMA.split(", ") if not part.startswith("state "))


class LiveJob:
    """One run followed. Runs in: the driver; the streams' threads add to `state` under `lock`."""

    def __init__(self, evidence: Evidence, options: argparse.Namespace) -> None:
        self.evidence = evidence
        self.options = options
        self.state = Live(options.grace)
        self.verdict = Verdict()
        self.lock = threading.Lock()

    def follow(self) -> int:
        """Until the run has ended or the seconds are over; gives the exit code."""
        for kind in ("sends", "reads"):
            (self.options.history / kind).mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="live-") as checkpoints:
            queries = [
                self.start(self.histories("sends"), self.add_sends, f"{checkpoints}/sends"),
                self.start(self.log_stream(), self.add_log, f"{checkpoints}/log"),
                self.start(self.histories("reads"), self.add_reads, f"{checkpoints}/reads"),
            ]
            try:
                self.watch(queries)
            finally:
                for query in queries:
                    query.stop()
        return self.verdict.exit_code

    def watch(self, queries: list[Any]) -> None:
        began = time.monotonic()
        while True:
            time.sleep(2)
            for query in queries:
                if (failed := query.exception()) is not None:
                    raise failed
            over = bool(self.options.seconds) and time.monotonic() - began > self.options.seconds
            ended = opened_run(self.options.history).ended_ns is not None
            if over or ended:
                for query in queries:
                    query.processAllAvailable()
            self.judge(ended)
            if over or ended:
                return

    def start(self, frame: DataFrame, add: Any, checkpoint: str) -> Any:
        writer = frame.writeStream.foreachBatch(add).option("checkpointLocation", checkpoint)
        return writer.trigger(processingTime=TRIGGER).start()

    def histories(self, kind: str) -> DataFrame:
        """Rows of a history as its files are completed."""
        schema = ", ".join(f"`{f.name}` {SPARK_TYPES[f.type]}" for f in KINDS[kind])
        stream = self.evidence.spark.readStream.schema(schema).option("maxFilesPerTrigger", 200)
        return stream.parquet(str(self.options.history / kind)).withColumnRenamed("key", "record_key")

    def log_stream(self) -> DataFrame:
        """Records of the run's topics as they are appended."""
        topics = ",".join(topic.name for topic in self.evidence.run.topics)
        spark, run = self.evidence.spark, self.evidence.run.run
        if self.evidence.source == "segments":
            path = ",".join(self.evidence.data_dirs)
            return (
                spark.readStream.format(FORMAT)
                .schema(STATELESS)
                .options(path=path, topics=topics, run=run)
                .load()
            )
        options = CONNECTOR_OPTIONS | {"kafka.bootstrap.servers": self.options.bootstrap, "subscribe": topics}
        stream = spark.readStream.format("kafka").options(**options).option("startingOffsets", "earliest")
        return identified(stream.load(), run)

    def add_sends(self, rows: DataFrame, _: int) -> None:
        self.add("sent", rows.where("status = 0 and offset >= 0"), content_hash(F.lit(True)))

    def add_log(self, rows: DataFrame, _: int) -> None:
        silent = self.evidence.silent_producers
        self.add(
            "held",
            rows.where(~F.col("producer").isin(silent)) if silent else rows,
            content_hash(F.col("intact")),
        )

    def add(self, which: str, rows: DataFrame, hashed: Any) -> None:
        names = [topic.name for topic in self.evidence.run.topics]
        some = rows.where(F.col("topic").isin(names)).select(
            "topic", "partition", bucket(), hashed.alias("h")
        )
        found = some.groupBy(*BUCKET).agg(F.count("*").alias("n"), F.bit_xor("h").alias("x")).collect()
        with self.lock:
            for row in found:
                place = (row["topic"], row["partition"], row["bucket"])
                self.state.merge(which, place, row["n"], row["x"], time.monotonic())

    def add_reads(self, rows: DataFrame, _: int) -> None:
        counted = rows.agg(F.count("*").alias("n"), F.count_if(~F.col("intact")).alias("altered")).first()
        altered = rows.where("not intact").limit(LISTED).collect()
        with self.lock:
            self.state.reads += counted["n"] if counted else 0
            kept = ("topic", "partition", "offset", "producer", "seq", "consumer")
            what = {
                "anomaly": "V02",
                "kind": "a consumer saw an altered value",
                "convicts": True,
                "detail": None,
            }
            self.verdict.add([what | {name: row[name] for name in kept} for row in altered])

    def judge(self, ended: bool) -> None:
        """Exact checks of buckets that are due; then the report."""
        with self.lock:
            due = self.state.due(time.monotonic(), ended)
        if due:
            self.check(due)
        with self.lock:
            self.state.settle(due)
            totals = self.state.totals()
        said = ", ".join(f"{count:,} {name}" for name, count in totals.items())
        log.info("%s  %s", said, self.verdict.convicted() or "no anomaly")
        if self.options.report:
            self.options.report.write_text(live_page(self.evidence, self.verdict, totals, ended))

    def check(self, buckets: list[Bucket]) -> None:
        schema = "topic string, partition int, bucket bigint"
        suspects = self.evidence.spark.createDataFrame(buckets, schema)
        placed = places.sent_and_found(self.evidence, suspects)
        strange = places.strangers(self.evidence, placed)
        # the log runs ahead of the histories: what is not yet told of counts only once the run has ended
        checks = [
            places.lost(self.evidence, placed),
            places.misplaced(placed),
            places.phantoms(self.evidence, strange),
        ]
        known = {self.key(row) for result in self.verdict.results.values() for row in result.convicting}
        for found in checks:
            rows = [row.asDict() for row in found.limit(LISTED).collect()]
            self.verdict.add([row for row in rows if self.key(row) not in known])

    @staticmethod
    def key(row: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(row.get(name) for name in ("anomaly", "kind", "topic", "partition", "offset"))


def live_page(evidence: Evidence, verdict: Verdict, totals: dict[str, int], ended: bool) -> str:
    """A page that loads itself anew while the run lasts."""
    rows = [row for result in verdict.results.values() for row in result.convicting][:50]
    listed = "".join(f"<li><code>{escape(json.dumps(row))}</code></li>" for row in rows)
    counts = "".join(f"<tr><td>{escape(name)}</td><td>{count:,}</td></tr>" for name, count in totals.items())
    state = "Convicted: " + ", ".join(verdict.convicted()) if verdict.convicted() else "No anomaly so far"
    refresh = "" if ended else '<meta http-equiv="refresh" content="2">'
    now = datetime.now(UTC).strftime("%H:%M:%S UTC")
    return (
        f'<!doctype html><meta charset="utf-8">{refresh}<title>Run {evidence.run.run} live</title>'
        f"<h1>{escape(state)}</h1><p>Run {evidence.run.run}, {now}{', ended' if ended else ''}</p>"
        f"<table>{counts}</table><ol>{listed}</ol>\n"
    )


def run_stream(options: argparse.Namespace) -> int:
    """The `stream` command."""
    options.earlier = None
    run = opened_run(options.history)
    if not options.segments and not options.bootstrap and existing(run.data_dirs):
        options.segments = ",".join(run.data_dirs)
    evidence = open_evidence(options, following=True)
    code = LiveJob(evidence, options).follow()
    evidence.spark.stop()
    return code
