"""V09 and V10 of groups: over all assignments a group gets every record between its first start and
its last commit.

What a consumer may have done whose rows are gone is never held against the broker: those findings
are counted, and convict no broker. A consumer that was killed takes its last seconds with it
(`killed_members`); one whose files are missing may have done anything (`incomplete_groups`). Who
owned a partition when: `ownership`.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from loadtest.history import UNKNOWN_START, AssignmentEvent
from spark_validation import digests
from spark_validation.anomalies import findings
from spark_validation.checks import transaction_offsets
from spark_validation.checks.batches import transactional
from spark_validation.checks.groups import GROUP, counted_commits
from spark_validation.checks.killed_members import killed_between, may_be_of_killed
from spark_validation.digests import BUCKET
from spark_validation.evidence import BUCKET_BITS, CONTROL, PLACE, VISIBLE, Evidence, bucket
from spark_validation.order import ROWS_BEFORE

ASSIGNED = int(AssignmentEvent.ASSIGNED)
LONG_NS = 30_000_000_000
BEGIN_NS = 3_000_000_000  # until a member reads what it was given
MOVED = "an aborted transaction's offsets moved the group"


def incomplete_groups(evidence: Evidence) -> list[str]:
    """Groups whose histories may lack deliveries and commits: rows of a consumer are gone, or all
    commits are."""
    lossy = {*evidence.lossy_consumers}.union(
        *(evidence.cut.get(kind, ()) for kind in ("commits", "assignments"))
    )
    cut = {c.group for c in evidence.consumer_clients if c.group and c.consumer in lossy}
    return sorted(cut | set(evidence.uncommitted_groups))


def whole(evidence: Evidence) -> Column:
    """Whether no files of a row's group are missing."""
    return ~F.col("group").isin(incomplete_groups(evidence))


def starts(evidence: Evidence) -> DataFrame:
    """V09: where assignments begin, against what was confirmed before and what any member asked to
    commit.

    A start that ignores a confirmed commit reads again from the reset policy's end; one above every
    commit skips.
    """
    commits = transaction_offsets.possible(evidence)
    before = Window.partitionBy(*GROUP).orderBy("at_ns", F.col("start").isNotNull()).rowsBetween(*ROWS_BEFORE)
    seen = start_events(evidence, commits).withColumns(
        {
            "highest": F.max("confirmed").over(before),
            "most": F.max("asked").over(before),
            "latest_ns": F.max(F.when(F.col("asked").isNotNull(), F.col("at_ns"))).over(before),
            "aborted_most": F.max("aborted").over(before),
        }
    )
    seen = seen.where("start is not null").withColumn("offset", F.col("start"))
    seen = may_be_of_killed(evidence, seen, F.col("latest_ns"), F.col("at_ns"))
    proven = whole(evidence) & ~F.col("killed")
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
        .unionByName(findings(skipped, "V09", "start above every commit", detail, proven))
        .unionByName(findings(moved, "V09", MOVED, detail, whole(evidence)))
        .unionByName(findings(invented, "V09", "start at an offset that nobody committed", detail, proven))
    )


def start_events(evidence: Evidence, commits: DataFrame) -> DataFrame:
    """GROUP, at_ns, and one of: start (with its consumer), confirmed, asked, aborted; in the order
    of their times. commits: those that may have moved their group."""
    known = counted_commits(evidence).select(
        *GROUP, F.col("answered_ns").alias("at_ns"), F.col("offset").alias("confirmed")
    )
    requested = transaction_offsets.visible_from(evidence, commits)
    requested = requested.select(*GROUP, F.col("from_ns").alias("at_ns"), F.col("offset").alias("asked"))
    begun = evidence.begun()
    begun = begun.where(F.col("start_offset") != UNKNOWN_START)
    begun = without_rewinds(evidence, begun)
    begun = begun.select(*GROUP, "at_ns", "consumer", F.col("start_offset").alias("start"))
    aborted = transaction_offsets.aborted_offsets(evidence).select(
        *GROUP, F.col("asked_ns").alias("at_ns"), F.col("offset").alias("aborted")
    )
    return begun.unionByName(known, True).unionByName(requested, True).unionByName(aborted, True)


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
    """V09: an offset at the end that no member asked to commit."""
    rows = [
        (group, topic, int(partition), offset)
        for group, topics in evidence.run.committed.items()
        for topic, partitions in topics.items()
        for partition, offset in partitions.items()
    ]
    final = evidence.table(rows, "`group` string, topic string, partition int, offset bigint")
    possible = transaction_offsets.possible(evidence)
    requested = possible.groupBy(*GROUP).agg(
        F.max("offset").alias("most"), F.max("asked_ns").alias("latest_ns")
    )
    known = counted_commits(evidence).groupBy(*GROUP).agg(F.max("offset").alias("highest"))
    gone = transaction_offsets.aborted_offsets(evidence)
    gone = gone.groupBy(*GROUP).agg(F.max("offset").alias("aborted_most"))
    final = final.join(requested, GROUP, "left").join(known, GROUP, "left")
    invented = final.where("offset >= 0 and offset >= coalesce(highest, 0)")
    invented = invented.join(possible.select(*GROUP, "offset"), [*GROUP, "offset"], "left_anti")
    invented = invented.join(gone, GROUP, "left")
    kind = F.when(F.col("offset") <= F.col("aborted_most"), MOVED).otherwise(
        "offset at the end that nobody committed"
    )
    detail = F.concat_ws(" ", F.lit("group"), "group", F.lit("asked at most"), "most")
    invented = may_be_of_killed(evidence, invented, F.col("latest_ns"), F.lit(None))
    return findings(invented, "V09", kind, detail, whole(evidence) & ~F.col("killed"))


