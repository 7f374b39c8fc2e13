"""V01 lost, V02 misplaced, V04 duplicate, V05 phantom: what was sent against what the log holds."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_validation.anomalies import findings
from spark_validation.digests import BUCKET
from spark_validation.evidence import CONTROL, IDENTITY, PLACE, Evidence, bucket

ACKED, FAILED, UNKNOWN = 0, 1, 2
DESCRIBED = ["producer", "seq", "partition_seq", "record_key", "intended_ns"]


def sent_and_found(evidence: Evidence, suspects: DataFrame) -> DataFrame:
    """Acknowledged sends (s) beside the log's records (l), by place, in suspect buckets."""
    near = F.broadcast(suspects)
    sends = (
        evidence.sends.where("status = 0 and offset >= 0").withColumn("bucket", bucket()).join(near, BUCKET)
    )
    log = evidence.log.where(F.col("state") != CONTROL).withColumn("bucket", bucket()).join(near, BUCKET)
    sends = sends.select(*PLACE, F.struct(*DESCRIBED, "acked_ns").alias("s"))
    log = log.select(*PLACE, F.struct(*DESCRIBED, "intact", "state").alias("l"))
    return sends.join(log, PLACE, "full")


def lost(evidence: Evidence, placed: DataFrame) -> DataFrame:
    """V01: acknowledged, not below the log's start, and nothing is at its offset."""
    kept = placed.where(F.col("topic").isin(evidence.topics()))
    gone = kept.where("s is not null and l is null").join(evidence.ends, ["topic", "partition"], "left")
    gone = gone.where("offset >= coalesce(start_offset, 0)").select(
        *PLACE, "s.producer", "s.seq", "high_watermark", "s.acked_ns"
    )
    behind = F.col("offset") >= F.coalesce("high_watermark", F.col("offset") + 1)
    kind = F.when(behind, "beyond the log's end").otherwise("nothing at its offset")
    return findings(gone, "V01", kind, F.concat(F.lit("acknowledged at ns "), "acked_ns"))


def misplaced(placed: DataFrame) -> DataFrame:
    """V02: at an acknowledged offset another record, another key or an altered value."""
    both = placed.where("s is not null and l is not null")
    named = [name for name in DESCRIBED if name != "record_key"]
    same_identity = F.lit(True)
    for name in named:
        same_identity &= F.col(f"s.{name}") == F.col(f"l.{name}")
    kind = (
        F.when(~F.col("l.intact"), "altered value")
        .when(~same_identity, "another record")
        .otherwise("another key")
    )
    wrong = both.where(~F.col("l.intact") | ~same_identity | (F.col("s.record_key") != F.col("l.record_key")))
    detail = F.concat_ws(
        " ", F.lit("there is producer"), "l.producer", F.lit("seq"), "l.seq", F.lit("key"), "l.record_key"
    )
    named_rows = wrong.select(*PLACE, "s.producer", "s.seq", "l", kind.alias("kind"))
    return findings(named_rows, "V02", F.col("kind"), detail)


def strangers(evidence: Evidence, placed: DataFrame) -> DataFrame:
    """Records of the log without an acknowledged send at their place: PLACE, IDENTITY, intact."""
    found = placed.where("s is null and l is not null").select(*PLACE, "l.producer", "l.seq", "l.intact")
    if evidence.silent_producers:
        found = found.where(~F.col("producer").isin(evidence.silent_producers) | ~F.col("intact"))
    return found


def phantoms(evidence: Evidence, strange: DataFrame) -> DataFrame:
    """V05, and V02 of records that nothing was acknowledged for.

    A record that was acknowledged at another place is no phantom: either it lies there too and is V04's, or that place
    is convicted already.
    """
    known = F.broadcast(strange.select(*IDENTITY).distinct())
    sends = evidence.sends.join(known, IDENTITY).groupBy(*IDENTITY).agg(F.min("status").alias("status"))
    intents = F.broadcast(evidence.intents.withColumnRenamed("producer", "intender"))
    within = F.expr("producer = intender and seq between first_seq and last_seq")
    intended = strange.select(*IDENTITY).distinct().join(intents, within, "left_semi")
    intended = intended.withColumn("intended", F.lit(True))
    rows = strange.join(sends, IDENTITY, "left").join(intended, IDENTITY, "left")
    kind = (
        F.when(F.col("producer") < 0, "not a record of this run")
        .when(~F.col("intact"), "altered value")
        .when(F.col("status") == FAILED, "its send surely failed")
        .when(F.col("status").isNull() & F.col("intended").isNull(), "nobody sent it")
    )
    named = rows.withColumn("kind", kind).where("kind is not null")
    altered = F.col("kind") == "altered value"
    return findings(named.where(altered), "V02", F.col("kind"), F.lit(None)).unionByName(
        findings(named.where(~altered), "V05", F.col("kind"), F.lit(None))
    )


def repeated(evidence: Evidence, identities: DataFrame) -> DataFrame:
    """Places of records that the log holds already at a lower place (`first`), of the identities named."""
    data = evidence.log.where((F.col("state") != CONTROL) & (F.col("producer") >= 0))
    places = data.join(F.broadcast(identities.select(*IDENTITY).distinct()), IDENTITY, "left_semi")
    grouped = places.groupBy(*IDENTITY).agg(F.sort_array(F.collect_list(F.struct(*PLACE))).alias("places"))
    grouped = grouped.where(F.size("places") > 1).withColumn("first", F.element_at("places", 1))
    again = grouped.select(*IDENTITY, "first", F.explode(F.slice("places", 2, 1 << 20)).alias("place"))
    return again.select(*IDENTITY, "first", "place.*")


def duplicates(evidence: Evidence, again: DataFrame) -> DataFrame:
    """V04: each place after the first is a finding. Counted only without idempotence."""
    named = again.join(evidence.producers, "producer", "left")
    detail = F.concat(F.lit("first at "), F.to_json("first"))
    return findings(named, "V04", "at two offsets", detail, F.coalesce("idempotent", F.lit(True)))
