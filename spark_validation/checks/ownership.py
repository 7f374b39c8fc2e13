"""V08 and V09 of a group's partitions that two members had at the same time, or one had no more."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from loadtest.history import AssignmentEvent
from spark_validation.anomalies import findings, kinds
from spark_validation.checks.groups import GROUP
from spark_validation.evidence import Evidence

ASSIGNED, REVOKED, LOST = map(int, AssignmentEvent)
KEY = ["consumer", "assignment", *GROUP]
AFTER = "delivered after its assignment had ended"
BEFORE = "delivered before its assignment began"
OWNED = "two owners at the same time"
EARLY = "assigned before another member had given it back"


def former_owners(evidence: Evidence) -> DataFrame:
    """V09: a commit that was asked for when another member had begun with the partition, and was
    confirmed."""
    begun = evidence.begun()
    begun = begun.select(*GROUP, F.col("consumer").alias("owner"), F.col("at_ns").alias("owned_ns"))
    own = evidence.begun()
    own = own.select("consumer", "assignment", *GROUP, F.col("at_ns").alias("had_ns"))
    commits = evidence.rows("commits").where("error = 0 and transaction < 0")
    late = commits.join(own, ["consumer", "assignment", *GROUP]).join(begun, GROUP)
    late = late.where("owner <> consumer and owned_ns > had_ns and asked_ns > owned_ns")
    late = late.groupBy(*GROUP, "consumer", "offset").agg(F.min("owner").alias("owner"))
    detail = F.concat_ws(" ", F.lit("group"), "group", F.lit("owner"), "owner")
    return findings(late, "V09", "commit of a former owner was confirmed", detail)


def held_until(evidence: Evidence) -> DataFrame:
    """KEY, start_offset, begin_ns, end_ns, given_back of assignments whose ends are known.
    given_back: by a row of the same assignment; that of a later one proves nothing if rows between
    them are lost.

    A consumer that lost its partition without knowing (LOST, or killed) may continue for a while: a
    rebalance allows that. One that ended by itself in a run without faults had its partitions until
    it was given them again, or ended.
    """
    rows = evidence.rows("assignments")
    next_of = Window.partitionBy("consumer", *GROUP).orderBy("at_ns")
    names = {"next_ns": "at_ns", "next_event": "event", "next_assignment": "assignment"}
    own = rows.withColumns({name: F.lead(column).over(next_of) for name, column in names.items()})
    begun = own.where(F.col("event") == ASSIGNED).select(
        *KEY, "start_offset", F.col("at_ns").alias("begin_ns"), *names
    )
    ended = [(c.consumer, c.ended_ns) for c in evidence.consumer_clients if c.group]
    if not evidence.undisturbed_consumers or evidence.cut.get("assignments"):
        ended = []
    until = evidence.table(ended, "consumer int, ended_ns bigint")
    begun = begun.join(F.broadcast(until), "consumer", "left")
    end_ns = (
        F.when(F.col("next_event") == REVOKED, F.col("next_ns"))
        .when(F.col("next_event") == LOST, None)
        .when(F.col("ended_ns").isNotNull(), F.least("ended_ns", "next_ns"))
    )
    given_back = F.coalesce(F.expr(f"next_event = {REVOKED} and next_assignment = assignment"), F.lit(False))
    return begun.select(
        *KEY, "start_offset", "begin_ns", end_ns.alias("end_ns"), given_back.alias("given_back")
    )


def owners(evidence: Evidence) -> DataFrame:
    """V08: two consumers of a group that both got records of a partition while both had it, or of
    which one was assigned it before the other one gave it back.

    A member notes that it gives a partition back before the broker hears of it. In a run with
    faults, or of members that are slow on purpose and look at a rebalance after its time-out, the
    broker may have taken it for dead by then.
    """
    prompt = evidence.undisturbed_consumers and not evidence.run.settings.get("consume_rate")
    seen = evidence.reads.groupBy("consumer", "assignment", "topic", "partition").agg(
        F.min("seen_ns").alias("first_ns"), F.max("seen_ns").alias("last_ns"), F.min("offset").alias("offset")
    )
    held = held_until(evidence).join(seen, ["consumer", "assignment", "topic", "partition"], "left")
    names = {"consumer": "other", "begin_ns": "other_begin_ns", "end_ns": "other_end_ns"}
    before = held.withColumnsRenamed(names | {"last_ns": "other_last_ns", "given_back": "gave_back"})
    before = before.select(*GROUP, "other", "other_begin_ns", "other_end_ns", "other_last_ns", "gave_back")
    both = held.join(before, GROUP).where(
        "other <> consumer and (other_begin_ns < begin_ns or other_begin_ns = begin_ns and other < consumer) "
        "and other_end_ns > begin_ns"
    )
    early = F.col("gave_back") & F.lit(prompt)
    kind = F.when(F.expr("other_last_ns > first_ns"), OWNED).when(early, EARLY)
    begun = F.when(F.col("start_offset") >= 0, F.col("start_offset"))
    both = both.withColumns({"kind": kind, "offset": F.coalesce("offset", begun)}).where("kind is not null")
    both = both.groupBy(*KEY, "kind", "offset").agg(F.min("other").alias("other"))
    detail = F.concat_ws(" ", F.lit("group"), "group", F.lit("other consumer"), "other")
    return findings(both, "V08", F.col("kind"), detail)


def given_outside(evidence: Evidence) -> DataFrame:
    """V08: records that a member was given in an assignment that had not begun yet, or whose
    partition it had given back or lost.

    A member notes when an assignment began before its client library could fetch for it, and that
    it gives a partition back when it has noted all that it was given before.
    """
    key = ["consumer", "assignment", "topic", "partition"]
    begins = F.col("event") == ASSIGNED
    span = evidence.rows("assignments").groupBy(*key, "group")
    span = span.agg(
        F.min(F.when(begins, F.col("at_ns"))).alias("began_ns"),
        F.max(F.when(~begins, F.col("at_ns"))).alias("ended_ns"),
    )
    given = evidence.reads.where("assignment >= 0").groupBy(*key)
    given = given.agg(F.min("seen_ns").alias("first_ns"), F.max("seen_ns").alias("last_ns"))
    beyond = given.join(span, key).where("first_ns < began_ns or last_ns > ended_ns")
    found = kinds(
        evidence.reads.join(F.broadcast(beyond.drop("first_ns", "last_ns")), key),
        {BEFORE: F.expr("seen_ns < began_ns"), AFTER: F.expr("seen_ns > ended_ns")},
    )
    bound = F.when(F.col("kind") == BEFORE, F.concat_ws(" ", F.lit("began"), "began_ns")).otherwise(
        F.concat_ws(" ", F.lit("ended"), "ended_ns")
    )
    detail = F.concat_ws(" ", F.lit("group"), "group", F.lit("assignment"), "assignment", bound)
    return findings(found, "V08", F.col("kind"), detail)
