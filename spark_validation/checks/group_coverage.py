"""V09 and V10 of groups: over all assignments a group gets every record between its first start and
its last commit.

A consumer that was killed takes what it knew last with it: deliveries and commits after its last
rows. What such a consumer may have done is never held against the broker: those findings are
counted, and convict nobody. Who owned a partition when: `ownership`.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_validation.anomalies import findings
from spark_validation.checks import transaction_offsets
from spark_validation.checks.batches import transactional
from spark_validation.checks.groups import GROUP, counted_commits
from spark_validation.digests import BUCKET
from spark_validation.evidence import CONTROL, PLACE, VISIBLE, Evidence, bucket

ASSIGNED = 0
LONG_NS = 30_000_000_000
MOVED = "an aborted transaction's offsets moved the group"
NO_COMMIT = -1001  # of an assignment's start: the reset policy decides


def incomplete_groups(evidence: Evidence) -> list[str]:
    """Groups whose histories may lack deliveries and commits: a consumer did not end by itself, or
    rows of one are gone, or all commits are."""
    lossy = set(evidence.lossy_consumers)
    cut = {
        c.group for c in evidence.consumer_clients if c.group and (c.ended_ns is None or c.consumer in lossy)
    }
    return sorted(cut | set(evidence.uncommitted_groups))


def whole(evidence: Evidence) -> Column:
    """Whether nothing of a row's group is unknown."""
    return ~F.col("group").isin(incomplete_groups(evidence))


