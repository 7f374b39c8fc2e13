"""V17 visibility lag and V18 latency: percentiles against limits, and only outside of clock
steps."""

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_validation.digests import BUCKET
from spark_validation.evidence import PLACE, Evidence, bucket

SAMPLED = 16  # one bucket of offsets in so many takes part in the join for visibility lag
PERCENTILES = (0.5, 0.9, 0.99, 0.999, 1.0)
NAMES = ("p50", "p90", "p99", "p99.9", "max")
SEEN = "seen after acknowledged (sample)"
STEP_MARGIN_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds at PERCENTILES; None when nothing was measured."""

    what: str
    count: int
    milliseconds: tuple[float, ...] | None

    def at(self, name: str) -> float | None:
        return None if self.milliseconds is None else self.milliseconds[NAMES.index(name)]


def steady(evidence: Evidence, frame: DataFrame, time: str) -> DataFrame:
    """Rows whose time is not within a second of a clock step."""
    for step in evidence.run.clock_steps:
        margin = STEP_MARGIN_NS + abs(step["step_ns"])
        frame = frame.where(~F.col(time).between(step["at_ns"] - margin, step["at_ns"] + margin))
    return frame


def measured(frame: DataFrame, value_ns: str, what: str) -> Latency:
    row = frame.agg(
        F.count("*").alias("count"), F.percentile_approx(value_ns, list(PERCENTILES), 10_000).alias("found")
    ).first()
    assert row is not None
    return Latency(what, row["count"], tuple(ns / 1e6 for ns in row["found"]) if row["found"] else None)


def latencies(evidence: Evidence) -> list[Latency]:
    """Ack, queueing in the client, end to end of load consumers, and visibility lag of a sample."""
    acked = steady(evidence, evidence.sends.where("status = 0"), "acked_ns")
    loads = evidence.consumers.where("role != 'drain'").select("consumer")
    reads = steady(evidence, evidence.reads.join(loads, "consumer").where("intended_ns > 0"), "seen_ns")
    return [
        measured(
            acked.select((F.col("acked_ns") - F.col("intended_ns")).alias("ns")),
            "ns",
            "acknowledged after intended",
        ),
        measured(
            acked.select((F.col("sent_ns") - F.col("intended_ns")).alias("ns")), "ns", "sent after intended"
        ),
        measured(
            reads.select((F.col("seen_ns") - F.col("intended_ns")).alias("ns")), "ns", "seen after intended"
        ),
        visibility(acked, reads),
    ]


def visibility(acked: DataFrame, reads: DataFrame) -> Latency:
    """Visibility lag of a sample; of all records where none of a few buckets is in it."""
    sample = F.pmod(F.xxhash64(*BUCKET), F.lit(SAMPLED)) == 0
    lag = F.greatest(F.col("seen_ns") - F.col("acked_ns"), F.lit(0)).alias("ns")
    found = Latency(SEEN, 0, None)
    for chosen in (sample, F.lit(True)):
        sends = acked.withColumn("bucket", bucket()).where(chosen).select(*PLACE, "acked_ns")
        given = reads.withColumn("bucket", bucket()).where(chosen).select(*PLACE, "seen_ns")
        found = measured(given.join(sends, PLACE).select(lag), "ns", SEEN)
        if found.count:
            break
    return found
