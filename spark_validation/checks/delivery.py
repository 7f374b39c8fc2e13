"""V03 diverged, V08 consumer order, V10 unread, V11 aborted read: deliveries to consumers against
the log."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_validation.anomalies import findings, kinds
from spark_validation.digests import BUCKET
from spark_validation.evidence import ABORTED, CONTROL, FOREIGN, OPEN, PLACE, VISIBLE, Evidence, bucket
from spark_validation.order import steps_back

READER = ["consumer", "assignment"]
CONTENT = ["producer", "seq", "partition_seq", "record_key", "intended_ns", "timestamp_ms", "flags", "intact"]
CONTENT += ["header_sum"]
NUMBERS = ("producer", "seq", "partition_seq")
SENT = ["producer", "seq", "partition_seq", "record_key", "intended_ns", "timestamp_ms", "header_sum"]
UNLIKE_SENT = "another record than was acknowledged there"


def reads_beside_log(evidence: Evidence, suspects: DataFrame) -> DataFrame:
    """Reads (r) beside log records (l) by reader and place, in suspect buckets of each reader.

    l is there for whatever the reader's isolation may show, r for whatever it was given.
    """
    near = F.broadcast(suspects)
    log = evidence.log.where(F.col("state") != CONTROL).withColumn("bucket", bucket())
    log = log.join(near.drop("span_first", "span_last", "role"), BUCKET)
    log = log.select(*READER, *PLACE, "committed", F.struct(*CONTENT, "state").alias("l"))
    reads = evidence.reads.withColumn("bucket", bucket())
    reads = reads.join(near.select(*READER, *BUCKET), [*READER, *BUCKET])
    reads = reads.select(*READER, *PLACE, F.struct(*CONTENT, "seen_ns").alias("r"))
    both = reads.join(log.drop("committed"), [*READER, *PLACE], "full")
    spans = near.select(
        *READER, "topic", "partition", "span_first", "span_last", "role", "committed"
    ).distinct()
    return both.join(F.broadcast(spans), [*READER, "topic", "partition"])


def diverged(evidence: Evidence, beside: DataFrame) -> DataFrame:
    """V03: the log holds something else, or nothing, where the consumer was given a record."""
    given = beside.where("r is not null").join(evidence.ends, ["topic", "partition"], "left")
    differs = unlike()
    gone = F.col("l").isNull() & ~removable(evidence)
    kind = F.when(F.col("l").isNull(), "not in the log").otherwise("another record or value")
    wrong = given.where(gone | (F.col("l").isNotNull() & differs))
    detail = F.concat_ws(" ", F.lit("given"), F.to_json("r"), F.lit("held"), F.to_json("l"))
    return findings(wrong.select("consumer", *PLACE, "r.producer", "r.seq", "r", "l"), "V03", kind, detail)


def unlike() -> Column:
    """Whether a delivery (r) differs from the log's record (l). Of a record of another run the
    log's reader has no numbers."""
    differs, foreign = F.lit(False), F.col("l.producer") == FOREIGN
    for name in CONTENT:
        other = ~F.col(f"r.{name}").eqNullSafe(F.col(f"l.{name}"))
        differs |= other & ~foreign if name in NUMBERS else other
    return differs


def removable(evidence: Evidence) -> Column:
    """Whether compaction, or what moves the log's start, may have taken a record. Of rows with
    their partition's start_offset."""
    below = F.col("offset") < F.coalesce("start_offset", F.lit(0))
    return below | F.col("topic").isin(evidence.topics(compacted=True))


def reads_of_removed(evidence: Evidence, beside: DataFrame) -> DataFrame:
    """Deliveries of records that have been removed since: consumer, PLACE, r."""
    given = beside.where("r is not null and l is null").join(evidence.ends, ["topic", "partition"], "left")
    return given.where(removable(evidence)).select("consumer", *PLACE, "r")


