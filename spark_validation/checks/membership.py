"""V03, V08, V09 and V19 of answers that reached the wrong client: rows of a group that their
consumer is not in, and records of a topic or partition that it had no claim to."""

from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_validation.anomalies import findings, kinds
from spark_validation.checks.delivery import READER
from spark_validation.evidence import PARTITION, Evidence

COMMITTED = "confirmed for a group that its consumer is not in"
GIVEN = "assigned in a group that its consumer is not in"
SHARED = "delivered to a share group that its consumer is not in"
UNREQUESTED = "of a topic that its consumer did not ask for"
UNASSIGNED = "of a partition that was not in its assignment"
UNSUBSCRIBED = "assigned a topic that it did not ask for"
NO_PARTITION = "assigned a partition that its topic has not"


def wrong_members(evidence: Evidence) -> DataFrame:
    """V08, V09, V19: what the member of a group was answered as a member of another one."""
    own = evidence.consumers.select("consumer", F.col("group").alias("own")).where("own is not null")
    answers = (
        ("V09", COMMITTED, evidence.rows("commits").where("error = 0")),
        ("V08", GIVEN, with_offsets(evidence.begun())),
        ("V19", SHARED, evidence.rows("shares")),
    )
    detail = F.concat_ws(" ", F.lit("group"), "group", F.lit("its own is"), "own")
    found = []
    for anomaly, name, rows in answers:
        others = rows.join(own, "consumer").where(F.col("group") != F.col("own"))
        found.append(findings(others, anomaly, name, detail))
    return reduce(DataFrame.unionByName, found)


def with_offsets(begun: DataFrame) -> DataFrame:
    """Assignments with `offset`: where each began, null where that is not known."""
    return begun.withColumn("offset", F.when(F.col("start_offset") >= 0, F.col("start_offset")))


def subscriptions(evidence: Evidence) -> DataFrame:
    """consumer, topic that it asked for."""
    topics = [(c.consumer, topic) for c in evidence.consumer_clients for topic in c.topics]
    return F.broadcast(evidence.table(topics, "consumer int, topic string"))


def unclaimed(evidence: Evidence) -> DataFrame:
    """V08: assignments of a topic that the member did not ask for, or of a partition that is not
    there. Without the log's folders it may have been added since the run began."""
    requested = subscriptions(evidence).withColumn("requested", F.lit(True))
    begun = with_offsets(evidence.begun()).join(evidence.consumers.select("consumer"), "consumer")
    begun = begun.join(requested, ["consumer", "topic"], "left").join(evidence.sizes, "topic")
    named = {
        UNSUBSCRIBED: F.col("requested").isNull(),
        NO_PARTITION: F.expr("partition not between 0 and partitions - 1"),
    }
    detail = F.concat_ws(" ", F.lit("group"), "group", F.lit("assignment"), "assignment")
    proven = (F.col("kind") == UNSUBSCRIBED) | F.lit(evidence.source == "segments")
    return findings(kinds(begun, named), "V08", F.col("kind"), detail, proven)


def unrequested(evidence: Evidence) -> DataFrame:
    """V03: records of a topic that their consumer did not read."""
    requested = subscriptions(evidence)
    columns = ["consumer", *PARTITION, "offset", "producer", "seq"]
    given = evidence.reads.select(*columns).unionByName(evidence.rows("shares").select(*columns))
    known = F.broadcast(evidence.consumers.select("consumer"))
    strange = given.join(requested, ["consumer", "topic"], "left_anti")
    return findings(strange.join(known, "consumer", "left_semi"), "V03", UNREQUESTED, F.lit(None))


def unassigned(evidence: Evidence) -> DataFrame:
    """V08: records that a member was given in an assignment of other partitions.

    A member notes an assignment, with all of its partitions, before it reads; so this is proof of a
    member that ended by itself and whose files are all there. Without any row of the assignment the
    history lacks it: cut_histories.
    """
    cut = set(evidence.cut.get("assignments", ()))
    ended = [
        c.consumer for c in evidence.consumer_clients if c.group and c.ended_ns and c.consumer not in cut
    ]
    begun = evidence.begun()
    reads = evidence.reads.where(F.col("consumer").isin(ended) & (F.col("assignment") >= 0))
    parts = reads.select(*READER, *PARTITION).distinct()
    strange = parts.join(begun.select(*READER).distinct(), READER, "left_semi")
    strange = strange.join(begun.select(*READER, *PARTITION), [*READER, *PARTITION], "left_anti")
    rows = reads.join(F.broadcast(strange), [*READER, *PARTITION], "left_semi")
    return findings(rows, "V08", UNASSIGNED, F.concat_ws(" ", F.lit("assignment"), "assignment"))
