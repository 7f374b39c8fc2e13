"""V14 restart prefix: what an earlier copy of the log held is still there, unchanged."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_validation.anomalies import findings
from spark_validation.digests import BUCKET, read_hash
from spark_validation.evidence import CONTROL, OPEN, PLACE, Evidence, bucket


def unlike(evidence: Evidence) -> DataFrame:
    """V14: acknowledged records of the earlier copy that are gone, moved or changed now."""
    assert evidence.earlier is not None
    earlier = evidence.earlier.where(F.col("state") != CONTROL)
    later = evidence.log.where(F.col("state") != CONTROL)
    suspects = differing(earlier, later)
    near = F.broadcast(suspects)
    before = earlier.withColumn("bucket", bucket()).join(near, BUCKET, "left_semi")
    now = later.withColumn("bucket", bucket()).join(near, BUCKET, "left_semi")
    hashed = now.select(*PLACE, read_hash(F.col("intact")).alias("now"), F.col("state").alias("is"))
    then = read_hash(F.col("intact")).alias("then")
    beside = before.select(*PLACE, "producer", "seq", then, F.col("state").alias("was")).join(
        hashed, PLACE, "left"
    )
    beside = beside.join(evidence.ends, ["topic", "partition"], "left").where(
        "offset >= coalesce(start_offset, 0)"
    )
    turned = (F.col("was") != OPEN) & (F.col("was") != F.col("is"))
    wrong = beside.where(F.expr("now is null or now != then") | turned)
    acked = evidence.sends.where("status = 0 and offset >= 0").select(*PLACE, F.lit(True).alias("acked"))
    wrong = wrong.join(acked, PLACE, "left")
    kind = (
        F.when(F.col("now").isNull(), "gone")
        .when(F.col("now") != F.col("then"), "changed")
        .otherwise("its transaction ended otherwise")
    )
    proven = F.coalesce("acked", F.lit(False)) | F.coalesce(turned, F.lit(False))
    return findings(wrong, "V14", kind, F.lit(None), proven)


def differing(earlier: DataFrame, later: DataFrame) -> DataFrame:
    """BUCKETs whose offsets up to the earlier copy's end differ."""
    ends = F.broadcast(earlier.groupBy("topic", "partition").agg(F.max("offset").alias("until")))
    later = later.join(ends, ["topic", "partition"]).where("offset <= until")

    def digest(frame: DataFrame, name: str) -> DataFrame:
        whole = F.xxhash64(read_hash(F.col("intact")), "state").alias("h")
        hashed = frame.select("topic", "partition", bucket(), whole)
        return hashed.groupBy(*BUCKET).agg(
            F.count("*").alias(f"{name}_count"), F.bit_xor("h").alias(f"{name}_hash")
        )

    both = digest(earlier, "old").join(digest(later, "new"), BUCKET, "left")
    same = F.col("old_count").eqNullSafe(F.col("new_count")) & F.col("old_hash").eqNullSafe(F.col("new_hash"))
    return both.where(~same).select(*BUCKET)
