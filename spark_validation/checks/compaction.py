"""V16 compaction: the last value of every key survives, and survivors are what was sent at their offset."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_validation.anomalies import findings
from spark_validation.evidence import CONTROL, PLACE, Evidence

CONTENT = ["producer", "seq", "record_key"]


def compaction(evidence: Evidence) -> DataFrame:
    """V16 of the run's compacted topics."""
    topics = evidence.topics(compacted=True)
    sends = evidence.sends.where(
        F.col("topic").isin(topics) & (F.col("status") == 0) & (F.col("offset") >= 0)
    )
    sends = sends.where("transaction < 0")  # a transaction's outcome decides what its key's last value is
    log = evidence.log.where(F.col("topic").isin(topics) & (F.col("state") != CONTROL))
    newest = sends.groupBy("topic", "partition", "record_key").agg(F.max("offset").alias("offset"))
    kept = log.groupBy("topic", "partition", "record_key").agg(F.max("offset").alias("kept"))
    gone = newest.join(kept, ["topic", "partition", "record_key"], "left").where(
        "kept is null or kept < offset"
    )
    lost = findings(gone, "V16", "last value of a key is gone", F.concat(F.lit("key "), "record_key"))
    sent = sends.select(*PLACE, *[F.col(name).alias(f"sent_{name}") for name in CONTENT])
    beside = log.join(sent, PLACE)
    differs = ~F.col("intact")
    for name in CONTENT:
        differs |= F.col(name) != F.col(f"sent_{name}")
    changed = findings(beside.where(differs), "V16", "survivor changed or moved", F.lit(None))
    return lost.unionByName(changed)
