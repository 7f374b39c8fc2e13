"""The streaming job: three streams (sends, log, reads) feed one small state; differences are judged
exactly, at once.

Live are V01, V02 and V05 by the digests of sends against log, once a bucket of offsets has been
quiet for the grace, and altered values that consumers saw; with the end of the run what
`live.checks` says. `judge` has all anomalies.

There is no watermark: rows are never too late. What comes after the grace opens its bucket again.
"""

import argparse
import logging
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from loadtest.history import KINDS
from spark_validation.digests import BUCKET, content_hash
from spark_validation.evidence import ACKED, BUCKET_BITS, LOG_SCHEMA, SPARK_TYPES, Evidence, bucket
from spark_validation.live import checks
from spark_validation.live.journal import Journal
from spark_validation.live.page import live_page
from spark_validation.live.state import Bucket, Live
from spark_validation.live.stream import Stream
from spark_validation.log_frames import LARGE_FETCHES, identified, login_options, segment_log
from spark_validation.opening import existing, open_evidence, opened_run
from spark_validation.segments.source import FORMAT
from spark_validation.verdict import LISTED, Verdict, listed

log = logging.getLogger("spark_validation")
TRIGGER = "2 seconds"
STATELESS = ", ".join(part for part in LOG_SCHEMA.split(", ") if part.split()[0] not in ("state", "marker"))


