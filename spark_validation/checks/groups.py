"""V09 redelivery: committed offsets never go back, and delivery begins where the commit says. V10
of groups."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_validation.anomalies import findings
from spark_validation.checks import transaction_offsets
from spark_validation.evidence import Evidence
from spark_validation.order import ROWS_BEFORE

GROUP = ["group", "topic", "partition"]
COMMITTED = 0


def counted_commits(evidence: Evidence) -> DataFrame:
    """Commits the broker confirmed: plain ones, and those of committed transactions, which count
    from their end on."""
    commits = evidence.rows("commits").where("error = 0")
    ended = evidence.rows("transactions").where(F.col("outcome") == COMMITTED)
    ended = ended.select("producer", "transaction", "end_ns")
    within = commits.where("transaction >= 0").join(ended, ["producer", "transaction"])
    within = within.withColumn("answered_ns", F.greatest("answered_ns", "end_ns"))
    return commits.where("transaction < 0").unionByName(within.select(*commits.columns))


def going_back(evidence: Evidence) -> DataFrame:
    """V09: a commit, a start of an assignment or the offset at the end below what was confirmed
    before it was asked."""
    commits = counted_commits(evidence)
    confirmed = commits.select(*GROUP, F.col("answered_ns").alias("at_ns"), F.col("offset").alias("known"))
    requested = commits.select(
        *GROUP,
        F.col("asked_ns").alias("at_ns"),
        F.col("offset").alias("claim"),
        "consumer",
        F.lit("commit").alias("what"),
    )
    starts = evidence.begun().where("start_offset >= 0")
    starts = starts.select(
        *GROUP,
        "at_ns",
        F.col("start_offset").alias("claim"),
        "consumer",
        F.lit("start of an assignment").alias("what"),
    )
    events = confirmed.unionByName(requested.unionByName(starts), allowMissingColumns=True)
    order = Window.partitionBy(*GROUP).orderBy("at_ns", F.col("claim").isNull())
    before = order.rowsBetween(*ROWS_BEFORE)
    judged = events.withColumn("highest", F.max("known").over(before)).where("claim < highest")
    # an assignment's start was fetched some time before it was noted; the commit must be older than
    # that
    found = findings(
        judged.withColumn("offset", F.col("claim")),
        "V09",
        F.concat("what", F.lit(" below a confirmed commit")),
        F.concat_ws(" ", F.lit("group"), "group", F.lit("had confirmed"), "highest"),
    )
    return found.unionByName(final_commits(evidence, commits))


def final_commits(evidence: Evidence, commits: DataFrame) -> DataFrame:
    """V09: what the broker says at the end is below the last confirmed commit."""
    rows = [
        (group, topic, int(partition), offset)
        for group, topics in evidence.run.committed.items()
        for topic, partitions in topics.items()
        for partition, offset in partitions.items()
    ]
    schema = "`group` string, topic string, partition int, final bigint"
    final = F.broadcast(evidence.table(rows, schema))
    if any(p.transactional_id for p in evidence.producer_clients):
        decided = transaction_offsets.found_in_log(evidence).where(F.col("outcome") == COMMITTED)
        more = transaction_offsets.within(evidence).where("error = 0")
        more = more.join(F.broadcast(decided), ["producer", "transaction"], "left_semi")
        commits = commits.unionByName(more.select(*commits.columns))
    highest = commits.groupBy(*GROUP).agg(F.max("offset").alias("highest"))
    # a group of the run that the broker knows nothing of has lost all its commits, if it was asked
    requested = bool(evidence.run.committed or evidence.run.ends)
    wrong = highest.where(F.lit(requested)).join(final, GROUP, "left")
    wrong = wrong.where("final is null or final < highest").withColumn("offset", F.col("final"))
    detail = F.concat_ws(" ", F.lit("group"), "group", F.lit("had confirmed"), "highest")
    return findings(wrong, "V09", "offset at the end below a confirmed commit", detail)


def early_deliveries(evidence: Evidence) -> DataFrame:
    """V09: the first record of an assignment lies below the committed offset it begins at."""
    starts = evidence.begun().where("start_offset >= 0")
    starts = starts.select("consumer", "assignment", "topic", "partition", "group", "start_offset").distinct()
    first = evidence.reads.groupBy("consumer", "assignment", "topic", "partition").agg(
        F.min("offset").alias("offset")
    )
    below = first.join(starts, ["consumer", "assignment", "topic", "partition"]).where(
        "offset < start_offset"
    )
    detail = F.concat_ws(" ", F.lit("group"), "group", F.lit("began at"), "start_offset")
    return findings(below, "V09", "delivered below the committed offset", detail)


def commits_above_end(evidence: Evidence) -> DataFrame:
    """V09: a confirmed commit above the log's end, so of a record that is not there."""
    ends = evidence.ends.select("topic", "partition", "high_watermark")
    above = evidence.rows("commits").where("error = 0").join(ends, ["topic", "partition"])
    above = above.where("offset > high_watermark").groupBy(*GROUP, "consumer", "offset")
    above = above.agg(F.first("high_watermark").alias("high_watermark"))
    detail = F.concat_ws(" ", F.lit("group"), "group", F.lit("high watermark"), "high_watermark")
    return findings(above, "V09", "commit above the log's end", detail)
