"""V03 of DeleteRecords: once it is confirmed, a read that begins is given nothing below its offset.

A consumer may have fetched a record long before it is given it, so the time of a delivery proves
nothing. What proves that a read began later is that the partition was assigned later, or that the
consumer was started later: neither has records of before.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_validation.anomalies import findings
from spark_validation.checks.delivery import READER
from spark_validation.evidence import Evidence

SERVED = "below a confirmed DeleteRecords"
REQUEST_NS = 60_000_000_000
"""A confirmed request whose answer has no time was answered within this time: the default of
clients for all requests of administrators."""


def reads_of_deleted(evidence: Evidence) -> DataFrame:
    """V03 of reads that began after a confirmed DeleteRecords, and were given what it deleted; also
    of members of share groups that were started after it.

    Of drains that were given what lies below the log's start there is a finding already.
    """
    rows = [
        (d.topic, d.partition, d.offset, d.asked_ns + REQUEST_NS if d.answered_ns is None else d.answered_ns)
        for d in evidence.run.deletions
        if d.confirmed
    ]
    deleted = evidence.table(rows, "topic string, partition int, deleted bigint, confirmed_ns bigint")
    columns = ["consumer", "assignment", "topic", "partition", "offset", "position", "producer", "seq"]
    shared = evidence.rows("shares").withColumns({"assignment": F.lit(-1), "position": F.lit(-1)})
    given_all = evidence.reads.select(*columns).unionByName(shared.select(*columns))
    near = given_all.join(F.broadcast(deleted), ["topic", "partition"]).where("offset < deleted")
    key = [*READER, "topic", "partition"]
    given = evidence.begun().groupBy(*key).agg(F.min("at_ns").alias("given_ns"))
    started = [(c.consumer, c.started_ns, c.role == "drain") for c in evidence.consumer_clients]
    clients = evidence.table(started, "consumer int, started_ns bigint, drains boolean")
    near = near.join(given, key, "left").join(F.broadcast(clients), "consumer")
    near = near.withColumn("began_ns", F.greatest("started_ns", F.coalesce("given_ns", "started_ns")))
    near = near.join(
        evidence.ends.select("topic", "partition", "start_offset"), ["topic", "partition"], "left"
    )
    known = F.col("drains") & F.expr("coalesce(offset < start_offset, false)")
    wrong = near.where(~known & F.expr("began_ns > confirmed_ns"))
    wrong = wrong.dropDuplicates([*key, "position", "offset"])
    detail = F.concat_ws(
        " ",
        F.lit("deleted up to"),
        "deleted",
        F.lit("confirmed at ns"),
        "confirmed_ns",
        F.lit("began"),
        "began_ns",
    )
    return findings(wrong, "V03", SERVED, detail)
