"""Members of groups that were killed: the time in which each may have had records and commits that
no row shows.

A killed member loses its last seconds of rows. They lie after its last row, and not much after
another member was given the partition.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_validation.checks.groups import GROUP
from spark_validation.evidence import Evidence
from spark_validation.order import ROWS_BEFORE

LOST_NS = 30_000_000_000
NEVER = 1 << 62


def windows(evidence: Evidence) -> DataFrame | None:
    """GROUP, killed: from when until when its killed members may have done something unseen; None
    when none was killed."""
    sizes = {topic.name: topic.partitions for topic in evidence.run.topics}
    killed = [
        (c.consumer, c.group, topic, partition, c.started_ns)
        for c in evidence.consumer_clients
        if c.ended_ns is None and c.group and c.role != "share"
        for topic in c.topics
        for partition in range(sizes.get(topic, 0))
    ]
    if not killed:
        return None
    schema = "killed int, `group` string, topic string, partition int, started_ns bigint"
    frame = evidence.table(killed, schema).join(last_rows(evidence), "killed", "left")
    frame = frame.withColumn("from_ns", F.coalesce("last_ns", "started_ns"))
    begun = evidence.begun().select(*GROUP, "consumer", "at_ns")
    after = frame.join(begun, GROUP, "left").where(
        "consumer is null or (consumer <> killed and at_ns >= from_ns)"
    )
    after = after.groupBy(*GROUP, "killed").agg(F.min("at_ns").alias("next_ns"))
    both = frame.join(after, [*GROUP, "killed"], "left")
    until = F.coalesce(F.col("next_ns") + LOST_NS, F.lit(NEVER).cast("bigint"))
    span = F.struct("from_ns", until.alias("until_ns"))
    return F.broadcast(both.groupBy(*GROUP).agg(F.collect_list(span).alias("spans")))


def last_rows(evidence: Evidence) -> DataFrame:
    """killed (the consumer), last_ns: the time of its last row of any history."""
    times = (("reads", "seen_ns"), ("commits", "answered_ns"), ("assignments", "at_ns"))
    who = [c.consumer for c in evidence.consumer_clients if c.ended_ns is None]
    rows = [
        evidence.rows(kind, every_topic=True)
        .where(F.col("consumer").isin(who))
        .select(F.col("consumer").alias("killed"), F.col(name).alias("ns"))
        for kind, name in times
    ]
    return rows[0].union(rows[1]).union(rows[2]).groupBy("killed").agg(F.max("ns").alias("last_ns"))


def within(since_ns: Column, until_ns: Column) -> Column:
    """Whether a time between these two lies in one of a row's spans."""
    first = F.coalesce(since_ns, F.lit(0).cast("bigint"))
    last = F.coalesce(until_ns, F.lit(NEVER).cast("bigint"))
    found = F.exists("spans", lambda span: (span["from_ns"] <= last) & (span["until_ns"] >= first))
    return F.coalesce(found, F.lit(False))


def may_be_of_killed(evidence: Evidence, rows: DataFrame, since_ns: Column, until_ns: Column) -> DataFrame:
    """Rows with `killed`: whether a killed member of the group may have done something to the
    partition between two times; null is always, or without an end."""
    spans = windows(evidence)
    if spans is None:
        return rows.withColumn("killed", F.lit(False))
    return rows.join(spans, GROUP, "left").withColumn("killed", within(since_ns, until_ns)).drop("spans")


def killed_between(evidence: Evidence, missing: DataFrame) -> DataFrame:
    """Records that no member was given, with `killed`: whether a killed one may have been, by the
    times at which the group was given the nearest ones below and above."""
    spans = windows(evidence)
    if spans is None:
        return missing.withColumn("killed", F.lit(False))
    members = evidence.consumers.where("`group` is not null").select("consumer", "group")
    seen = evidence.reads.join(members, "consumer").join(spans, GROUP, "left_semi")
    seen = seen.join(missing.select(*GROUP).distinct(), GROUP, "left_semi")
    seen = seen.groupBy(*GROUP, "offset").agg(F.min("seen_ns").alias("seen_ns"))
    of_partition = Window.partitionBy(*GROUP)
    below = of_partition.orderBy("offset").rowsBetween(*ROWS_BEFORE)
    above = of_partition.orderBy(F.desc("offset")).rowsBetween(*ROWS_BEFORE)
    beside = missing.withColumn("missing", F.lit(True)).unionByName(seen, allowMissingColumns=True)
    beside = beside.withColumns(
        {
            "below_ns": F.last("seen_ns", ignorenulls=True).over(below),
            "above_ns": F.last("seen_ns", ignorenulls=True).over(above),
        }
    )
    named = beside.where("missing").drop("missing", "seen_ns").join(spans, GROUP, "left")
    return named.withColumn("killed", within(F.col("below_ns"), F.col("above_ns"))).drop("spans")
