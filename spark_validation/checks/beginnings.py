"""V08 of where a delivery began: at the committed offset that the broker named, not above it."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from spark_validation.anomalies import findings
from spark_validation.checks.delivery import READER
from spark_validation.checks.group_coverage import spans
from spark_validation.checks.groups import GROUP
from spark_validation.digests import BUCKET
from spark_validation.evidence import BUCKET_BITS, CONTROL, FARTHEST, PLACE, VISIBLE, Evidence, bucket

SKIPPED = "skipped at the start of its assignment"


def skipped(evidence: Evidence) -> DataFrame:
    """V08: visible records between an assignment's start and the first record that was given in it.

    Another member of the group was given them before, and the commit says that they were not done.
    An assignment may have begun above its start where another member's commit came late, or where
    the log's start was above it.
    """
    near = begun_above(evidence).persist(StorageLevel.DISK_ONLY)  # read twice
    if near.isEmpty():
        return findings(near, "V08", SKIPPED, F.lit(None))
    last = F.least(F.col("first") - 1, F.col("start_offset") + FARTHEST)
    spread = F.sequence(F.shiftright("start_offset", BUCKET_BITS), F.shiftright(last, BUCKET_BITS))
    near = near.withColumn("bucket", F.explode(spread))
    log = evidence.log.where(F.col("state") != CONTROL).withColumn("bucket", bucket())
    log = log.select(*PLACE, "producer", "seq", "state", "bucket").join(F.broadcast(near), BUCKET)
    inside = F.expr("offset >= start_offset and offset < first")
    shown = ~F.col("committed") | (F.col("state") == VISIBLE)
    proven = ~F.col("consumer").isin(evidence.lossy_consumers)
    detail = F.concat_ws(" ", F.lit("began at"), "start_offset", F.lit("given first"), "first")
    found = unless_never_given(evidence, log.where(inside & shown))
    return findings(found, "V08", SKIPPED, detail, proven)


def unless_never_given(evidence: Evidence, rows: DataFrame) -> DataFrame:
    """The rows, without records that the group committed and that no member was given:
    group_coverage.undelivered reports those."""
    members = evidence.consumers.where("`group` is not null").select("consumer", "group")
    given = evidence.reads.join(members, "consumer").select(*GROUP, "offset").distinct()
    covered = spans(evidence).select(*GROUP, F.col("first").alias("begun"), "until")
    beside = rows.join(given.withColumn("given", F.lit(True)), [*GROUP, "offset"], "left")
    beside = beside.join(covered, GROUP, "left")
    named = F.col("given").isNull() & F.expr("coalesce(offset >= begun and offset < until, false)")
    return beside.where(~named)


def begun_above(evidence: Evidence) -> DataFrame:
    """READER, GROUP, start_offset, first, committed of the assignments whose first record lies
    above their start, for none of the reasons that may be."""
    key = [*READER, "topic", "partition"]
    first = evidence.reads.where("assignment >= 0").groupBy(*key)
    first = first.agg(F.min("offset").alias("first"), F.min("seen_ns").alias("seen_ns"))
    members = evidence.consumers.where("role = 'load'").select("consumer", "committed")
    begun = evidence.begun().where("start_offset >= 0")
    begun = begun.select(*READER, *GROUP, "start_offset").join(members, "consumer").join(first, key)
    starts = evidence.ends.select("topic", "partition", F.col("start_offset").alias("log_start"))
    begun = begun.join(starts, ["topic", "partition"], "left")
    begun = begun.where("first > start_offset and start_offset >= coalesce(log_start, 0)")
    commits = evidence.rows("commits").select(
        *GROUP,
        F.col("consumer").alias("other"),
        F.col("assignment").alias("other_assignment"),
        F.col("offset").alias("moved"),
        "asked_ns",
    )
    late: Column = F.expr("moved > start_offset and asked_ns <= seen_ns")
    late &= F.expr("not (other = consumer and other_assignment = assignment)")
    moved = begun.join(commits, GROUP).where(late).select(*READER, *GROUP).distinct()
    return begun.join(moved, [*READER, *GROUP], "left_anti")
