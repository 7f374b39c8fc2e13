"""V19 share delivery, and V03, V10, V11 of share groups: each record is acknowledged once, or comes
again by the rules.

Deliveries of a record are distinguished by their delivery count, which the broker raises with each;
a member may look at what it was given much later than others at the next delivery, so times alone
prove nothing.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from loadtest.history import ShareAck
from spark_validation.anomalies import findings, kinds
from spark_validation.checks.batches import TRANSACTIONAL_MODES
from spark_validation.checks.delays import delays, due_ms
from spark_validation.checks.delivery import CONTENT, unlike
from spark_validation.evidence import ABORTED, CONTROL, OPEN, PLACE, VISIBLE, Evidence
from spark_validation.order import ROWS_BEFORE

NOTHING, ACCEPT, RELEASE, REJECT = map(int, ShareAck)
RECORD = ["group", "topic", "partition", "offset"]
LIMIT, LOCK_MS = 5, 30_000  # share.delivery.count.limit, share.record.lock.duration.ms: Kafka's own
SLACK_MS = 1000
MAX_FAULTS = 200
JOIN_NS = 10_000_000_000  # until a member that joined has its partitions
BEGIN_NS = 30_000_000_000  # the same of a group, with faults
QUIET_MS = 3000  # a member that finished read so long without a record
FIRST = "first delivery has not the count 1"
LEAPS = "delivery count leaps"
TWICE = "two deliveries with one count"
HELD = "delivered while another delivery held it"
STALE = "confirmed for a member that no longer had it"
LATE = "confirmed after its lock had expired"
REFUSED = "refused though its member held the record"
BEFORE = "from before its group began"
INVALID_RECORD_STATE = 121


def deliveries(evidence: Evidence) -> DataFrame:
    return evidence.rows("shares").withColumnsRenamed({"key": "record_key"})


def lock_ms(evidence: Evidence) -> int:
    """The time for which a delivery locks its record (share.record.lock.duration.ms)."""
    return int(evidence.run.settings.get("share_lock_ms", LOCK_MS))


def undisturbed(evidence: Evidence, since_ns: Column, until_ns: Column) -> Column:
    """No member was killed, and no fault fell between two times: each delivery has a row, and
    nothing freed a lock."""
    slack = SLACK_MS * 1_000_000
    calm = all(c.ended_ns is not None for c in evidence.consumer_clients if c.role == "share")
    calm = calm and not evidence.faults_missing and not evidence.cut.get("shares")
    if not calm or len(evidence.faults) > MAX_FAULTS:
        return F.lit(calm and not evidence.faults)
    apart = F.lit(True)
    for begin_ns, end_ns in evidence.faults:
        apart &= (F.lit(end_ns) + slack < since_ns) | (F.lit(begin_ns) - slack > until_ns)
    return apart


def repeated(evidence: Evidence) -> DataFrame:
    """V19: deliveries that the acknowledgements and counts before them do not allow."""
    limit = int(evidence.run.settings.get("share_delivery_limit", LIMIT))
    lock_ns = (lock_ms(evidence) - SLACK_MS) * 1_000_000
    order = Window.partitionBy(*RECORD).orderBy("delivery", "acquired_ns", "consumer")
    before = order.rowsBetween(*ROWS_BEFORE)
    confirmed = F.col("error") == 0

    def ever(ack: int) -> Column:
        return F.coalesce(F.max((F.col("ack") == ack) & confirmed).over(before), F.lit(False))

    previous = F.struct("consumer", "acquired_ns", "asked_ns", "ack", "delivery", "error")
    seen = deliveries(evidence).withColumns(
        {"accepted": ever(ACCEPT), "rejected": ever(REJECT), "last": F.lag(previous).over(order)}
    )
    held = F.when(F.col("last.ack") == NOTHING, F.col("last.acquired_ns") + lock_ns).otherwise(
        F.least(F.col("last.asked_ns"), F.col("last.acquired_ns") + lock_ns)
    )
    since = F.coalesce("last.acquired_ns", "intended_ns")
    unseen = (F.col("acquired_ns") - since > lock_ns) | moved(evidence, since, F.col("acquired_ns"))
    leaps = F.expr("last.delivery >= 0 and delivery > last.delivery + 1")
    begins = F.col("last").isNull() & (F.col("delivery") > 1)
    none = F.col("delivery") == 0
    found = kinds(
        seen,
        {
            "delivered after it was accepted": F.col("accepted"),
            "delivered after it was rejected": F.col("rejected"),
            TWICE: F.expr("delivery >= 0 and delivery = last.delivery"),
            "delivered more often than its limit": F.col("delivery") > limit,
            HELD: (F.col("acquired_ns") < held) & ~F.col("accepted") & ~F.col("rejected"),
            FIRST: begins | none,
            LEAPS: leaps,
        },
    )
    calm = undisturbed(evidence, since, F.col("acquired_ns"))
    proven = (
        F.when(F.col("kind") == HELD, calm)
        .when(F.col("kind").isin(FIRST, LEAPS), none | (calm & ~unseen))
        # a count is stored with an acknowledgement, as by Kafka: who dies before forgets it
        .when(F.col("kind") == TWICE, (F.col("last.error") == 0) | calm)
        .otherwise(F.lit(True))
    )
    detail = F.concat_ws(
        " ", F.lit("group"), "group", F.lit("delivery"), "delivery", F.lit("last"), F.to_json("last")
    )
    return findings(found, "V19", F.col("kind"), detail, proven)


def stale(evidence: Evidence) -> DataFrame:
    """V19: acknowledgements that were confirmed though another member had been given the record, or
    the lock had expired, before they were asked for; and those that were refused without a reason.

    A member looks at a record some time after it was given it, and asks before the broker gets
    the request: what seems too late was later still.
    """
    lock_ns = expired_ns(evidence)
    order = Window.partitionBy(*RECORD).orderBy("delivery", "acquired_ns", "consumer")
    following = F.lead(F.struct("consumer", "acquired_ns", "delivery")).over(order)
    heard = F.lag(F.when(F.expr(f"error = 0 and ack <> {NOTHING}"), F.col("acquired_ns"))).over(order)
    seen = deliveries(evidence).withColumns({"next": following, "previous_ns": heard})
    confirmed = seen.where(f"error = 0 and ack <> {NOTHING}")
    found = kinds(
        confirmed,
        {
            STALE: F.expr("next.consumer <> consumer and next.acquired_ns < asked_ns"),
            LATE: F.col("asked_ns") > F.col("acquired_ns") + lock_ns,
        },
    )
    detail = F.concat_ws(
        " ", F.lit("group"), "group", F.lit("delivery"), "delivery", F.lit("next"), F.to_json("next")
    )
    proven = undisturbed(evidence, F.col("acquired_ns"), F.col("answered_ns"))
    late = findings(found, "V19", F.col("kind"), detail, proven)
    return late.unionByName(refused(evidence, seen))


def refused(evidence: Evidence, seen: DataFrame) -> DataFrame:
    """V19: acknowledgements that were refused though their member held the records. seen:
    deliveries with the time of the `previous` one, null unless its acknowledgement was confirmed.

    The broker answers for a partition: one record whose lock has expired, or that is below the
    log's start, makes it refuse all of a request. No lock is older than its record, or than a
    confirmed delivery before: a member may look at what it held no more when the next one holds it.
    """
    lock_ns = (lock_ms(evidence) - SLACK_MS) * 1_000_000
    request = Window.partitionBy("consumer", "group", "topic", "partition", "asked_ns")
    answered = seen.where(f"error = {INVALID_RECORD_STATE} and ack <> {NOTHING}")
    since = F.coalesce("previous_ns", "intended_ns")
    whole = answered.withColumns(
        {"since_ns": F.min(since).over(request), "lowest": F.min("offset").over(request)}
    )
    ends = evidence.ends.select("topic", "partition", "start_offset")
    held = whole.join(ends, ["topic", "partition"], "left").where("lowest >= coalesce(start_offset, 0)")
    held = held.where(F.col("answered_ns") - F.col("since_ns") < lock_ns)
    times = F.col("since_ns"), F.col("answered_ns")
    # also one that finished leaves partitions to others, and these theirs
    left = [
        (c.ended_ns, c.ended_ns + JOIN_NS)
        for c in evidence.consumer_clients
        if c.role == "share" and c.ended_ns
    ]
    proven = undisturbed(evidence, *times) & ~moved(evidence, *times, left)
    detail = F.concat_ws(" ", F.lit("group"), "group", F.lit("delivery"), "delivery")
    return findings(held, "V19", REFUSED, detail, proven)


def before_their_group(evidence: Evidence) -> DataFrame | None:
    """V19: records below one that was acknowledged before the first member of their group was
    started, though the group begins at the end of the log. None when every group begins
    elsewhere.

    A group that reads committed records begins below the first open transaction, so of topics with
    transactions nothing is known.
    """
    members = [c for c in evidence.consumer_clients if c.role == "share" and c.group]
    elsewhere = {c.group for c in members if c.offset_reset != "latest"}
    begun: dict[tuple[str | None, str], int] = {}
    open_ends = {topic.name for topic in evidence.run.topics if topic.mode in TRANSACTIONAL_MODES}
    for c in members:
        hidden = open_ends if c.isolation == "read_committed" else set()
        for topic in {*c.topics} - hidden if c.group not in elsewhere else ():
            begun[c.group, topic] = min(begun.get((c.group, topic), c.started_ns), c.started_ns)
    if not begun:
        return None
    rows = [(*place, started_ns) for place, started_ns in begun.items()]
    started = F.broadcast(evidence.table(rows, "`group` string, topic string, started_ns bigint"))
    known = evidence.acked.join(started, "topic").where("acked_ns < started_ns")
    reached = known.groupBy("group", "topic", "partition").agg(F.max("offset").alias("reached"))
    given = deliveries(evidence).join(F.broadcast(reached), ["group", "topic", "partition"])
    detail = F.concat_ws(" ", F.lit("group"), "group", F.lit("the log had reached"), "reached")
    return findings(given.where("offset <= reached"), "V19", BEFORE, detail)


def moved(
    evidence: Evidence, since_ns: Column, until_ns: Column, more: Sequence[tuple[int, int]] = ()
) -> Column:
    """Whether a member joined or left between two times: then it, or one that gave it a partition,
    let go of what its client had fetched and it had not looked at. more: other such times."""
    joined = [c.started_ns for c in evidence.consumer_clients if c.role == "share"]
    times = [(begin_ns, begin_ns + JOIN_NS) for begin_ns in joined]
    times += [(left_ns, left_ns) for left_ns in departures(evidence)]
    times += more
    if len(times) > MAX_FAULTS:
        return F.lit(True)
    found = F.lit(False)
    for begin_ns, end_ns in times:
        found |= (F.lit(end_ns) >= since_ns) & (F.lit(begin_ns) <= until_ns)
    return found


def departures(evidence: Evidence) -> list[int]:
    """The times at which members of share groups ended, without those that read until nothing came
    any more."""
    shared = [c for c in evidence.consumer_clients if c.role == "share" and not c.finished]
    return [c.ended_ns for c in shared if c.ended_ns is not None]


def beside_log(evidence: Evidence) -> DataFrame:
    """consumer, PLACE, acquired_ns, r, a delivery, and l, the log's record there."""
    given = deliveries(evidence).withColumn("header_sum", F.coalesce("header_sum", F.lit(0)))
    given = given.select("consumer", *PLACE, "acquired_ns", F.struct(*CONTENT).alias("r"))
    log = evidence.log.where(F.col("state") != CONTROL).select(*PLACE, F.struct(*CONTENT, "state").alias("l"))
    return given.join(log, PLACE, "left")


