"""V09 and V10 of groups: over all assignments a group gets every record between its first start and
its last commit.

A consumer that was killed takes what it knew last with it: deliveries and commits after its last
rows. What such a consumer may have done is never held against the broker: those findings are
counted, and convict nobody.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_validation.anomalies import findings
from spark_validation.checks import transaction_offsets
from spark_validation.checks.groups import GROUP, counted_commits
from spark_validation.digests import BUCKET
from spark_validation.evidence import CONTROL, PLACE, VISIBLE, Evidence, bucket

ASSIGNED, REVOKED = 0, 1
LONG_NS = 30_000_000_000
MOVED = "an aborted transaction's offsets moved the group"
NO_COMMIT = -1001  # of an assignment's start: the reset policy decides


def killed_groups(evidence: Evidence) -> list[str]:
    """Groups with a consumer that did not end by itself: their histories may lack deliveries and
    commits."""
    return sorted({c.group for c in evidence.consumer_clients if c.group and c.ended_ns is None})


def whole(evidence: Evidence) -> Column:
    """Whether nothing of a row's group is unknown."""
    return ~F.col("group").isin(killed_groups(evidence))


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
    return (
        findings(forgotten, "V09", "start forgot a confirmed commit", detail)
        .unionByName(findings(skipped, "V09", "start above every commit", detail, whole(evidence)))
        .unionByName(findings(moved, "V09", MOVED, detail, whole(evidence)))
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
    asked = transaction_offsets.possible(evidence).groupBy(*GROUP).agg(F.max("offset").alias("most"))
    gone = transaction_offsets.aborted_offsets(evidence)
    gone = gone.groupBy(*GROUP).agg(F.max("offset").alias("aborted_most"))
    invented = final.join(asked, GROUP, "left").where("offset >= 0 and (most is null or offset > most)")
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
    reading = reading.select(*GROUP, F.col("offset").alias("first"))
    first = begun.unionByName(reading).groupBy(*GROUP).agg(F.min("first").alias("first"))
    last = counted_commits(evidence).select(*GROUP, F.col("offset").alias("until"))
    last = last.unionByName(silent(evidence, reading)).groupBy(*GROUP).agg(F.max("until").alias("until"))
    views = isolation.groupBy("group").agg(F.bool_and("committed").alias("committed"))
    return F.broadcast(first.join(last, GROUP).join(views, "group").where("first < until"))


def silent(evidence: Evidence, reading: DataFrame) -> DataFrame:
    """GROUP, until: partitions that a group had for long and got nothing of, to their ends."""
    ended = {c.consumer: c.ended_ns for c in evidence.consumer_clients if c.ended_ns and c.role == "load"}
    until = evidence.spark.createDataFrame(list(ended.items()), "consumer int, ended_ns bigint")
    held = evidence.rows("assignments").where(F.col("event") == ASSIGNED).join(F.broadcast(until), "consumer")
    ends = evidence.ends.select("topic", "partition", F.col("high_watermark").alias("until"))
    gone = evidence.rows("assignments").where(F.col("event") != ASSIGNED)
    key = ["consumer", "assignment", *GROUP]
    gone = gone.select(*key, F.col("at_ns").alias("gone_ns"))
    held = held.join(gone, key, "left").withColumn("left_ns", F.coalesce("gone_ns", "ended_ns"))
    held = held.where(F.col("left_ns") - F.col("at_ns") > LONG_NS)
    nothing = held.select(*GROUP).distinct().join(reading.select(*GROUP).distinct(), GROUP, "left_anti")
    return nothing.join(ends, ["topic", "partition"]).select(*GROUP, "until")


def former_owners(evidence: Evidence) -> DataFrame:
    """V09: a commit that was asked for when another member had begun with the partition, and was
    confirmed."""
    begun = evidence.rows("assignments").where(F.col("event") == ASSIGNED)
    begun = begun.select(*GROUP, F.col("consumer").alias("owner"), F.col("at_ns").alias("owned_ns"))
    mine = evidence.rows("assignments").where(F.col("event") == ASSIGNED)
    mine = mine.select("consumer", "assignment", *GROUP, F.col("at_ns").alias("had_ns"))
    commits = evidence.rows("commits").where("error = 0 and transaction < 0")
    late = commits.join(mine, ["consumer", "assignment", *GROUP]).join(begun, GROUP)
    late = late.where("owner <> consumer and owned_ns > had_ns and asked_ns > owned_ns")
    late = late.groupBy(*GROUP, "consumer", "offset").agg(F.min("owner").alias("owner"))
    detail = F.concat_ws(" ", F.lit("group"), "group", F.lit("owner"), "owner")
    return findings(late, "V09", "commit of a former owner was confirmed", detail)


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


def owners(evidence: Evidence) -> DataFrame:
    """V08: two consumers of a group that both got records of a partition while both had it.

    A consumer that lost its partition without knowing (LOST, or killed) may go on for a while: a
    rebalance allows that.
    """
    rows = evidence.rows("assignments")
    key = ["consumer", "assignment", *GROUP]
    begun = rows.where(F.col("event") == ASSIGNED).select(*key, F.col("at_ns").alias("begin_ns"))
    ended = rows.where(F.col("event") == REVOKED).select(*key, F.col("at_ns").alias("end_ns"))
    held = begun.join(ended, key)
    seen = evidence.reads.groupBy("consumer", "assignment", "topic", "partition").agg(
        F.min("seen_ns").alias("first_ns"), F.max("seen_ns").alias("last_ns"), F.min("offset").alias("offset")
    )
    held = held.join(seen, ["consumer", "assignment", "topic", "partition"])
    order = Window.partitionBy(*GROUP).orderBy("begin_ns", "consumer", "assignment")
    beside = held.withColumns(
        {
            name: F.lag(column).over(order)
            for name, column in (
                ("other", "consumer"),
                ("other_end_ns", "end_ns"),
                ("other_last_ns", "last_ns"),
            )
        }
    )
    both = beside.where(
        "other is not null and other <> consumer and other_end_ns > begin_ns and other_last_ns > first_ns"
    )
    detail = F.concat_ws(" ", F.lit("group"), "group", F.lit("other consumer"), "other")
    return findings(both, "V08", "two owners at the same time", detail)
