"""V20 real time: each partition is linearizable as an append-only log, and so is each key.

Times are those of one machine's monotonic clock (loadtest/clock.py), so they are compared as they
are, without a tolerance. `sent_ns` is taken before a record is handed to the client library,
`acked_ns` and `seen_ns` after it was given back: what seems to be one after the other was so.
"""

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_validation.anomalies import findings
from spark_validation.checks.delivery import READER
from spark_validation.evidence import IDENTITY, PARTITION, PLACE, Evidence
from spark_validation.order import ROWS_BEFORE
from spark_validation.real_time import ALWAYS, NEVER, examined

FINE_BITS = 7  # places, two an offset, whose times are compared as one
GROUP_BITS = 14  # places that are examined in one go
OVERTAKEN = "below a record that was done before it was sent"
MISSED = "a later read ended below it"
KEY_ORDER = "read after a later record of its key"
FOUND = "topic string, partition int, offset bigint, producer int, seq bigint, kind string, at_ns bigint"


def violations(evidence: Evidence) -> DataFrame:
    """V20 of appends and reads: a row for each record and kind."""
    found = out_of_order(operations(evidence))
    when = F.when(F.col("kind") == OVERTAKEN, "that was done at ns").otherwise("that began at ns")
    return findings(found, "V20", F.col("kind"), F.concat_ws(" ", when, "at_ns"))


def out_of_order(items: DataFrame) -> DataFrame:
    """FOUND: a row for each record and kind among rows of `operation`."""
    block = F.shiftright("place", FINE_BITS).alias("block")
    near = items.select("*", block).join(suspects(items.select("*", block)), [*PARTITION, "block"])
    found = near.groupBy(*PARTITION, F.shiftright("place", GROUP_BITS)).applyInArrow(_examine, FOUND)
    return found.dropDuplicates([*PLACE, "kind"])


def operations(evidence: Evidence) -> DataFrame:
    """Every operation of the judged topics' logs that the histories hold, see operation."""
    reads = evidence.reads.withColumn("end_offset", F.col("offset") + 1)
    seen = operation(reads, place="end_offset * 2", done="seen_ns")
    shared = evidence.rows("shares").withColumn("end_offset", F.col("offset") + 1)
    shared = operation(shared, place="end_offset * 2", done="acquired_ns")
    known = operation(reads_to_the_end(evidence), place="end_offset * 2", asked="asked_ns")
    return appends(evidence).unionByName(seen).unionByName(shared).unionByName(known)


def appends(evidence: Evidence) -> DataFrame:
    """Acknowledged sends, and those of an unknown outcome that are in the log: whenever these took
    effect, it was after the send.

    What a leader alone acknowledged (acks=1) may be lost with it: done when a reader has seen it.
    """
    acked = evidence.acked
    alone = [client.producer for client in evidence.producer_clients if client.acks != "all"]
    if alone:
        acked = acked.withColumn(
            "acked_ns", F.when(~F.col("producer").isin(alone), F.col("acked_ns")).otherwise(_ns(NEVER))
        )
    known = operation(acked, place="offset * 2 + 1", sent="sent_ns", done="acked_ns")
    found = evidence.unanswered.where("topic = sent_to")
    return known.unionByName(operation(found, place="offset * 2 + 1", sent="sent_ns"))


def reads_to_the_end(evidence: Evidence) -> DataFrame:
    """topic, partition, end_offset, asked_ns of reads whose begin and end are known: the request
    for the logs' ends when everything had stopped, and drains with read_uncommitted that reached
    the end. Drains of compacted topics are left out, whose last records may be gone."""
    rows = []
    if evidence.run.ends_ns is not None:
        rows = [
            (topic, int(partition), end.high_watermark, evidence.run.ends_ns)
            for topic, partitions in evidence.run.ends.items()
            for partition, end in partitions.items()
        ]
    schema = "topic string, partition int, end_offset bigint, asked_ns bigint"
    return evidence.table(rows, schema).unionByName(drained(evidence))


def drained(evidence: Evidence) -> DataFrame:
    """topic, partition, end_offset, asked_ns of drains: each began when it was started, and ended
    after the last record that it was given."""
    drains = [
        (c.consumer, topic, c.started_ns)
        for c in evidence.consumer_clients
        if c.role == "drain"
        and c.finished
        and c.isolation == "read_uncommitted"
        and c.consumer not in evidence.lossy_consumers
        for topic in c.topics
        if topic in evidence.topics()
    ]
    begun = evidence.table(drains, "consumer int, topic string, asked_ns bigint")
    given = evidence.reads.where(F.col("consumer").isin(sorted({drain[0] for drain in drains})))
    last = given.groupBy("consumer", *PARTITION).agg((F.max("offset") + 1).alias("end_offset"))
    both = last.join(F.broadcast(begun), ["consumer", "topic"])
    return both.select(*PARTITION, "end_offset", "asked_ns")


