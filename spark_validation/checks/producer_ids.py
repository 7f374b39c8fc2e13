"""V07 of producer ids that two producers have."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_validation.anomalies import findings
from spark_validation.checks.batches import CONTROL_BIT, SOUND, bit
from spark_validation.evidence import CONTROL, PLACE, Evidence

OWNED = ["producer_id", "producer_epoch"]


def shared(evidence: Evidence, batches: DataFrame) -> DataFrame:
    """V07: the records of two producers have one producer id and epoch. The broker gives each id
    out once; lives of a transactional id share theirs, in different epochs.

    A partition takes an id's batches only in the order of their sequence numbers, so the first and
    the last batch of an id in each partition are compared: few enough to look up their records in
    the log. The finding is the first batch of each producer that began later.
    """
    data = batches.where((F.col("fault") == SOUND) & (F.col("producer_id") >= 0) & ~bit(CONTROL_BIT))
    data = data.where("record_count > 0")
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
