"""V14 restart prefix: what an earlier copy of the log held is still there, unchanged."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_validation.anomalies import findings
from spark_validation.checks.batches import CONTROL_BIT, SOUND, bit
from spark_validation.digests import BUCKET, read_hash
from spark_validation.evidence import CONTROL, IDENTITY, OPEN, PLACE, Evidence, bucket

HEADER = ["last_offset", "leader_epoch", "attributes", "base_timestamp_ms", "max_timestamp_ms"]
HEADER += ["producer_id", "producer_epoch", "base_sequence", "record_count"]
REWRITTEN = "its batch has another header"


def changed_records(evidence: Evidence) -> DataFrame:
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
    turned = (F.col("was") != OPEN) & (F.col("was") != F.col("is")) & (F.col("now") == F.col("then"))
    compacted = F.col("topic").isin(evidence.topics(compacted=True))
    wrong = beside.where((F.col("now").isNull() & ~compacted) | (F.col("now") != F.col("then")) | turned)
    # what was not acknowledged may be lost, and another record be acknowledged in its place
    acked = evidence.acked.select(*PLACE, *IDENTITY, F.lit(True).alias("acked"))
    wrong = wrong.join(acked, [*PLACE, *IDENTITY], "left")
    kind = (
        F.when(F.col("now").isNull(), "gone")
        .when(F.col("now") != F.col("then"), "changed")
        .otherwise("its transaction ended otherwise")
    )
    proven = F.coalesce("acked", F.lit(False)) | F.coalesce(turned, F.lit(False))
    return findings(wrong, "V14", kind, F.lit(None), proven)


def changed_batches(evidence: Evidence) -> DataFrame:
    """V14: batches whose first record was acknowledged, and whose headers are not those of the
    earlier copy. `changed_records` finds changes of their records and of the ends of their
    transactions."""
    assert evidence.earlier is not None
    if evidence.earlier_batches is None or evidence.batches is None:
        return findings(evidence.earlier.where(F.lit(False)), "V14", REWRITTEN, F.lit(None))
    whole = F.col("topic").isin(evidence.topics()) & (F.col("fault") == SOUND) & ~bit(CONTROL_BIT)

    def headers(batches: DataFrame, name: str) -> DataFrame:
        place = F.col("base_offset").alias("offset")
        return batches.where(whole).select("topic", "partition", place, F.struct(*HEADER).alias(name))

    both = headers(evidence.earlier_batches, "was").join(headers(evidence.batches, "held"), PLACE)
    wrong = both.where("was <> held").join(evidence.earlier.select(*PLACE, *IDENTITY), PLACE)
    acked = evidence.acked.select(*PLACE, *IDENTITY)
    wrong = wrong.join(acked, [*PLACE, *IDENTITY], "left_semi")
    detail = F.concat_ws(" ", F.lit("was"), F.to_json("was"), F.lit("is"), F.to_json("held"))
    return findings(wrong, "V14", REWRITTEN, detail)


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
