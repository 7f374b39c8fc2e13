"""V11 and V07 of markers: each transaction is ended once in a partition, by a marker of its own."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_validation.anomalies import findings, kinds
from spark_validation.checks.batches import CONTROL_BIT, bit, starts, transactional
from spark_validation.checks.transactions import TRANSACTIONAL_FLAG, binned, with_transaction
from spark_validation.evidence import CONTROL, Evidence

COMMIT = 1
RISES = "producer epoch rises within a transaction"
AHEAD = "marker's producer epoch is not its transaction's"
STRETCH = ["topic", "partition", "producer", "marker"]
TRANSACTION = ["topic", "partition", "producer", "transaction"]


def stretches(evidence: Evidence, compacted: bool = False) -> DataFrame:
    """STRETCH, seq, until (first and last number), offset (the first), state of a producer's
    records that one marker ended, or none has yet (-1). compacted: also where compaction may have
    removed the first ones."""
    data = (F.col("state") != CONTROL) & (F.col("flags").bitwiseAND(TRANSACTIONAL_FLAG) != 0)
    whole = F.lit(compacted) | F.col("topic").isin(evidence.topics())
    rows = evidence.log.where(data & whole & (F.col("producer") >= 0)).groupBy(*STRETCH)
    return rows.agg(
        F.min("seq").alias("seq"),
        F.max("seq").alias("until"),
        F.min("offset").alias("offset"),
        F.min("state").alias("state"),
    )


def divided(evidence: Evidence) -> DataFrame:
    """V11: a transaction's records lie on both sides of a marker, or one marker ended two
    transactions.

    Records of a producer that one marker ended are a stretch; its numbers lie within one
    transaction. The finding is a stretch's first record, of the later stretch, or of the one that
    reaches too far. A marker is of one producer: the records of the life before, which was killed,
    are ended by a marker of their own. A cleaner keeps the marker of a transaction as long as it
    keeps any of its records.
    """
    found = stretches(evidence, compacted=True)
    owned = with_transaction(found, binned(evidence))
    order = Window.partitionBy(*TRANSACTION).orderBy("offset")
    linked = owned.withColumn("before", F.lag("marker").over(order))
    wrong = kinds(
        linked,
        {
            "its transaction lies on both sides of a marker": F.col("before").isNotNull(),
            "one marker ended two transactions": (F.col("until") > F.col("last_seq"))
            & (F.col("marker") >= 0),
        },
    )
    detail = F.concat_ws(
        " ", F.lit("transaction"), "transaction", F.lit("marker at"), "marker", F.lit("to seq"), "until"
    )
    of_one = Window.partitionBy("topic", "partition", "marker").orderBy("offset")
    after = found.where("marker >= 0").withColumn("later", F.lead("producer").over(of_one))
    mixed = F.concat_ws(" ", F.lit("marker at"), "marker", F.lit("also of producer"), "later")
    return findings(wrong, "V11", F.col("kind"), detail).unionByName(
        findings(after.where("later is not null"), "V11", "one marker ended two producers' records", mixed)
    )


def idle(evidence: Evidence, batches: DataFrame) -> DataFrame:
    """V07: a marker that has no record of its producer to end, or ends those of another epoch: its
    own is theirs, or the next one, where the end of the transaction bumps it. Also records of a
    later epoch than those before them: no epoch is given out before a marker ended what was open.

    A client may register a partition and abort before it sends anything there, and a coordinator
    repeats a marker whose answer was lost: a commit is proof, but not after another commit in a run
    with faults.
    """
    within = F.col("topic").isin(transactional(evidence)) & F.col("topic").isin(evidence.topics())
    own = batches.where(within & (F.col("producer_id") >= 0)).withColumn("offset", F.col("base_offset"))
    order = Window.partitionBy("topic", "partition", "producer_id").orderBy("offset", "position")
    linked = own.withColumn("before", F.lag(bit(CONTROL_BIT)).over(order))
    linked = linked.withColumn("type_before", F.lag("control_type").over(order))
    linked = linked.withColumn("epoch_before", F.lag("producer_epoch").over(order))
    linked = linked.join(starts(evidence), ["topic", "partition"], "left")
    first = F.col("before").isNull() & (F.coalesce("log_start", F.lit(0)) == 0)
    ends_nothing = linked.where(bit(CONTROL_BIT) & (first | F.col("before")))
    detail = F.concat_ws(" ", F.lit("producer id"), "producer_id", F.lit("epoch"), "producer_epoch")
    repeat = F.col("before").isNotNull() & (F.col("type_before") == COMMIT)
    proven = (F.col("control_type") == COMMIT) & (F.lit(evidence.undisturbed) | ~repeat)
    ahead = bit(CONTROL_BIT) & ~F.col("before") & F.expr("producer_epoch > epoch_before + 1")
    rises = ~bit(CONTROL_BIT) & ~F.col("before") & F.expr("producer_epoch > epoch_before")
    wrong = findings(kinds(linked, {AHEAD: ahead, RISES: rises}), "V07", F.col("kind"), detail)
    return findings(ends_nothing, "V07", "marker ends no transaction", detail, proven).unionByName(wrong)