def spans(evidence: Evidence) -> DataFrame:
    """GROUP, first, until, committed: between a group's first start and its last confirmed commit.

    A start without a commit is where the log begins, or, with auto.offset.reset=latest, the first
    record given."""
    earliest = [c.consumer for c in evidence.consumer_clients if c.offset_reset == "earliest"]
    ends = evidence.ends.select("topic", "partition", F.col("start_offset").alias("log_start"))
    begun = evidence.begun()
    begun = begun.join(ends, ["topic", "partition"], "left")
    reset = F.when(F.col("consumer").isin(earliest), F.coalesce("log_start", F.lit(0)))
    reset = F.when(F.col("start_offset") != UNKNOWN_START, reset)
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
    # a member that reads committed records is not given those of the others
    views = isolation.groupBy("group").agg(F.bool_or("committed").alias("committed"))
    whole = first.join(last, GROUP).join(views, "group").join(ends, ["topic", "partition"], "left")
    # below the log's start no reader gets what a segment may still hold
    whole = whole.withColumn("first", F.greatest("first", F.coalesce("log_start", F.lit(0))))
    return F.broadcast(whole.drop("log_start").where("first < until"))


def silent(evidence: Evidence, reading: DataFrame) -> DataFrame:
    """GROUP, until: partitions of which a group was given nothing any more, though its members had
    them for long, one after the other; up to what was acknowledged long before.

    A member needs a while until it reads: what counts of an assignment is what is longer."""
    ended = {c.consumer: c.ended_ns for c in evidence.consumer_clients if c.ended_ns and c.role == "load"}
    if evidence.run.settings.get("consume_rate"):  # members that are slow on purpose
        ended = {}
    until = evidence.table(list(ended.items()), "consumer int, ended_ns bigint")
    held = evidence.begun().join(F.broadcast(until), "consumer")
    gone = evidence.rows("assignments").where(F.col("event") != ASSIGNED)
    key = ["consumer", "assignment", *GROUP]
    held = held.join(gone.select(*key, F.col("at_ns").alias("gone_ns")), key, "left")
    following = F.lead("at_ns").over(Window.partitionBy(*GROUP).orderBy("at_ns"))
    held = held.withColumn("left_ns", F.least(F.coalesce("gone_ns", "ended_ns"), following))
    held = held.join(reading.drop("first"), GROUP, "left")
    held = held.withColumn("from_ns", F.greatest("at_ns", F.coalesce("seen_ns", "at_ns")))
    held = held.withColumn("quiet_ns", F.col("left_ns") - F.col("from_ns") - BEGIN_NS).where("quiet_ns > 0")
    patience = F.when(F.col("topic").isin(transactional(evidence)), 2 * LONG_NS).otherwise(LONG_NS)
    later = Window.partitionBy(*GROUP).orderBy(F.desc("left_ns"))
    held = held.withColumn("after_ns", F.sum("quiet_ns").over(later) - F.col("quiet_ns"))
    # of the last assignment from which on there was time enough, the moment until which there was
    enough = held.withColumn("spare_ns", F.col("after_ns") + F.col("quiet_ns") - patience).where(
        "spare_ns > 0"
    )
    spare = F.least("spare_ns", F.col("quiet_ns"))
    long = enough.groupBy(*GROUP).agg(F.max(F.col("from_ns") + spare).alias("left_ns"))
    ends = evidence.ends.select("topic", "partition", F.col("start_offset").alias("start"))
    acked = evidence.acked.select("topic", "partition", "offset", "acked_ns")
    there = acked.join(F.broadcast(long), ["topic", "partition"]).join(ends, ["topic", "partition"], "left")
    there = there.where((F.col("acked_ns") < F.col("left_ns")) & F.expr("offset >= coalesce(start, 0)"))
    return there.groupBy(*GROUP).agg((F.max("offset") + 1).alias("until"))


