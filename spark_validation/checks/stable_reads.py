"""V11 of deliveries above the last stable offset: read_committed ends at the first record of an
open transaction, also if that one is aborted later.

A transaction is open at least until its producer asks for its end, or until its timeout. What lies
above its first record was shown too soon if it was seen before. No reader misses the record of an
aborted transaction, so no other check finds this.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_validation.anomalies import findings
from spark_validation.checks.batches import TRANSACTIONAL_MODES
from spark_validation.checks.markers import stretches
from spark_validation.checks.real_time import OVERTAKEN, operation, out_of_order
from spark_validation.checks.transactions import ABORTED, COMMITTED, PATIENCE_MS, binned, with_transaction
from spark_validation.evidence import IDENTITY, PLACE, Evidence

ABOVE = "above a transaction that was open"
TIMEOUT_NS = PATIENCE_MS // 2 * 1_000_000
FIRST = ["topic", "partition", "opener", "transaction"]


def above_open(evidence: Evidence) -> DataFrame:
    """V11: records that read_committed, or a share group with that level, was given above the first
    record of a transaction that was open at that time. A transaction's own records are
    `transactions.premature_reads`'s.

    A broker whose clock was set may end a transaction early: then the findings are counted.
    """
    held, seen = openings(evidence), shown(evidence)
    items = operation(held, place="offset * 2 + 1", sent="held_ns").unionByName(
        operation(seen, place="offset * 2 + 2", done="seen_ns")
    )
    early = out_of_order(items).where(F.col("kind") == OVERTAKEN).select(*PLACE).distinct()
    near = held.join(F.broadcast(early), PLACE).withColumnsRenamed({"offset": "first", "producer": "opener"})
    near = near.select(
        "topic", "partition", "opener", "transaction", "first", "held_ns", "first_seq", "last_seq"
    )
    above = seen.join(F.broadcast(near), ["topic", "partition"]).where("offset > first and seen_ns < held_ns")
    above = above.where("producer <> opener or not seq between first_seq and last_seq")
    above = above.groupBy("consumer", *PLACE, *IDENTITY).agg(
        F.min_by(F.struct("first", "opener", "transaction", "held_ns"), "first").alias("open"),
        F.min("seen_ns"),
    )
    detail = F.concat_ws(" ", F.lit("open"), F.to_json("open"))
    return findings(above, "V11", ABOVE, detail, not evidence.clock_moved)


def openings(evidence: Evidence) -> DataFrame:
    """PLACE, IDENTITY of the first record of each ended transaction in each partition; transaction,
    first_seq, last_seq; held_ns: until then it was open for certain."""
    owned = with_transaction(stretches(evidence), binned(evidence))
    owned = owned.where(F.col("outcome").isin(COMMITTED, ABORTED))
    held_ns = F.least("ending_ns", F.col("begin_ns") + TIMEOUT_NS) - evidence.stepped_ns
    owned = owned.withColumn("held_ns", held_ns).withColumnRenamed("producer", "opener")
    first = F.min_by(F.struct("offset", "seq"), "offset").alias("at")
    made = owned.groupBy(*FIRST, "first_seq", "last_seq").agg(first, F.max("held_ns").alias("held_ns"))
    return made.select(*FIRST, "first_seq", "last_seq", "held_ns", "at.*").withColumnRenamed(
        "opener", "producer"
    )


def shown(evidence: Evidence) -> DataFrame:
    """consumer, PLACE, IDENTITY, seen_ns of what read_committed was given of transactional
    topics."""
    committed = evidence.consumers.where("committed").select("consumer")
    columns = ["consumer", *PLACE, *IDENTITY, "seen_ns"]
    shared = evidence.rows("shares").withColumnRenamed("acquired_ns", "seen_ns").select(*columns)
    given = evidence.reads.select(*columns).unionByName(shared)
    return given.where(F.col("topic").isin(evidence.topics(*TRANSACTIONAL_MODES))).join(committed, "consumer")
