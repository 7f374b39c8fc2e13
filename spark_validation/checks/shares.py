"""V19 share delivery, and V03, V10, V11 of share groups: each record is acknowledged once, or comes
again by the rules.

Deliveries of a record are told apart by their delivery count, which the broker raises with each; a
member may look at what it was given much later than others at the next delivery, so times alone
prove nothing.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_validation.anomalies import findings, kinds
from spark_validation.evidence import ABORTED, CONTROL, OPEN, PLACE, VISIBLE, Evidence

NOTHING, ACCEPT, RELEASE, REJECT = range(4)
RECORD = ["group", "topic", "partition", "offset"]
CONTENT = ["producer", "seq", "partition_seq", "record_key", "intended_ns", "timestamp_ms", "flags", "intact"]
CONTENT += ["header_sum"]
LIMIT, LOCK_MS = 5, 30_000  # share.delivery.count.limit, share.record.lock.duration.ms: Kafka's own
SLACK_MS = 1000


def deliveries(evidence: Evidence) -> DataFrame:
    return evidence.rows("shares").withColumnsRenamed({"key": "record_key"})


def undisturbed(evidence: Evidence) -> bool:
    """No fault was put into the run and no member was killed: each delivery has a row, and nothing
    freed a lock."""
    faults = evidence.folder / "faults.jsonl"
    calm = not faults.exists() or not faults.read_text().strip()
    return calm and all(c.ended_ns is not None for c in evidence.consumer_clients if c.role == "share")


def repeated(evidence: Evidence) -> DataFrame:
    """V19: deliveries that the acknowledgements and counts before them do not allow."""
    limit = int(evidence.run.settings.get("share_delivery_limit", LIMIT))
    lock_ns = (int(evidence.run.settings.get("share_lock_ms", LOCK_MS)) - SLACK_MS) * 1_000_000
    order = Window.partitionBy(*RECORD).orderBy("delivery", "acquired_ns", "consumer")
    before = order.rowsBetween(Window.unboundedPreceding, -1)
    confirmed = F.col("error") == 0

    def ever(ack: int) -> Column:
        return F.coalesce(F.max((F.col("ack") == ack) & confirmed).over(before), F.lit(False))

    previous = F.struct("consumer", "acquired_ns", "asked_ns", "ack", "delivery")
    seen = deliveries(evidence).withColumns(
        {"accepted": ever(ACCEPT), "rejected": ever(REJECT), "last": F.lag(previous).over(order)}
    )
    held = F.when(F.col("last.ack") == NOTHING, F.col("last.acquired_ns") + lock_ns).otherwise(
        F.least(F.col("last.asked_ns"), F.col("last.acquired_ns") + lock_ns)
    )
    found = kinds(
        seen,
        {
            "delivered after it was accepted": F.col("accepted"),
            "delivered after it was rejected": F.col("rejected"),
            "two deliveries with one count": F.expr("delivery >= 0 and delivery = last.delivery"),
            "delivered more often than its limit": F.col("delivery") > limit,
            "delivered while another delivery held it": (F.col("acquired_ns") < held)
            & ~F.col("accepted")
            & ~F.col("rejected"),
            "first delivery has not the count 1": F.col("last").isNull() & (F.col("delivery") > 1),
        },
    )
    # a member that leaves lets go of what its client had fetched and it had not looked at
    proven = (F.col("kind") != "first delivery has not the count 1") & (
        (F.col("kind") != "delivered while another delivery held it") | F.lit(undisturbed(evidence))
    )
    detail = F.concat_ws(
        " ", F.lit("group"), "group", F.lit("delivery"), "delivery", F.lit("last"), F.to_json("last")
    )
    return findings(found, "V19", F.col("kind"), detail, proven)


def unlike(evidence: Evidence) -> DataFrame:
    """V03 and V11: what a member was given, against the log."""
    given = deliveries(evidence).withColumn("header_sum", F.coalesce("header_sum", F.lit(0)))
    given = given.select("consumer", *PLACE, F.struct(*CONTENT).alias("r"))
    log = evidence.log.where(F.col("state") != CONTROL).select(*PLACE, F.struct(*CONTENT, "state").alias("l"))
    both = given.join(log, PLACE, "left").join(evidence.ends, ["topic", "partition"], "left")
    both = both.join(evidence.consumers.select("consumer", "committed"), "consumer", "left")
    differs = F.lit(False)
    for name in CONTENT:
        differs |= ~F.col(f"r.{name}").eqNullSafe(F.col(f"l.{name}"))
    kept = F.expr("offset >= coalesce(start_offset, 0)") & ~F.col("topic").isin(
        evidence.topics(compacted=True)
    )
    hidden = F.col("l").isNotNull() & F.col("committed")
    found = kinds(
        both.select("*", "r.producer", "r.seq"),
        {
            "not in the log": F.col("l").isNull() & kept,
            "another record or value": F.col("l").isNotNull() & differs,
            "aborted in the log": hidden & (F.col("l.state") == ABORTED),
            "still open in the log": hidden & (F.col("l.state") == OPEN),
        },
    )
    anomaly = F.when(F.col("kind").endswith("in the log") & F.col("l").isNotNull(), "V11").otherwise("V03")
    return findings(found, anomaly, F.col("kind"), F.to_json("r"))


def undelivered(evidence: Evidence) -> DataFrame:
    """V10: visible records that no member of a share group was given, where members read until
    nothing came."""
    members = [c for c in evidence.consumer_clients if c.role == "share" and c.group]
    done = {c.group for c in members if c.finished} - {c.group for c in members if c.ended_ns is None}
    rows = [
        (c.group, topic, c.isolation == "read_committed", c.offset_reset == "earliest")
        for c in members
        if c.group in done
        for topic in c.topics
    ]
    schema = "`group` string, topic string, committed boolean, earliest boolean"
    wanted = evidence.spark.createDataFrame(sorted(set(rows)), schema)
    given = deliveries(evidence)
    first = given.groupBy("group", "topic", "partition").agg(F.min("offset").alias("first"))
    log = evidence.log.where(F.col("state") != CONTROL).join(F.broadcast(wanted), "topic")
    log = log.where(~F.col("committed") | (F.col("state") == VISIBLE))
    log = log.join(F.broadcast(first), ["group", "topic", "partition"], "left")
    log = log.join(evidence.ends, ["topic", "partition"], "left")
    begin = F.when(F.col("earliest"), F.coalesce("start_offset", F.lit(0))).otherwise(F.col("first"))
    missing = log.where(F.col("offset") >= begin).join(given.select(*RECORD).distinct(), RECORD, "left_anti")
    return findings(missing, "V10", "never delivered to its share group", F.concat(F.lit("group "), "group"))
