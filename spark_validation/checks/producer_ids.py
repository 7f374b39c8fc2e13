"""V07 of producer ids that two producers have."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from spark_validation.anomalies import findings
from spark_validation.checks.batches import CONTROL_BIT, SOUND, bit
from spark_validation.evidence import CONTROL, PLACE, Evidence

OWNED = ["producer_id", "producer_epoch"]
PARTITION = ["topic", "partition"]


def shared(evidence: Evidence, batches: DataFrame) -> DataFrame:
    """V07: the records of two producers have one producer id and epoch. The broker gives each id
    out once; lives of a transactional id share theirs, in different epochs.

    A partition takes an id's batches only in the order of their sequence numbers, so the first and
    the last batch of an id in each partition are compared: few enough to look up their records in
    the log. The finding is the first batch of each producer that began later.
    """
    data = numbered(batches)
    ends = data.groupBy("topic", "partition", *OWNED).agg(
        F.array_distinct(F.array(F.min("base_offset"), F.max("base_offset"))).alias("offsets")
    )
    ends = ends.withColumn("offset", F.explode("offsets")).drop("offsets")
    log = evidence.log.where((F.col("state") != CONTROL) & (F.col("producer") >= 0))
    log = log.select(*PLACE, "producer", "seq", "intended_ns")
    owners = log.join(F.broadcast(ends), PLACE)
    first = Window.partitionBy(*OWNED, "producer").orderBy("intended_ns", "offset")
    begun = owners.withColumn("number", F.row_number().over(first)).where("number = 1")
    order = Window.partitionBy(*OWNED).orderBy("intended_ns", "offset")
    later = begun.withColumn("before", F.lag("producer").over(order)).where("before is not null")
    detail = F.concat_ws(
        " ", F.lit("producer id"), "producer_id", F.lit("epoch"), "producer_epoch", F.lit("also of"), "before"
    )
    return findings(later, "V07", "two producers have one producer id", detail)


def numbered(batches: DataFrame) -> DataFrame:
    """Whole data batches with a producer id."""
    data = batches.where((F.col("fault") == SOUND) & (F.col("producer_id") >= 0) & ~bit(CONTROL_BIT))
    return data.where("record_count > 0")


def mixed_batches(evidence: Evidence, batches: DataFrame) -> DataFrame:
    """V07: a batch holds records of another producer than the other batches of its producer id and
    epoch in the partition, whose sequence numbers may follow each other nevertheless.

    Most of a run's batches need no look: in each partition the records of a producer and those of
    its ids are as many, and have the same sum of offsets. Only where they have not, the first
    record of each batch is looked up.
    """
    data = numbered(batches).where(F.col("topic").isin(evidence.topics()))
    log = evidence.log.where((F.col("state") != CONTROL) & (F.col("producer") >= 0))
    log = log.where(F.col("topic").isin(evidence.topics()))
    suspects = F.broadcast(unequal(log, data).persist(StorageLevel.DISK_ONLY))
    first = log.join(suspects, PARTITION, "left_semi").select(*PLACE, "producer")
    near = data.join(suspects, PARTITION, "left_semi").withColumn("offset", F.col("base_offset"))
    owned = near.join(first, PLACE)
    votes = owned.groupBy(*PARTITION, *OWNED, "producer").agg(
        F.sum("record_count").alias("votes"), F.min("offset").alias("begins")
    )
    order = Window.partitionBy(*PARTITION, *OWNED).orderBy(F.desc("votes"), "begins")
    owner = votes.withColumn("number", F.row_number().over(order)).where("number = 1")
    owner = owner.select(*PARTITION, *OWNED, F.col("producer").alias("owner"))
    wrong = owned.join(F.broadcast(owner), [*PARTITION, *OWNED]).where("producer <> owner")
    detail = F.concat_ws(
        " ", F.lit("producer id"), "producer_id", F.lit("epoch"), "producer_epoch", F.lit("of"), "owner"
    )
    return findings(wrong, "V07", "batch under the id of another producer", detail)


def unequal(log: DataFrame, data: DataFrame) -> DataFrame:
    """PARTITION of those where the records of some producer and the batches of its ids differ in
    number or in the sum of offsets. An id is its first batch's producer's."""
    held = log.groupBy(*PARTITION, "producer").agg(*totals(F.lit(1), F.col("offset")))
    sums = F.expr("record_count * (base_offset + last_offset) div 2")
    ids = data.groupBy(*PARTITION, *OWNED).agg(
        F.min("base_offset").alias("offset"), *totals(F.col("record_count"), sums)
    )
    begun = log.select(*PLACE, "producer").join(F.broadcast(ids), PLACE)
    given = begun.groupBy(*PARTITION, "producer").agg(*totals(F.col("records"), F.col("offsets")))
    given = given.withColumnsRenamed({"records": "given", "offsets": "at"})
    both = held.join(given, [*PARTITION, "producer"], "full")
    same = F.expr("records <=> given and offsets <=> at")
    return both.where(~same).select(*PARTITION).distinct()


def totals(records: Column, offsets: Column) -> tuple[Column, Column]:
    return F.sum(records).alias("records"), F.sum(offsets).alias("offsets")
