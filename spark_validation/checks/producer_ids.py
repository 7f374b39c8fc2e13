"""V07 of producer ids that two producers have, and of transactional ids that have two."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from spark_validation.anomalies import findings
from spark_validation.checks.batches import CONTROL_BIT, SOUND, bit
from spark_validation.evidence import CONTROL, PLACE, Evidence

OWNED = ["producer_id", "producer_epoch"]
PARTITION = ["topic", "partition"]
FOREIGN = "batch under the id of another producer"
MIXED = "record in a batch of another producer"
RENUMBERED = "transactional id has another producer id"
LAST_EPOCHS = 32_000  # of 32,767; each transaction may take one, or two


def shared(evidence: Evidence, batches: DataFrame) -> DataFrame:
    """V07: the records of two producers have one producer id and epoch, or, without transactions,
    one producer id; or a transactional id has two. The broker gives each id out once; lives of a
    transactional id share theirs, in different epochs.

    A partition takes an id's batches only in the order of their sequence numbers, so the first and
    the last batch of an id in each partition are compared: few enough to look up their records in
    the log. The finding is the first batch of each producer, or id, that began later.
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
    names = [(p.producer, p.transactional_id) for p in evidence.producer_clients]
    begun = begun.join(F.broadcast(evidence.table(names, "producer int, name string")), "producer", "left")
    order = Window.partitionBy(*OWNED).orderBy("intended_ns", "offset")
    of_id = Window.partitionBy("producer_id", F.col("name").isNull()).orderBy("intended_ns", "offset")
    unnamed = F.when(F.col("name").isNull() & (F.lag("producer").over(of_id) != F.col("producer")), True)
    begun = begun.withColumns(
        {
            "before": F.lag("producer").over(order),
            "another": unnamed,
            "earlier": F.lag("producer").over(of_id),
        }
    )
    later = begun.where("before is not null or another")
    later = later.withColumn("before", F.coalesce("before", "earlier"))
    detail = F.concat_ws(
        " ", F.lit("producer id"), "producer_id", F.lit("epoch"), "producer_epoch", F.lit("also of"), "before"
    )
    found = findings(later, "V07", "two producers have one producer id", detail)
    return found.unionByName(renumbered(begun)) if any(name for _, name in names) else found


def renumbered(begun: DataFrame) -> DataFrame:
    """V07: a transactional id has another producer id than before: what its earlier lives write is
    not fenced. Only a producer whose epochs are used up is given another one. begun: the first
    batch of each producer under an id and epoch, name: its transactional id."""
    first = Window.partitionBy("name", "producer_id").orderBy("intended_ns", "offset")
    whole = Window.partitionBy("name", "producer_id")
    ids = begun.where("name is not null").withColumns(
        {"number": F.row_number().over(first), "highest": F.max("producer_epoch").over(whole)}
    )
    order = Window.partitionBy("name").orderBy("intended_ns", "offset")
    known = {"before": F.lag("producer_id").over(order), "reached": F.lag("highest").over(order)}
    later = ids.where("number = 1").withColumns(known).where(F.col("reached") < LAST_EPOCHS)
    detail = F.concat_ws(
        " ", F.lit("producer id"), "producer_id", F.lit("was"), "before", F.lit("epoch"), "reached"
    )
    return findings(later, "V07", RENUMBERED, detail)


def numbered(batches: DataFrame) -> DataFrame:
    """Whole data batches with a producer id."""
    data = batches.where((F.col("fault") == SOUND) & (F.col("producer_id") >= 0) & ~bit(CONTROL_BIT))
    return data.where("record_count > 0")


def mixed_batches(evidence: Evidence, batches: DataFrame) -> DataFrame:
    """V07: a batch, or a record of one, is of another producer than most records under its producer
    id and epoch in the partition. The sequence numbers may follow each other nevertheless.

    Most of a run's batches need no look: in each partition the records of a producer and those of
    its ids are as many, and have the same sum of offsets. Only where they have not, each record is
    looked at.
    """
    data = numbered(batches).where(F.col("topic").isin(evidence.topics()))
    log = evidence.log.where((F.col("state") != CONTROL) & (F.col("producer") >= 0))
    log = log.where(F.col("topic").isin(evidence.topics())).select(*PLACE, "producer", "seq")
    suspects = F.broadcast(unequal(log, data).persist(StorageLevel.DISK_ONLY))
    owned = within_batches(
        log.join(suspects, PARTITION, "left_semi"), data.join(suspects, PARTITION, "left_semi")
    )
    votes = owned.groupBy(*PARTITION, *OWNED, "producer").agg(
        F.count("*").alias("votes"), F.min("offset").alias("begins")
    )
    order = Window.partitionBy(*PARTITION, *OWNED).orderBy(F.desc("votes"), "begins")
    owner = votes.withColumn("number", F.row_number().over(order)).where("number = 1")
    owner = owner.select(*PARTITION, *OWNED, F.col("producer").alias("owner"))
    wrong = owned.join(F.broadcast(owner), [*PARTITION, *OWNED]).where("producer <> owner")
    of_batch = Window.partitionBy(*PARTITION, "base_offset")
    wrong = wrong.withColumn("whole", F.count("*").over(of_batch) == F.col("record_count"))
    wrong = wrong.where("not whole or offset = base_offset")
    detail = F.concat_ws(
        " ", F.lit("producer id"), "producer_id", F.lit("epoch"), "producer_epoch", F.lit("of"), "owner"
    )
    return findings(wrong, "V07", F.when(F.col("whole"), FOREIGN).otherwise(MIXED), detail)


def within_batches(log: DataFrame, data: DataFrame) -> DataFrame:
    """PLACE, producer, seq of records, and base_offset, record_count, OWNED of their batch."""
    batch = F.struct("base_offset", "last_offset", "record_count", *OWNED).alias("batch")
    starts = data.select(*PARTITION, F.col("base_offset").alias("offset"), batch)
    order = Window.partitionBy(*PARTITION).orderBy("offset", F.col("batch").isNull())
    before = order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    both = log.unionByName(starts, allowMissingColumns=True)
    both = both.withColumn("batch", F.last("batch", ignorenulls=True).over(before))
    inside = both.where("producer is not null and offset <= batch.last_offset")
    return inside.select(*PLACE, "producer", "seq", "batch.*")


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
