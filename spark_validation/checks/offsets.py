"""V15 holes: offsets are gap-free where nothing may remove records."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_validation.anomalies import findings
from spark_validation.checks.batches import SOUND
from spark_validation.digests import BUCKET
from spark_validation.evidence import PARTITION, Evidence, bucket
from spark_validation.segments.ranges import newest_segments


def last_offsets(evidence: Evidence, digests: DataFrame) -> DataFrame:
    """topic, partition, last: the highest offset of its log.

    A cleaner may take the last records of a closed segment. So of a compacted topic that of a batch
    without records counts, and the one below an empty newest segment.
    """
    last = digests.groupBy("topic", "partition").agg(F.max("last").alias("last"))
    compacted = evidence.topics(compacted=True)
    if not compacted or evidence.batches is None:
        return last
    newest = newest_segments(evidence.data_dirs, compacted)
    rows = [(*place, base - 1) for place, base in newest.items()]
    below = evidence.table(rows, "topic string, partition int, last bigint")
    headers = evidence.batches.where((F.col("fault") == SOUND) & F.col("topic").isin(compacted))
    headers = headers.select("topic", "partition", F.col("last_offset").alias("last"))
    every = last.unionByName(below).unionByName(headers)
    return every.groupBy("topic", "partition").agg(F.max("last").alias("last"))


def cut_off(evidence: Evidence, digests: DataFrame) -> DataFrame:
    """Partitions that end below the high watermark that the broker named before."""
    last = last_offsets(evidence, digests)
    ends = evidence.ends.where("high_watermark > start_offset").join(last, ["topic", "partition"], "left")
    ends = ends.where(F.col("topic").isin([topic.name for topic in evidence.run.topics]))
    if evidence.source != "segments":  # the last offset may be a marker's, which the connector does not show
        ends = ends.where(F.col("topic").isin(evidence.topics("plain", "idempotent")))
    ends = ends.withColumn("offset", F.coalesce(F.col("last") + 1, F.col("start_offset")))
    short = ends.where("offset < high_watermark")
    return short.select("topic", "partition", "offset", F.col("high_watermark").alias("next"))


def holes(evidence: Evidence, digests: DataFrame) -> DataFrame:
    """A row a hole, named by the first missing offset; also at the end, below the high watermark.

    Compacted topics may have holes, except in their newest segments. The connector does not show
    markers, so with it transactional topics are left out.
    """
    topics = evidence.topics() if evidence.source == "segments" else evidence.topics("plain", "idempotent")
    order = Window.partitionBy("topic", "partition").orderBy("bucket")
    chained = digests.where(F.col("topic").isin(topics)).withColumns(
        {"before": F.lag("last").over(order), "before_bucket": F.lag("bucket").over(order)}
    )
    start = evidence.ends.select("topic", "partition", "start_offset", "high_watermark")
    chained = chained.join(start, ["topic", "partition"], "left")
    expected = F.coalesce(F.col("before") + 1, F.col("start_offset"), F.col("first"))
    # a segment may begin below the log's start; what lies below it belongs to no reader
    gap = F.col("first") > F.greatest(expected, F.coalesce("start_offset", expected))
    inside = F.col("offsets") < F.col("last") - F.col("first") + 1
    suspects = chained.where(gap | inside)
    between = suspects.where(gap).select(
        "topic", "partition", expected.alias("offset"), F.col("first").alias("next")
    )
    near = F.broadcast(suspects.where(inside).select(*BUCKET))
    window = Window.partitionBy(*BUCKET).orderBy("offset")
    rows = evidence.log.withColumn("bucket", bucket()).join(near, BUCKET, "left_semi")
    rows = rows.withColumn("before", F.lag("offset").over(window)).where("offset > before + 1")
    rows = rows.select(
        "topic", "partition", (F.col("before") + 1).alias("offset"), F.col("offset").alias("next")
    )
    found = between.unionByName(rows).unionByName(cut_off(evidence, digests)).unionByName(active(evidence))
    detail = F.concat_ws(" ", F.lit("the next offset is"), "next")
    return findings(found, "V15", "missing offsets", detail)


def active(evidence: Evidence) -> DataFrame:
    """Holes in the newest segments of compacted topics: a cleaner leaves those alone."""
    newest = newest_segments(evidence.data_dirs, evidence.topics(compacted=True))
    rows = [(*place, base) for place, base in newest.items()]
    begun = F.broadcast(evidence.table(rows, "topic string, partition int, active bigint"))
    begun = begun.join(evidence.ends.select(*PARTITION, "start_offset"), PARTITION, "left")
    begun = begun.select(
        *PARTITION, F.greatest("active", F.coalesce("start_offset", F.lit(0))).alias("begin")
    )
    held = evidence.log.join(F.broadcast(begun), PARTITION).where("offset >= begin")
    before = F.lag("offset").over(Window.partitionBy(*PARTITION).orderBy("offset"))
    held = held.select(
        *PARTITION, F.coalesce(before + 1, "begin").alias("due"), F.col("offset").alias("next")
    )
    return held.where("next > due").select(*PARTITION, F.col("due").alias("offset"), "next")