def starts(evidence: Evidence) -> DataFrame:
    """V09: where assignments begin, against what was confirmed before and what anybody asked to
    commit.

    A start that ignores a confirmed commit reads again from the reset policy's end; one above every
    commit skips.
    """
    commits = transaction_offsets.possible(evidence)
    known = counted_commits(evidence).select(
        *GROUP, F.col("answered_ns").alias("at_ns"), F.col("offset").alias("confirmed")
    )
    asked = commits.select(*GROUP, F.col("asked_ns").alias("at_ns"), F.col("offset").alias("asked"))
    begun = evidence.rows("assignments").where(F.col("event") == ASSIGNED)
    begun = without_rewinds(evidence, begun)
    begun = begun.select(*GROUP, "at_ns", "consumer", F.col("start_offset").alias("start"))
    aborted = transaction_offsets.aborted_offsets(evidence).select(
        *GROUP, F.col("asked_ns").alias("at_ns"), F.col("offset").alias("aborted")
    )
    events = begun.unionByName(known, True).unionByName(asked, True).unionByName(aborted, True)
    before = (
        Window.partitionBy(*GROUP)
        .orderBy("at_ns", F.col("start").isNotNull())
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    seen = events.withColumns(
        {
            "highest": F.max("confirmed").over(before),
            "most": F.max("asked").over(before),
            "aborted_most": F.max("aborted").over(before),
        }
    )
    seen = seen.where("start is not null").withColumn("offset", F.col("start"))
    detail = F.concat_ws(" ", F.lit("group"), "group", F.lit("had confirmed"), "highest")
    forgotten = seen.where((F.col("start") < 0) & F.col("highest").isNotNull())
    above = F.col("start") > F.coalesce("most", F.lit(-1))
    by_abort = above & (F.col("start") <= F.col("aborted_most"))
    moved = seen.where(by_abort)
    skipped = seen.where(above & ~F.coalesce(by_abort, F.lit(False)))
    between = seen.where("start >= coalesce(highest, 0) and start <= most")
    invented = between.join(commits.select(*GROUP, "offset"), [*GROUP, "offset"], "left_anti")
    return (
        findings(forgotten, "V09", "start forgot a confirmed commit", detail)
        .unionByName(findings(skipped, "V09", "start above every commit", detail, whole(evidence)))
        .unionByName(findings(moved, "V09", MOVED, detail, whole(evidence)))
        .unionByName(
            findings(invented, "V09", "start at an offset that nobody committed", detail, whole(evidence))
        )
    )


def without_rewinds(evidence: Evidence, begun: DataFrame) -> DataFrame:
    """A copier goes back by itself when it aborts: it begins again without having given its
    partitions back."""
    copiers = [c.consumer for c in evidence.consumer_clients if c.role == "copy"]
    order = Window.partitionBy("consumer", *GROUP).orderBy("at_ns")
    events = evidence.rows("assignments").where(F.col("consumer").isin(copiers))
    again = events.withColumn("before", F.lag("event").over(order))
    again = again.where((F.col("event") == ASSIGNED) & (F.col("before") == ASSIGNED))
    return begun.join(
        again.select("consumer", "assignment", *GROUP), ["consumer", "assignment", *GROUP], "left_anti"
    )


def ends(evidence: Evidence) -> DataFrame:
    """V09: an offset at the end that nobody asked to commit."""
    rows = [
        (group, topic, int(partition), offset)
        for group, topics in evidence.run.committed.items()
        for topic, partitions in topics.items()
        for partition, offset in partitions.items()
    ]
    final = evidence.spark.createDataFrame(rows, "`group` string, topic string, partition int, offset bigint")
    possible = transaction_offsets.possible(evidence)
    asked = possible.groupBy(*GROUP).agg(F.max("offset").alias("most"))
    known = counted_commits(evidence).groupBy(*GROUP).agg(F.max("offset").alias("highest"))
    gone = transaction_offsets.aborted_offsets(evidence)
    gone = gone.groupBy(*GROUP).agg(F.max("offset").alias("aborted_most"))
    final = final.join(asked, GROUP, "left").join(known, GROUP, "left")
    invented = final.where("offset >= 0 and offset >= coalesce(highest, 0)")
    invented = invented.join(possible.select(*GROUP, "offset"), [*GROUP, "offset"], "left_anti")
    invented = invented.join(gone, GROUP, "left")
    kind = F.when(F.col("offset") <= F.col("aborted_most"), MOVED).otherwise(
        "offset at the end that nobody committed"
    )
    detail = F.concat_ws(" ", F.lit("group"), "group", F.lit("asked at most"), "most")
    return findings(invented, "V09", kind, detail, whole(evidence))


def spans(evidence: Evidence) -> DataFrame:
    """GROUP, first, until, committed: between a group's first start and its last confirmed commit.

    A start without a commit is where the log begins, or, with auto.offset.reset=latest, the first
    record given."""
    earliest = [c.consumer for c in evidence.consumer_clients if c.offset_reset == "earliest"]
    ends = evidence.ends.select("topic", "partition", F.col("start_offset").alias("log_start"))
    begun = evidence.rows("assignments").where(F.col("event") == ASSIGNED)
    begun = begun.join(ends, ["topic", "partition"], "left")
    reset = F.when(F.col("consumer").isin(earliest), F.coalesce("log_start", F.lit(0)))
    begun = begun.withColumn(
        "first", F.when(F.col("start_offset") >= 0, F.col("start_offset")).otherwise(reset)
    )
    begun = begun.where("first is not null").select(*GROUP, "first")
    isolation = evidence.consumers.where("`group` is not null and role = 'load'")
    reading = evidence.reads.join(isolation.select("consumer", "group"), "consumer")
    reading = reading.groupBy(*GROUP).agg(F.min("offset").alias("first"), F.max("seen_ns").alias("seen_ns"))
    first = begun.unionByName(reading.drop("seen_ns")).groupBy(*GROUP).agg(F.min("first").alias("first"))
    last = counted_commits(evidence).select(*GROUP, F.col("offset").alias("until"))
    last = last.unionByName(silent(evidence, reading)).groupBy(*GROUP).agg(F.max("until").alias("until"))
    views = isolation.groupBy("group").agg(F.bool_and("committed").alias("committed"))
    whole = first.join(last, GROUP).join(views, "group").join(ends, ["topic", "partition"], "left")
    # below the log's start nobody is given what a segment may still hold
    whole = whole.withColumn("first", F.greatest("first", F.coalesce("log_start", F.lit(0))))
    return F.broadcast(whole.drop("log_start").where("first < until"))


def silent(evidence: Evidence, reading: DataFrame) -> DataFrame:
    """GROUP, until: partitions of which a group was given nothing any more for long, up to what was
    acknowledged long before its member left."""
    ended = {c.consumer: c.ended_ns for c in evidence.consumer_clients if c.ended_ns and c.role == "load"}
    if evidence.run.settings.get("consume_rate"):  # members that are slow on purpose
        ended = {}
    until = evidence.spark.createDataFrame(list(ended.items()), "consumer int, ended_ns bigint")
    held = evidence.rows("assignments").where(F.col("event") == ASSIGNED).join(F.broadcast(until), "consumer")
    gone = evidence.rows("assignments").where(F.col("event") != ASSIGNED)
    key = ["consumer", "assignment", *GROUP]
    held = held.join(gone.select(*key, F.col("at_ns").alias("gone_ns")), key, "left")
    held = held.join(reading.drop("first"), GROUP, "left").withColumn(
        "left_ns", F.coalesce("gone_ns", "ended_ns")
    )
    quiet = F.col("left_ns") - F.greatest("at_ns", F.coalesce("seen_ns", "at_ns"))
    long = held.where(quiet > LONG_NS).groupBy(*GROUP).agg(F.max("left_ns").alias("left_ns"))
    ends = evidence.ends.select("topic", "partition", F.col("start_offset").alias("start"))
    patience = F.when(F.col("topic").isin(transactional(evidence)), 2 * LONG_NS).otherwise(LONG_NS)
    acked = evidence.sends.where("status = 0 and offset >= 0").select(
        "topic", "partition", "offset", "acked_ns"
    )
    there = acked.join(F.broadcast(long), ["topic", "partition"]).join(ends, ["topic", "partition"], "left")
    there = there.where(
        (F.col("acked_ns") < F.col("left_ns") - patience) & F.expr("offset >= coalesce(start, 0)")
    )
    return there.groupBy(*GROUP).agg((F.max("offset") + 1).alias("until"))


def undelivered(evidence: Evidence) -> DataFrame:
    """V10: visible records between a group's first start and its last commit that no member was
    given.

    Buckets whose number of records agrees with the number of delivered offsets are not joined.
    """
    held = spans(evidence)
    members = evidence.consumers.where("`group` is not null").select("consumer", "group")
    given = evidence.reads.join(members, "consumer").select(*GROUP, "offset", bucket()).distinct()
    log = evidence.log.where(F.col("state") != CONTROL).join(held, ["topic", "partition"])
    log = log.where("offset >= first and offset < until").where(
        ~F.col("committed") | (F.col("state") == VISIBLE)
    )
    wanted = log.groupBy("group", bucket(), "topic", "partition").agg(F.count("*").alias("wanted"))
    inside = given.join(held, GROUP).where("offset >= first and offset < until")
    got = inside.groupBy("group", *BUCKET).agg(F.count("*").alias("got"))
    suspect = wanted.join(got, ["group", *BUCKET], "left").where("got is null or got < wanted")
    near = F.broadcast(suspect.select("group", *BUCKET))
    missing = (
        log.withColumn("bucket", bucket())
        .join(near, ["group", *BUCKET])
        .select(*PLACE, "group", "producer", "seq")
        .join(given.select(*GROUP, "offset"), [*GROUP, "offset"], "left_anti")
    )
    detail = F.concat_ws(" ", F.lit("group"), "group")
    return findings(missing, "V10", "never delivered to its group", detail, whole(evidence))


def unassigned(evidence: Evidence) -> DataFrame:
    """V10: a partition that no member of a group was ever given, though the group had another one
    for long."""
    ended = {c.consumer: c.ended_ns for c in evidence.consumer_clients if c.ended_ns and c.role == "load"}
    until = evidence.spark.createDataFrame(list(ended.items()), "consumer int, ended_ns bigint")
    begun = (
        evidence.rows("assignments").where(F.col("event") == ASSIGNED).join(F.broadcast(until), "consumer")
    )
    lasting = begun.where(F.col("ended_ns") - F.col("at_ns") > LONG_NS)
    given: dict[str, set[tuple[str, int]]] = {}
    for row in lasting.select(*GROUP).distinct().collect():
        given.setdefault(row["group"], set()).add((row["topic"], row["partition"]))
    sizes = {topic.name: topic.partitions for topic in evidence.run.topics}
    never = {
        (c.group, topic, partition)
        for c in evidence.consumer_clients
        if c.role == "load" and c.group in given
        for topic in c.topics
        for partition in range(sizes.get(topic, 0))
        if (topic, partition) not in given[c.group]
    }
    had = evidence.rows("assignments").where(F.col("event") == ASSIGNED).select(*GROUP).distinct()
    schema = "`group` string, topic string, partition int"
    missing = evidence.spark.createDataFrame(sorted(never), schema).join(had, GROUP, "left_anti")
    detail = F.concat_ws(" ", F.lit("group"), "group")
    return findings(missing, "V10", "never assigned to a member of its group", detail, whole(evidence))