def operation(
    frame: DataFrame, place: str, sent: str | None = None, done: str | None = None, asked: str | None = None
) -> DataFrame:
    """PARTITION, place, IDENTITY, sent_ns, done_ns, asked_ns, as spark_validation.real_time has
    them; what is not named is not known."""
    columns = {
        "place": F.expr(place).cast("bigint"),
        "producer": F.col("producer") if "producer" in frame.columns else F.lit(None).cast("int"),
        "seq": F.col("seq") if "seq" in frame.columns else F.lit(None).cast("bigint"),
        "sent_ns": F.col(sent) if sent else _ns(ALWAYS),
        "done_ns": F.col(done) if done else _ns(NEVER),
        "asked_ns": F.col(asked) if asked else _ns(ALWAYS),
    }
    return frame.select(*PARTITION, *[column.alias(name) for name, column in columns.items()])


def suspects(items: DataFrame) -> DataFrame:
    """PARTITION, block, later_ns, earlier_ns: the blocks in which real time may be violated, with
    the times of what lies above and below them."""
    blocks = items.groupBy(*PARTITION, "block").agg(
        F.min("done_ns").alias("done"), F.max("sent_ns").alias("sent"), F.max("asked_ns").alias("asked")
    )
    rising = Window.partitionBy(*PARTITION).orderBy("block")
    falling = Window.partitionBy(*PARTITION).orderBy(F.desc("block"))
    above, below = (window.rowsBetween(*ROWS_BEFORE) for window in (falling, rising))
    beside = blocks.withColumns(
        {
            "later_ns": F.coalesce(F.min("done").over(above), _ns(NEVER)),
            "earlier_ns": F.coalesce(F.max("asked").over(below), _ns(ALWAYS)),
        }
    )
    overtaken = F.col("sent") > F.least("done", "later_ns")
    missed = F.col("done") < F.greatest("asked", "earlier_ns")
    return beside.where(overtaken | missed).select(*PARTITION, "block", "later_ns", "earlier_ns")


def _examine(table: pa.Table) -> pa.Table:
    """FOUND: the violations among the rows of a group. They are those of whole suspect blocks."""
    names = ("place", "sent_ns", "done_ns", "asked_ns", "later_ns", "earlier_ns")
    rows = [table[name].to_numpy() for name in names]
    seen = examined(*rows)
    tables = []
    for kind, times, nothing in ((OVERTAKEN, seen.overtaken_ns, NEVER), (MISSED, seen.missed_ns, ALWAYS)):
        at = (times != nothing).nonzero()[0]
        columns = {name: table[name].take(pa.array(at)) for name in (*PARTITION, *IDENTITY)}
        columns |= {"offset": pa.array((rows[0][at] - 1) >> 1), "at_ns": pa.array(times[at])}
        columns["kind"] = pa.array([kind] * len(at), pa.string())
        tables.append(pa.table({field.split()[0]: columns[field.split()[0]] for field in FOUND.split(", ")}))
    return pa.concat_tables(tables)


def keys_as_read(evidence: Evidence, places: DataFrame) -> DataFrame:
    """V20 of keys, in partitions where something was found out of its place: each reader is given
    the records of a key in the order of their acknowledged offsets.

    In the other partitions every reader was given what the log holds, in its order, and the log
    holds each record where it was acknowledged: nothing is left to compare. Records of producers
    without idempotence may be in the log, and be read, twice.
    """
    near = F.broadcast(places.select(*PARTITION).distinct())
    once = evidence.producers.where("idempotent").select("producer")
    sends = evidence.acked.join(near, PARTITION, "left_semi")
    sends = sends.join(once, "producer", "left_semi").select("topic", *IDENTITY, F.col("offset").alias("own"))
    reads = evidence.reads.where("intact")  # of another record the numbers say nothing
    both = reads.join(near, PARTITION, "left_semi").join(sends, ["topic", *IDENTITY])
    window = Window.partitionBy(*READER, *PARTITION, "record_key").orderBy("position")
    reached = F.max("own").over(window.rowsBetween(*ROWS_BEFORE))
    back = both.withColumn("reached", reached).where("own < reached")
    detail = F.concat_ws(" ", F.lit("acknowledged at"), "own", F.lit("after that of"), "reached")
    return findings(back, "V20", KEY_ORDER, detail)


def _ns(value: int) -> Column:
    return F.lit(value).cast("bigint")
