"""V11 of deliveries above the last stable offset: read_committed ends at the first record of an
open transaction, also if that one is aborted later.

A transaction is open at least until its producer asks for its end, or until its timeout. One whose
end no producer was given is open until its marker is there, and the log shows when: after the last
record below the marker was sent. Without a marker it is open still. What lies above its first
record was shown too soon if it was seen before. No reader misses the record of an aborted
transaction, so no other check finds this.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_validation.anomalies import findings
from spark_validation.checks.batches import TRANSACTIONAL_MODES
from spark_validation.checks.markers import stretches
from spark_validation.checks.real_time import OVERTAKEN, operation, out_of_order
from spark_validation.checks.transactions import ABORTED, COMMITTED, PATIENCE_MS, binned, with_transaction
from spark_validation.digests import BUCKET
from spark_validation.evidence import (
    BUCKET_BITS,
    FARTHEST,
    IDENTITY,
    PARTITION,
    PLACE,
    VISIBLE,
    Evidence,
    bucket,
)

ABOVE = "above a transaction that was open"
WITHIN = "before its transaction had ended"
TIMEOUT_NS = PATIENCE_MS // 2 * 1_000_000
FOREVER_NS = 1 << 62
FIRST = ["topic", "partition", "opener", "transaction"]
OPENING = [*PLACE, *IDENTITY, "transaction", "first_seq", "last_seq", "held_ns"]


def above_open(evidence: Evidence) -> DataFrame:
    """V11: records that read_committed, or a share group with that level, was given above the first
    record of a transaction that was open at that time. Of a transaction whose end was reported its
    own records are `transactions.premature_reads`'s.

    A broker whose clock was set may end a transaction early: then the findings are counted.
    """
    held, seen = openings(evidence).withColumn("own", F.lit(False)), shown(evidence)
    if (more := unreported(evidence)) is not None:
        held = held.unionByName(more)
    items = operation(held, place="offset * 2 + 1", sent="held_ns").unionByName(
        operation(seen, place="offset * 2 + 2", done="seen_ns")
    )
    early = out_of_order(items).where(F.col("kind") == OVERTAKEN).select(*PLACE).distinct()
    near = held.join(F.broadcast(early), PLACE).drop("seq")
    near = near.withColumnsRenamed({"offset": "first", "producer": "opener"})
    above = seen.join(F.broadcast(near), PARTITION).where("offset >= first and seen_ns < held_ns")
    above = above.withColumn("inside", F.expr("producer = opener and seq between first_seq and last_seq"))
    above = above.where("if(inside, own, offset > first)")
    kind = F.when(F.col("inside"), WITHIN).otherwise(ABOVE)
    above = above.groupBy("consumer", *PLACE, *IDENTITY, kind.alias("kind")).agg(
        F.min_by(F.struct("first", "opener", "transaction", "held_ns"), "first").alias("open"),
        F.min("seen_ns"),
    )
    detail = F.concat_ws(" ", F.lit("open"), F.to_json("open"))
    return findings(above, "V11", F.col("kind"), detail, not evidence.clock_moved)


def openings(evidence: Evidence) -> DataFrame:
    """OPENING of the first record of each ended transaction in each partition. held_ns: until then
    it was open for certain."""
    owned = with_transaction(stretches(evidence), binned(evidence))
    owned = owned.where(F.col("outcome").isin(COMMITTED, ABORTED))
    held_ns = F.least("ending_ns", F.col("begin_ns") + TIMEOUT_NS) - evidence.stepped_ns
    owned = owned.withColumn("held_ns", held_ns).withColumnRenamed("producer", "opener")
    first = F.min_by(F.struct("offset", "seq"), "offset").alias("at")
    made = owned.groupBy(*FIRST, "first_seq", "last_seq").agg(first, F.max("held_ns").alias("held_ns"))
    made = made.select(*FIRST, "first_seq", "last_seq", "held_ns", "at.*")
    return made.withColumnRenamed("opener", "producer").select(*OPENING)


def unreported(evidence: Evidence) -> DataFrame | None:
    """OPENING of transactions whose end no producer was given, and own: whether their own records
    were too soon, too. None where there is no such producer."""
    rows = evidence.rows("transactions")
    unsure = rows.where(~F.col("outcome").isin(COMMITTED, ABORTED)).select("producer").distinct().collect()
    killed = [p.producer for p in evidence.producer_clients if p.transactional_id and p.ended_ns is None]
    who = {*killed, *(row["producer"] for row in unsure)}
    if not who:
        return None
    own = stretches(evidence).where(F.col("producer").isin(sorted(who)))
    left = with_transaction(own, binned(evidence), "left")
    left = left.where(~F.coalesce(F.col("outcome").isin(COMMITTED, ABORTED), F.lit(False)))
    numbers = [F.col("seq").alias("first_seq"), F.col("until").alias("last_seq"), "marker"]
    shows = (F.col("state") == VISIBLE).alias("own")  # the others are the log's markers' to convict
    left = left.select(*PLACE, *IDENTITY, "transaction", *numbers, shows).distinct()
    still = left.where("marker < 0").withColumn("held_ns", F.lit(FOREVER_NS).cast("bigint"))
    columns = [*OPENING, "own"]
    return ended_below(evidence, left.where("marker >= 0")).select(columns).unionByName(still.select(columns))


def ended_below(evidence: Evidence, left: DataFrame) -> DataFrame:
    """Rows that have a marker with held_ns: when the last acknowledged record below it was sent."""
    last = F.least("marker", F.col("offset") + FARTHEST)
    spread = F.sequence(F.shiftright("offset", BUCKET_BITS), F.shiftright(last, BUCKET_BITS))
    near = left.withColumn("bucket", F.explode(spread))
    sent = evidence.acked.select("topic", "partition", bucket(), F.col("offset").alias("at"), "sent_ns")
    below = sent.join(F.broadcast(near), BUCKET).where("at >= offset and at < marker")
    held_ns = (F.max("sent_ns") - evidence.stepped_ns).alias("held_ns")
    return below.groupBy(*left.columns).agg(held_ns)


def shown(evidence: Evidence) -> DataFrame:
    """consumer, PLACE, IDENTITY, seen_ns of what read_committed was given of transactional
    topics."""
    committed = evidence.consumers.where("committed").select("consumer")
    columns = ["consumer", *PLACE, *IDENTITY, "seen_ns"]
    shared = evidence.rows("shares").withColumnRenamed("acquired_ns", "seen_ns").select(*columns)
    given = evidence.reads.select(*columns).unionByName(shared)
    return given.where(F.col("topic").isin(evidence.topics(*TRANSACTIONAL_MODES))).join(committed, "consumer")
