"""V10, V11, V15 of what the broker names as high watermark and last stable offset when everything
has stopped."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_validation.anomalies import findings, kinds
from spark_validation.evidence import CONTROL, OPEN, PLACE, Evidence


def high_watermarks(evidence: Evidence, digests: DataFrame) -> DataFrame:
    """V15: a record that was acknowledged and is in the log lies above the high watermark."""
    last = digests.groupBy("topic", "partition").agg(F.max("last").alias("last"))
    acked = evidence.acked.groupBy("topic", "partition")
    reached = acked.agg(F.max("offset").alias("acked")).join(last, ["topic", "partition"])
    behind = reached.join(evidence.ends, ["topic", "partition"]).withColumn(
        "offset", F.least("acked", "last")
    )
    detail = F.concat_ws(" ", F.lit("high watermark"), "high_watermark")
    return findings(
        behind.where("offset >= high_watermark"), "V15", "high watermark below an acknowledged record", detail
    )


def contradictory(evidence: Evidence) -> DataFrame:
    """V15: ends that contradict one another."""
    found = kinds(
        evidence.ends.withColumn("offset", F.col("high_watermark")),
        {
            "log start above the high watermark": F.expr("start_offset > high_watermark"),
            "last stable offset above the high watermark": F.expr("last_stable_offset > high_watermark"),
        },
    )
    detail = F.concat_ws(" ", F.lit("starts at"), "start_offset", F.lit("stable to"), "last_stable_offset")
    return findings(found, "V15", F.col("kind"), detail)


def last_stable(evidence: Evidence) -> DataFrame:
    """V11: the last stable offset lies above an open record, which no cleaner takes; V10: it is
    held back and no record there was open."""
    begun = evidence.log.where(F.col("state") == OPEN).groupBy("topic", "partition")
    begun = begun.agg(F.min_by(F.struct("offset", "producer", "seq"), "offset").alias("first"))
    high = begun.join(evidence.ends, ["topic", "partition"]).where("first.offset < last_stable_offset")
    high = high.select("topic", "partition", "first.*", "last_stable_offset")
    detail = F.concat_ws(" ", F.lit("last stable offset"), "last_stable_offset")
    found = findings(high, "V11", "last stable offset above an open record", detail)
    held = held_back(evidence)
    return found if held is None else found.unionByName(held)


def held_back(evidence: Evidence) -> DataFrame | None:
    """V10: the last stable offset lies below the high watermark, and no record there was open; None
    where it lies below nowhere. Also of a run without transactions.

    A transaction that was open when the ends were asked for may have ended since, by a marker above
    the high watermark.
    """
    every = (end for ends_of in evidence.run.ends.values() for end in ends_of.values())
    if all(end.last_stable_offset >= end.high_watermark for end in every):
        return None
    ends = evidence.ends.where(F.col("topic").isin(evidence.topics()))
    held = ends.where("last_stable_offset < high_watermark").withColumn("offset", F.col("last_stable_offset"))
    there = data_of(evidence).where(F.col("state").isin(OPEN) | (F.col("marker") >= 0))
    beside = held.join(there.select(*PLACE, "state", "marker"), PLACE, "left")
    for_nothing = beside.where(f"state is null or (state <> {OPEN} and marker < high_watermark)")
    return findings(for_nothing, "V10", "last stable offset held back by nothing", F.lit(None))


def data_of(evidence: Evidence) -> DataFrame:
    """Records of producers in topics whose logs are whole."""
    return evidence.log.where(F.col("topic").isin(evidence.topics()) & (F.col("state") != CONTROL))