def reads_unlike_sends(evidence: Evidence, given: DataFrame) -> DataFrame:
    """V03 of records that have been removed since: another one than was acknowledged at that place,
    or an altered value. given: of `reads_of_removed`."""
    acked = evidence.acked.select(*PLACE, F.struct(*SENT).alias("s"))
    beside = given.select("consumer", *PLACE, "r").join(acked, PLACE, "left")
    differs = ~F.col("r.intact")
    for name in SENT:
        unlike = F.col(f"r.{name}") != F.col(f"s.{name}")
        if name == "timestamp_ms":
            unlike &= ~F.col("topic").isin(evidence.append_time_topics) & (F.col("s.timestamp_ms") >= 0)
        differs |= F.coalesce(unlike, F.lit(False))
    wrong = beside.where(differs).select("consumer", *PLACE, "r.producer", "r.seq", "r", "s")
    detail = F.concat_ws(" ", F.lit("given"), F.to_json("r"), F.lit("acknowledged"), F.to_json("s"))
    return findings(wrong, "V03", UNLIKE_SENT, detail)


def impossible_reads(evidence: Evidence) -> DataFrame:
    """V03: a late reader was given what lies below the log's start; a record was seen before it was
    to be sent."""
    drains = [c.consumer for c in evidence.consumer_clients if c.role == "drain"]
    started = evidence.ends.where("start_offset > 0").select("topic", "partition", "start_offset")
    reads = evidence.reads.join(started, ["topic", "partition"], "left")
    below = F.col("consumer").isin(drains) & F.expr("coalesce(offset < start_offset, false)")
    unsent = F.col("intact") & F.expr(f"intended_ns > 0 and seen_ns + {evidence.stepped_ns} < intended_ns")
    found = kinds(reads.where(below | unsent), {"below the log's start": below, "before it was sent": unsent})
    detail = F.concat_ws(" ", F.lit("log start"), "start_offset", F.lit("seen at ns"), "seen_ns")
    return findings(found, "V03", F.col("kind"), detail)


def missing_reads(evidence: Evidence, beside: DataFrame) -> DataFrame:
    """V08 and V10: visible records of the log that a reader was not given. Below the log's start,
    where a segment may still hold records, no reader gets any."""
    may_see = ~F.col("committed") | (F.col("l.state") == VISIBLE)
    inside = (F.col("offset") >= F.col("span_first")) & (F.col("offset") <= F.col("span_last"))
    held = beside.join(evidence.ends, ["topic", "partition"], "left")
    inside &= F.col("offset") >= F.coalesce("start_offset", F.lit(0))
    missing = held.where(F.col("r").isNull() & may_see & inside)
    proven = ~F.col("consumer").isin(evidence.lossy_consumers)
    drained = F.col("role") == "drain"
    named = missing.select("consumer", *PLACE, "l.producer", "l.seq", "assignment", drained.alias("drained"))
    detail = F.concat(F.lit("assignment "), "assignment")
    skipped = findings(named.where(~F.col("drained")), "V08", "skipped", detail, proven)
    return skipped.unionByName(
        findings(named.where("drained"), "V10", "never delivered to a drain", F.lit(None), proven)
    )


def aborted_by_log(beside: DataFrame) -> DataFrame:
    """V11: read_committed was given what the log's markers call aborted, or what has no marker
    yet."""
    shown = beside.where(F.col("r").isNotNull() & F.col("committed") & F.col("l.state").isin(ABORTED, OPEN))
    kind = F.when(F.col("l.state") == ABORTED, "aborted in the log").otherwise("still open in the log")
    return findings(shown.select("consumer", *PLACE, "l.producer", "l.seq", "l"), "V11", kind, F.lit(None))


def stepping_back(evidence: Evidence) -> DataFrame:
    """V08: inside an assignment a partition's next delivered offset is not above the one before."""
    columns = [*READER, "topic", "partition", "position", "offset", "producer", "seq"]
    reads = evidence.reads.select(*columns)
    steps = steps_back(reads, [*READER, "topic", "partition"], "position", "offset")
    kind = F.when(F.col("offset") == F.col("previous_value"), "delivered again").otherwise("went back")
    detail = F.concat_ws(" ", F.lit("after offset"), "previous_value", F.lit("in assignment"), "assignment")
    return findings(steps, "V08", kind, detail)