def wrong_deliveries(evidence: Evidence) -> DataFrame:
    """V03 and V11: what a member was given, against the log."""
    both = beside_log(evidence).join(evidence.ends, ["topic", "partition"], "left")
    both = both.join(evidence.consumers.select("consumer", "committed"), "consumer", "left")
    differs = unlike()
    earlier = F.expr(f"acquired_ns + {evidence.stepped_ns} < r.intended_ns and r.intended_ns > 0")
    unsent = F.col("r.intact") & earlier
    kept = F.expr("offset >= coalesce(start_offset, 0)") & ~F.col("topic").isin(
        evidence.topics(compacted=True)
    )
    hidden = F.col("l").isNotNull() & F.col("committed")
    found = kinds(
        both.select("*", "r.producer", "r.seq"),
        {
            "not in the log": F.col("l").isNull() & kept,
            "another record or value": F.col("l").isNotNull() & differs,
            "before it was sent": unsent,
            "aborted in the log": hidden & (F.col("l.state") == ABORTED),
            "still open in the log": hidden & (F.col("l.state") == OPEN),
        },
    )
    anomaly = F.when(F.col("kind").endswith("in the log") & F.col("l").isNotNull(), "V11").otherwise("V03")
    return findings(found, anomaly, F.col("kind"), F.to_json("r"))


