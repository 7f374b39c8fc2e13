"""V06 order per producer and key: in offset order partition_seq never steps back."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_validation.anomalies import findings
from spark_validation.evidence import CONTROL, PLACE, Evidence
from spark_validation.order import steps_back

STREAM = ["topic", "partition", "producer"]


def disordered(evidence: Evidence) -> DataFrame:
    """Log records whose partition_seq is not above that of their producer's record before in the
    partition."""
    columns = [*STREAM, "offset", "partition_seq", "seq", "record_key"]
    data = evidence.log.where((F.col("state") != CONTROL) & (F.col("producer") >= 0)).select(*columns)
    return steps_back(data, STREAM, "offset", "partition_seq")


def out_of_order(evidence: Evidence, steps: DataFrame, again: DataFrame) -> DataFrame:
    """V06 per producer; a repeated record is V04's. Counted only without idempotence, unless both
    records are of one batch: a retry may exchange batches, but a client fills each in order."""
    back = steps.where("partition_seq < previous_value").join(again.select(*PLACE), PLACE, "left_anti")
    back = back.join(evidence.producers, "producer", "left")
    convicts = F.coalesce("idempotent", F.lit(True))
    if evidence.batches is not None:
        back = back.join(F.broadcast(in_one_batch(evidence.batches, back)), PLACE, "left")
        convicts |= F.col("together").isNotNull()
    detail = F.concat_ws(
        " ",
        F.lit("partition_seq"),
        "partition_seq",
        F.lit("after"),
        "previous_value",
        F.lit("at"),
        "previous_at",
    )
    return findings(back, "V06", "producer steps back", detail, convicts)


def in_one_batch(batches: DataFrame, back: DataFrame) -> DataFrame:
    """PLACE, together: steps back of producers without idempotence, within a batch."""
    steps = F.broadcast(back.where("not idempotent").select(*PLACE, "previous_at"))
    spans = batches.select("topic", "partition", "base_offset", "last_offset")
    within = spans.join(steps, ["topic", "partition"]).where(
        "previous_at >= base_offset and offset <= last_offset"
    )
    return within.select(*PLACE, F.lit(True).alias("together")).distinct()


def keys_out_of_order(evidence: Evidence, steps: DataFrame, again: DataFrame) -> DataFrame:
    """V06 per key, among the producers that step back: the record's key had a later one before
    it."""
    streams = F.broadcast(steps.where("partition_seq < previous_value").select(*STREAM).distinct())
    data = evidence.log.where(F.col("state") != CONTROL).join(streams, STREAM, "left_semi")
    data = data.join(again.select(*PLACE), PLACE, "left_anti")
    window = Window.partitionBy(*STREAM, "record_key").orderBy("offset")
    rows = data.withColumns(
        {"previous_value": F.lag("partition_seq").over(window), "previous_at": F.lag("offset").over(window)}
    ).where("partition_seq < previous_value")
    rows = rows.join(evidence.producers, "producer", "left")
    detail = F.concat_ws(" ", F.lit("key"), "record_key", F.lit("was further at offset"), "previous_at")
    return findings(rows, "V06", "key steps back", detail, F.coalesce("idempotent", F.lit(True)))
