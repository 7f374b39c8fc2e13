"""V07 batch chain: headers of the segment files, in offset order."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_validation.anomalies import findings
from spark_validation.evidence import Evidence

WRONG_CHECKSUM = 6  # the header still says where the batch lies
SOUND = 1  # kbroker.kernels.batches.END
FAULTS = {
    2: "torn batch",
    3: "batch length wrong",
    4: "magic wrong",
    5: "old message format",
    6: "checksum wrong",
    8: "record count wrong",
}
CONTROL_BIT = 0x20
SEQUENCES = 1 << 31


def faults(batches: DataFrame) -> DataFrame:
    """V07: what makes a batch no batch."""
    names = F.create_map(*[F.lit(item) for pair in FAULTS.items() for item in pair])
    broken = batches.where(F.col("fault") != SOUND).withColumn("offset", F.col("base_offset"))
    kind = F.coalesce(names[F.col("fault")], F.lit("not readable"))
    return findings(
        broken, "V07", kind, F.concat_ws(" ", F.lit("segment"), "segment", F.lit("byte"), "position")
    )


def chains(evidence: Evidence, batches: DataFrame) -> DataFrame:
    """V07: base offsets rise, counts fit, idempotent producers' sequence numbers follow each other."""
    sound = batches.where(F.col("fault").isin(SOUND, WRONG_CHECKSUM))
    order = Window.partitionBy("topic", "partition").orderBy("segment", "position")
    linked = sound.withColumn("before", F.lag("last_offset").over(order)).withColumn(
        "offset", F.col("base_offset")
    )
    back = linked.where("base_offset <= before")
    found = findings(back, "V07", "offsets step back", F.concat(F.lit("after offset "), "before"))
    whole = sound.where(F.col("topic").isin(evidence.topics())).withColumn("offset", F.col("base_offset"))
    short = whole.where("record_count != last_offset - base_offset + 1")
    found = found.unionByName(
        findings(short, "V07", "count is not the offsets'", F.concat("record_count", F.lit(" records")))
    )
    return found.unionByName(sequences(whole))


def sequences(batches: DataFrame) -> DataFrame:
    """V07: base sequence = the one before + its count, or 0 with a new epoch."""
    data = batches.where(
        (F.col("producer_id") >= 0)
        & (F.col("base_sequence") >= 0)
        & (F.col("attributes").bitwiseAND(CONTROL_BIT) == 0)
    )
    order = Window.partitionBy("topic", "partition", "producer_id").orderBy("offset")
    linked = data.withColumns(
        {
            "epoch_before": F.lag("producer_epoch").over(order),
            "due": F.pmod(
                F.lag("base_sequence").over(order).cast("bigint") + F.lag("record_count").over(order),
                F.lit(SEQUENCES),
            ),
        }
    ).where("epoch_before is not null")
    old = linked.where("producer_epoch < epoch_before")
    broken = linked.where(
        "(producer_epoch = epoch_before and base_sequence != due)"
        " or (producer_epoch > epoch_before and base_sequence != 0)"
    )
    detail = F.concat_ws(
        " ", F.lit("producer id"), "producer_id", F.lit("sequence"), "base_sequence", F.lit("due"), "due"
    )
    return findings(old, "V07", "producer epoch steps back", detail).unionByName(
        findings(broken, "V07", "sequence numbers do not follow", detail)
    )