def done_groups(evidence: Evidence) -> dict[str, int]:
    """Groups of which a member read until nothing came, and none was killed, nor lost rows; when
    the last of these members ended."""
    members = [c for c in evidence.consumer_clients if c.role == "share" and c.group]
    lossy = evidence.cut.get("shares", ())
    killed = {c.group for c in members if c.ended_ns is None or c.consumer in lossy}
    until: dict[str, int] = {}
    for c in members:
        if c.finished and c.ended_ns is not None and c.group is not None and c.group not in killed:
            until[c.group] = max(until.get(c.group, 0), c.ended_ns)
    return until


def expired_ns(evidence: Evidence) -> int:
    """Nanoseconds from a delivery until its lock has surely expired."""
    return (lock_ms(evidence) + SLACK_MS) * 1_000_000


def never_held(evidence: Evidence, since_ns: Column, done_ns: Column) -> Column:
    """Whether no answer that a fault lost can have held a record which was free from one time on,
    until its group's members read no more."""
    if evidence.faults_missing:
        return F.lit(False)
    last_ns = max((end_ns for _, end_ns in evidence.faults), default=0)
    held_ns = last_ns + expired_ns(evidence) + QUIET_MS * 1_000_000
    return (F.lit(last_ns + SLACK_MS * 1_000_000) < since_ns) | (F.lit(held_ns) <= done_ns)