def undelivered(
    evidence: Evidence, reads: DataFrame | None = None, log: DataFrame | None = None
) -> DataFrame:
    """V10: visible records between a group's first start and its last commit that no member was
    given. reads, log: digests, made here where they are not given."""
    held = spans(evidence)
    members = evidence.consumers.where("`group` is not null").select("consumer", "group")
    reads = digests.read_digests(evidence) if reads is None else reads
    log = digests.log_digests(evidence) if log is None else log
    near = F.broadcast(incomplete(held, reads.join(members, "consumer"), log).persist(StorageLevel.DISK_ONLY))
    given = evidence.reads.join(members, "consumer").withColumn("bucket", bucket())
    given = given.join(near, ["group", *BUCKET], "left_semi").select(*GROUP, "offset").distinct()
    records = evidence.log.where(F.col("state") != CONTROL).withColumn("bucket", bucket())
    records = records.join(near, BUCKET).join(held, GROUP)
    records = records.where("offset >= first and offset < until")
    records = records.where(~F.col("committed") | (F.col("state") == VISIBLE))
    missing = records.select(*PLACE, "group", "producer", "seq").join(given, [*GROUP, "offset"], "left_anti")
    missing = killed_between(evidence, missing)
    detail = F.concat_ws(" ", F.lit("group"), "group")
    proven = whole(evidence) & ~F.col("killed")
    return findings(missing, "V10", "never delivered to its group", detail, proven)


def incomplete(held: DataFrame, reads: DataFrame, log: DataFrame) -> DataFrame:
    """group, BUCKET of which a group was given other records, or more or fewer, than it may see;
    also those within which its first start or its last commit lies. reads: digests with their
    groups."""
    given = reads.groupBy("group", *BUCKET).agg(
        F.sum("reads").alias("given"), F.bit_xor("read_hash").alias("given_hash")
    )
    first, last = (F.shiftright(bound, BUCKET_BITS) for bound in (F.col("first"), F.col("until") - 1))
    both = log.withColumnsRenamed({"first": "lowest", "last": "highest"}).join(held, ["topic", "partition"])
    both = both.where((F.col("bucket") >= first) & (F.col("bucket") <= last))
    both = both.withColumns(
        {
            "visible": F.when(F.col("committed"), F.col("shown")).otherwise(F.col("any")),
            "visible_hash": F.when(F.col("committed"), F.col("shown_hash")).otherwise(F.col("any_hash")),
        }
    )
    both = both.where("visible > 0").join(given, ["group", *BUCKET], "left")
    within = (F.col("bucket") == first) | (F.col("bucket") == last)
    same = F.expr("given <=> visible and given_hash <=> visible_hash")
    return both.where(within | ~same).select("group", *BUCKET)


def unassigned(evidence: Evidence) -> DataFrame:
    """V10: a partition that no member of a group was ever given, though the group had members with
    another one for long."""
    members = [c for c in evidence.consumer_clients if c.role == "load" and c.group]
    ended: dict[str, int] = {}
    for c in members:
        if c.group and c.ended_ns:
            ended[c.group] = max(ended.get(c.group, 0), c.ended_ns)
    until = evidence.table(list(ended.items()), "`group` string, ended_ns bigint")
    begun = evidence.begun()
    first = begun.groupBy("group").agg(F.min("at_ns").alias("at_ns")).join(F.broadcast(until), "group")
    lasting = {row["group"] for row in first.where(F.col("ended_ns") - F.col("at_ns") > LONG_NS).collect()}
    sizes = {topic.name: topic.partitions for topic in evidence.run.topics}
    expected = {
        (c.group, topic, partition)
        for c in members
        if c.group in lasting
        for topic in c.topics
        for partition in range(sizes.get(topic, 0))
    }
    reading = evidence.reads.join(evidence.consumers.select("consumer", "group"), "consumer")
    had = begun.select(*GROUP).unionByName(reading.select(*GROUP)).distinct()
    schema = "`group` string, topic string, partition int"
    missing = evidence.table(sorted(expected), schema).join(had, GROUP, "left_anti")
    detail = F.concat_ws(" ", F.lit("group"), "group")
    killed = [c.group for c in members if c.ended_ns is None]
    proven = whole(evidence) & ~F.col("group").isin(killed)
    return findings(missing, "V10", "never assigned to a member of its group", detail, proven)