class LiveJob:
    """One run followed. Runs in: the driver; the streams' threads add to `state` under `lock`."""

    def __init__(self, evidence: Evidence, options: argparse.Namespace) -> None:
        self._opened = evidence
        self.options = options
        self.state = Live(options.grace)
        self.verdict = Verdict()
        self.lock = threading.Lock()
        self.journals: dict[str, Journal] = {}

    @property
    def evidence(self) -> Evidence:
        """The current evidence: lists clients, intents and history files again, and what run.json
        says by now."""
        fresh = replace(self._opened)
        fresh.run = opened_run(self.options.history, self.options.topics)
        return fresh

    def follow(self) -> int:
        """Judge until the run has ended or `options.seconds` are over; returns the exit code."""
        for kind in ("sends", "reads"):
            (self.options.history / kind).mkdir(exist_ok=True)
        with ExitStack() as stack:
            kept = self.options.checkpoint or Path(
                stack.enter_context(tempfile.TemporaryDirectory(prefix="live-"))
            )
            for name in ("sent", "held", "reads"):
                self.journals[name] = Journal(kept / f"{name}.jsonl")
                stack.callback(self.journals[name].close)
                for entry in self.journals[name].entries:
                    self.merge(name, entry)
            sources = (
                ("sends", partial(self.histories, "sends"), self.add_sends),
                ("log", self.log_stream, self.add_log),
                ("reads", partial(self.histories, "reads"), self.add_reads),
            )
            streams = []
            for name, rows, add in sources:
                streams.append(Stream(name, partial(self.start, rows, add, f"{kept}/{name}")))
                stack.callback(streams[-1].stop)
            self.watch(streams)
        return self.verdict.exit_code

    def watch(self, streams: list[Stream]) -> None:
        began = time.monotonic()
        while True:
            time.sleep(2)
            for stream in streams:
                stream.check()
            over = bool(self.options.seconds) and time.monotonic() - began > self.options.seconds
            ended = opened_run(self.options.history).ended_ns is not None
            silent = self.quiet_s(began) > self.options.patience
            if over or ended or silent:
                # twice: a trigger that listed the files before the last of them were there can end
                # the first wait
                for stream in (*streams, *streams):
                    stream.process_available()
            self.judge(ended)
            quiet_s = self.quiet_s(began)
            silent &= quiet_s > self.options.patience
            if over or ended or silent:
                self.verdict.missing = [*self.state.absent(), *self.state.unjudged()]
                if silent and not (over or ended):
                    self.verdict.missing.append(f"the run has no end, and nothing came for {quiet_s:.0f} s")
                for reason in self.verdict.missing:
                    log.warning("no verdict: %s", reason)
                return

    def quiet_s(self, began: float) -> float:
        """Seconds since the last record. A run whose conductor was killed gets no end: nothing
        comes any more."""
        with self.lock:
            return time.monotonic() - self.state.last_change(began)

    def start(self, rows: Callable[[], DataFrame], add: Any, checkpoint: str) -> Any:
        writer = rows().writeStream.foreachBatch(add).option("checkpointLocation", checkpoint)
        return writer.trigger(processingTime=TRIGGER).start()

    def histories(self, kind: str) -> DataFrame:
        """Rows of a history as its files are completed."""
        schema = ", ".join(f"`{f.name}` {SPARK_TYPES[f.type]}" for f in KINDS[kind])
        stream = self._opened.spark.readStream.schema(schema).option("maxFilesPerTrigger", 200)
        return stream.parquet(str(self.options.history / kind)).withColumnRenamed("key", "record_key")

    def log_stream(self) -> DataFrame:
        """Records of the run's topics as they are appended."""
        evidence = self._opened
        topics = ",".join(topic.name for topic in evidence.run.topics)
        spark, run = evidence.spark, evidence.run.run
        if evidence.source == "segments":
            path = ",".join(evidence.data_dirs)
            return (
                spark.readStream.format(FORMAT)
                .schema(STATELESS)
                .options(path=path, topics=topics, run=run)
                .load()
            )
        options = LARGE_FETCHES | login_options()
        options |= {"kafka.bootstrap.servers": self.options.bootstrap, "subscribe": topics}
        stream = spark.readStream.format("kafka").options(**options).option("startingOffsets", "earliest")
        return identified(stream.load(), run)

    def add_sends(self, rows: DataFrame, batch: int) -> None:
        acked = rows.where(ACKED).withColumn("header_sum", F.coalesce("header_sum", F.lit(0)))
        self.add("sent", acked, content_hash(F.lit(True), self._opened.sent_stamp()), batch)

    def add_log(self, rows: DataFrame, batch: int) -> None:
        silent = self.evidence.silent_producers
        reported = rows.where(~F.col("producer").isin(silent)) if silent else rows
        self.add("held", reported, content_hash(F.col("intact"), self._opened.sent_stamp()), batch)

    def add(self, which: str, rows: DataFrame, hashed: Any, batch: int) -> None:
        names = [topic.name for topic in self._opened.run.topics]
        some = rows.where(F.col("topic").isin(names)).select(
            "topic", "partition", bucket(), hashed.alias("h")
        )
        found = some.groupBy(*BUCKET).agg(F.count("*").alias("n"), F.bit_xor("h").alias("x")).collect()
        self.count(which, batch, {"buckets": [tuple(row) for row in found]})

    def add_reads(self, rows: DataFrame, batch: int) -> None:
        counted = rows.agg(F.count("*").alias("n"), F.count_if(~F.col("intact")).alias("altered")).first()
        altered = rows.where("not intact").limit(LISTED).collect() if counted and counted["altered"] else []
        kept = ("topic", "partition", "offset", "producer", "seq", "consumer")
        listed = [{name: row[name] for name in kept} for row in altered]
        self.count("reads", batch, {"reads": counted["n"] if counted else 0, "altered": listed})

    def count(self, name: str, batch: int, entry: dict[str, Any]) -> None:
        """A micro-batch counts once: into the journal, then into the state."""
        with self.lock:
            if self.journals[name].add(batch, entry):
                self.merge(name, entry)

    def merge(self, name: str, entry: dict[str, Any]) -> None:
        if name == "reads":
            self.state.reads += entry["reads"]
            if entry["reads"]:
                self.state.read_at = time.monotonic()
            what = {"anomaly": "V02", "kind": "a consumer saw an altered value", "convicts": True}
            self.verdict.add([what | {"detail": None} | row for row in entry["altered"]])
            return
        for topic, partition, number, count, hash_ in entry["buckets"]:
            self.state.merge(name, (topic, partition, number), count, hash_, time.monotonic())

    def judge(self, ended: bool) -> None:
        """Exact checks of buckets that are due; then the report."""
        with self.lock:
            due = self.state.due(time.monotonic(), ended)
        if due:
            self.check(due)
        if ended:
            self.take(checks.of_the_whole(self.evidence))
        with self.lock:
            self.state.settle(due)
            totals = self.state.totals()
        reported = ", ".join(f"{count:,} {name}" for name, count in totals.items())
        log.info("%s  %s", reported, self.verdict.convicted() or "no anomaly")
        if self.options.report:
            self.options.report.write_text(live_page(self._opened.run.run, self.verdict, totals, ended))

    def check(self, buckets: list[Bucket]) -> None:
        evidence = self.evidence
        evidence.run.ends = evidence.run.ends or checks.present_ends(evidence, self.options.bootstrap)
        if evidence.source == "segments":
            evidence.log = self.log_of(buckets)
        self.take(checks.of_buckets(evidence, buckets))

    def take(self, found: list[DataFrame]) -> None:
        """New findings into the verdict."""
        known = {self.key(row) for result in self.verdict.results.values() for row in result.convicting}
        for frame in found:
            rows = self.unannounced(listed(frame))
            self.verdict.add([row for row in self.unremoved(rows) if self.key(row) not in known])

    def log_of(self, buckets: list[Bucket]) -> DataFrame:
        """The log from the first of these buckets on, partition by partition: not all of it for a
        few of them."""
        since: dict[str, int] = {}
        for topic, partition, number in buckets:
            name = f"{topic}-{partition}"
            since[name] = min(number << BUCKET_BITS, since.get(name, number << BUCKET_BITS))
        opened = self._opened
        topics = sorted({topic for topic, _, _ in buckets})
        return segment_log(opened.spark, opened.data_dirs, topics, opened.run.run, since)

    def unannounced(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The findings, without records whose intent was written after the check had read the
        intents and before it read the log."""
        if not any(row["kind"] == "nobody sent it" for row in rows):
            return rows
        intents = self.evidence.announced

        def announced(row: dict[str, Any]) -> bool:
            return row["kind"] == "nobody sent it" and any(
                producer == row["producer"] and first <= row["seq"] <= last
                for producer, first, last in intents
            )

        return [row for row in rows if not announced(row)]

    def unremoved(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The findings, without records below a log start that moved after the check had requested
        it and before it read the log."""
        if not any(row["kind"] == "nothing at its offset" for row in rows):
            return rows
        evidence = self.evidence
        ends = evidence.run.ends or checks.present_ends(evidence, self.options.bootstrap)

        def removed(row: dict[str, Any]) -> bool:
            end = ends.get(row["topic"], {}).get(str(row["partition"]))
            return (
                row["kind"] == "nothing at its offset"
                and end is not None
                and row["offset"] < end.start_offset
            )

        return [row for row in rows if not removed(row)]

    @staticmethod
    def key(row: dict[str, Any]) -> tuple[Any, ...]:
        """A lost record is one finding, whatever is known of its log by then."""
        kind = None if row["anomaly"] == "V01" else row["kind"]
        return kind, *(row.get(name) for name in ("anomaly", "topic", "partition", "offset"))


def run_stream(options: argparse.Namespace) -> int:
    """The `stream` command."""
    options.earlier = None
    run = opened_run(options.history)
    if not options.segments and not options.bootstrap and existing(run.data_dirs):
        options.segments = ",".join(run.data_dirs)
    with open_evidence(options, following=True) as evidence:
        code = LiveJob(evidence, options).follow()
    evidence.spark.stop()
    return code