def forgotten(evidence: Evidence) -> DataFrame:
    """V10: records that were released, or whose lock expired, below the limit of deliveries, and
    that came no more though members read on."""
    done = done_groups(evidence)
    limit = int(evidence.run.settings.get("share_delivery_limit", LIMIT))
    lock_ns = expired_ns(evidence)
    until = evidence.table(list(done.items()), "`group` string, done_ns bigint")
    last = F.struct("delivery", "acquired_ns", "answered_ns", "ack", "error", "consumer", "producer", "seq")
    ended = deliveries(evidence).groupBy(*RECORD).agg(F.max(last).alias("last"))
    ended = ended.join(F.broadcast(until), "group").join(evidence.ends, ["topic", "partition"], "left")
    released = F.expr(f"last.ack = {RELEASE} and last.error = 0")
    settled = F.expr(f"last.ack in ({ACCEPT}, {REJECT}) and last.error = 0")
    free_ns = F.when(released, F.col("last.answered_ns")).otherwise(
        F.greatest("last.acquired_ns", "last.answered_ns") + lock_ns
    )
    kept = F.expr("offset >= coalesce(start_offset, 0)") & ~F.col("topic").isin(
        evidence.topics(compacted=True)
    )
    waits = ended.where(kept & ~settled & F.expr(f"last.delivery between 1 and {limit - 1}"))
    waits = waits.where(free_ns + QUIET_MS * 1_000_000 <= F.col("done_ns"))
    kind = F.when(released, "released and never delivered again").otherwise(
        "never delivered again after its lock expired"
    )
    detail = F.concat_ws(" ", F.lit("group"), "group", F.lit("last"), F.to_json("last"))
    waits = waits.select("*", "last.consumer", "last.producer", "last.seq")
    # an acknowledgement without an answer may have been heard; one that left may have fetched it
    proven = released | F.expr(f"last.ack in ({NOTHING}, {RELEASE})")
    for left_ns in departures(evidence):
        proven &= free_ns > left_ns
    proven &= never_held(evidence, free_ns, F.col("done_ns"))
    return findings(waits, "V10", kind, detail, proven)


def undelivered(evidence: Evidence) -> DataFrame:
    """V10: visible records that no member of a share group was given, where members read until
    nothing came.

    A group that begins at the end of the log begins with its first record, and at the latest when
    it has had others for a while: a partition of which it was given nothing is no beginning.
    """
    members = [c for c in evidence.consumer_clients if c.role == "share" and c.group]
    done = done_groups(evidence)
    rows = [
        (c.group, topic, c.isolation == "read_committed", c.offset_reset == "earliest", done[c.group])
        for c in members
        if c.group in done
        for topic in c.topics
    ]
    schema = "`group` string, topic string, committed boolean, earliest boolean, done_ns bigint"
    expected = evidence.table(sorted(set(rows)), schema)
    given = deliveries(evidence)
    first = given.groupBy("group", "topic", "partition").agg(F.min("offset").alias("first"))
    log = evidence.log.where(F.col("state") != CONTROL).join(F.broadcast(expected), "topic")
    log = log.where(~F.col("committed") | (F.col("state") == VISIBLE))
    log = log.join(F.broadcast(first), ["group", "topic", "partition"], "left")
    log = log.join(evidence.ends, ["topic", "partition"], "left")
    start = F.coalesce("start_offset", F.lit(0))
    begun = given.groupBy("group").agg(F.min("acquired_ns").alias("begun_ns"))
    log = log.join(F.broadcast(begun), "group", "left")
    patience = BEGIN_NS if evidence.faults or evidence.faults_missing else JOIN_NS
    late = F.col("intact") & (F.col("intended_ns") > F.col("begun_ns") + patience)
    inside = F.when(F.col("earliest"), True).otherwise(
        F.coalesce(F.col("offset") >= F.col("first"), F.lit(False)) | late
    )
    missing = log.where(inside & (F.col("offset") >= start))
    missing = missing.join(given.select(*RECORD).distinct(), RECORD, "left_anti")
    proven = never_held(evidence, F.coalesce("intended_ns", F.lit(0)), F.col("done_ns"))
    if delayed := list(delays(evidence)):
        due = due_ms(evidence) + SLACK_MS + QUIET_MS < F.col("done_ns") / 1_000_000
        missing = missing.where(F.coalesce(due, F.lit(True)))
        # one with headers may be due at any time
        proven &= ~F.col("topic").isin(delayed) | (F.col("header_sum") == 0)
    detail = F.concat(F.lit("group "), "group")
    return findings(missing, "V10", "never delivered to its share group", detail, proven)
