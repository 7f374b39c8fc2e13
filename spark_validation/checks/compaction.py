"""V16 compaction: the last value of every key survives, nothing goes early, and survivors are what
was sent."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from loadtest.record import TOMBSTONE
from spark_validation.anomalies import findings, kinds
from spark_validation.checks.batches import transactional
from spark_validation.checks.retention import checkpoint
from spark_validation.checks.transactions import COMMITTED
from spark_validation.evidence import CONTROL, IDENTITY, PLACE, VISIBLE, Evidence
from spark_validation.segments.ranges import newest_segments

CONTENT = ["producer", "seq", "record_key", "timestamp_ms", "header_sum"]
KEY = ["topic", "partition", "record_key"]
DELETE_RETENTION_MS = 86_400_000  # Kafka's own
SEEN = "given, and gone without a later one of its key"
ACTIVE = "removed from the active segment"
CLEANED = "cleaned offset within the newest segment"
CLEANER = "cleaner-offset-checkpoint"
YOUNG = "removed within min.compaction.lag.ms"


def compaction(evidence: Evidence) -> DataFrame:
    """V16 of the run's compacted topics."""
    topics = evidence.topics(compacted=True)
    sends = evidence.sends.where(F.col("topic").isin(topics)).join(limits(evidence), ["topic", "partition"])
    log = evidence.log.where(F.col("topic").isin(topics) & (F.col("state") != CONTROL))
    acked = final(evidence, sends.where("status = 0 and offset >= start_offset"))
    newest = acked.groupBy(*KEY).agg(F.max("offset").alias("newest"))
    lost = last_values(evidence, sends, acked.join(newest, KEY), log)
    older = acked.join(newest, KEY)
    return (
        lost.unionByName(too_early(older, log))
        .unionByName(kept_before(older, log))
        .unionByName(changed(evidence, acked, log))
        .unionByName(cleaned(evidence))
    )


def cleaned(evidence: Evidence) -> DataFrame:
    """V16: the log directory's file says that the newest segment was cleaned in part: its records
    would not be cleaned when it is closed. What lies above the log's end is V15's."""
    newest = newest_segments(evidence.data_dirs, evidence.topics(compacted=True))
    rows = []
    for (topic, partition), offset in checkpoint(evidence, CLEANER).items():
        end = evidence.run.ends.get(topic, {}).get(str(partition))
        begin = newest.get((topic, partition), offset)
        if end is not None and begin < offset <= end.high_watermark:
            rows.append((topic, partition, offset, begin))
    found = evidence.table(rows, "topic string, partition int, offset bigint, begin bigint")
    return findings(found, "V16", CLEANED, F.concat_ws(" ", F.lit("it begins at"), "begin"))


def limits(evidence: Evidence) -> DataFrame:
    """A row a partition: where its log starts, its active segment, and until when removals are too
    early."""
    active = newest_segments(evidence.data_dirs, evidence.topics(compacted=True))
    rows = []
    for topic in evidence.run.topics:
        young = evidence.latest_ms - int(topic.config.get("min.compaction.lag.ms", 0))
        dead = evidence.latest_ms - int(topic.config.get("delete.retention.ms", DELETE_RETENTION_MS))
        for partition in range(topic.partitions):
            ends = evidence.run.ends.get(topic.name, {}).get(str(partition))
            start = ends.start_offset if ends else 0
            rows.append(
                (topic.name, partition, start, active.get((topic.name, partition), 1 << 62), young, dead)
            )
    schema = (
        "topic string, partition int, start_offset bigint, active bigint, young_ms bigint, dead_ms bigint"
    )
    return F.broadcast(evidence.table(rows, schema))


def final(evidence: Evidence, acked: DataFrame) -> DataFrame:
    """The acknowledged sends, without those of transactions whose commit was not confirmed: they
    may supersede nothing."""
    ended = evidence.rows("transactions").where(F.col("outcome") == COMMITTED)
    within = acked.where("transaction >= 0").join(
        ended.select("producer", "transaction"), ["producer", "transaction"], "left_semi"
    )
    return acked.where("transaction < 0").unionByName(within)


def last_values(evidence: Evidence, sends: DataFrame, acked: DataFrame, log: DataFrame) -> DataFrame:
    """V16: the last record of a key is gone. An aborted one supersedes nothing; a tombstone may go
    after its time, also one of which no row says that it was sent."""
    kept = log.where(F.col("state") == VISIBLE).groupBy(*KEY).agg(F.max("offset").alias("kept"))
    gone = acked.where("offset = newest").join(kept, KEY, "left").where("kept is null or kept < offset")
    sent_ms = F.col("sent_ns") / 1_000_000
    doubts = sends.where("status != 0 and tombstone").groupBy(*KEY).agg(F.min(sent_ms).alias("doubt_ms"))
    gone = gone.join(doubts, KEY, "left").join(unreported(evidence, sends), "topic", "left")
    gone = gone.withColumn("doubt_ms", F.least("doubt_ms", "killed_ms"))
    over = F.col("tombstone") & F.col("kept").isNull() & (F.col("timestamp_ms") <= F.col("dead_ms"))
    doubtful = F.col("kept").isNull() & F.coalesce(F.col("doubt_ms") <= F.col("dead_ms"), F.lit(False))
    kind = F.when(
        F.col("tombstone") & F.col("kept").isNull(), "tombstone gone before delete.retention.ms"
    ).otherwise("last value of a key is gone")
    return findings(gone.where(~over), "V16", kind, F.concat(F.lit("key "), "record_key"), ~doubtful)


def unreported(evidence: Evidence, sends: DataFrame) -> DataFrame:
    """topic, killed_ms: since when a producer of it that was killed may have sent what no row
    shows."""
    killed = [(p.topic, p.producer, p.started_ns) for p in evidence.producer_clients if p.ended_ns is None]
    frame = evidence.table(killed, "topic string, producer int, started_ns bigint")
    known = sends.groupBy("producer").agg(F.max("sent_ns").alias("sent_ns"))
    since = F.min(F.coalesce("sent_ns", "started_ns") / 1_000_000).alias("killed_ms")
    return F.broadcast(frame.join(known, "producer", "left").groupBy("topic").agg(since))


def seen_and_gone(evidence: Evidence, given: DataFrame) -> DataFrame:
    """V16: a record that was not acknowledged and that readers had, which is gone: though the log
    holds none of its key above it, or too early. given: of delivery.reads_of_removed.

    What was acknowledged is `last_values`' and `too_early`'s. A tombstone may go by itself, and an
    aborted record, which a reader of uncommitted ones may have had.
    """
    topics = evidence.topics(compacted=True)
    columns = [f"r.{name}" for name in ("producer", "seq", "record_key", "flags", "timestamp_ms")]
    rows = given.where(F.col("topic").isin(topics)).select("consumer", *PLACE, *columns)
    rows = rows.where(F.col("flags").bitwiseAND(TOMBSTONE) == 0)
    rows = rows.join(evidence.consumers.select("consumer", "committed"), "consumer")
    rows = rows.where(F.col("committed") | ~F.col("topic").isin(transactional(evidence)))
    rows = rows.groupBy(*PLACE, *IDENTITY, "record_key", "timestamp_ms").agg(
        F.min("consumer").alias("consumer")
    )
    rows = rows.join(evidence.acked.select(*PLACE), PLACE, "left_anti")
    rows = rows.join(limits(evidence), ["topic", "partition"]).where("offset >= start_offset")
    log = evidence.log.where(F.col("topic").isin(topics) & (F.col("state") == VISIBLE))
    known = log.select(*KEY, "offset").unionByName(evidence.acked.select(*KEY, "offset"))
    known = known.groupBy(*KEY).agg(F.max("offset").alias("newest"))
    rows = rows.join(known, KEY, "left")
    buried = evidence.sends.where("tombstone").select(*KEY, F.lit(True).alias("buried")).distinct()
    rows = rows.join(buried, KEY, "left")
    superseded = F.coalesce(F.expr("newest > offset or buried"), F.lit(False))
    found = kinds(
        rows,
        {
            SEEN: ~superseded,
            YOUNG: superseded & F.expr("timestamp_ms > young_ms"),
            ACTIVE: superseded & F.expr("offset >= active"),
        },
    )
    killed = [p.topic for p in evidence.producer_clients if p.ended_ns is None]
    proven = (F.col("kind") != SEEN) | ~F.col("topic").isin(killed)
    return findings(found, "V16", F.col("kind"), F.concat(F.lit("key "), "record_key"), proven)


def too_early(acked: DataFrame, log: DataFrame) -> DataFrame:
    """V16: superseded records that are gone though no compaction may have touched them yet."""
    gone = acked.where("offset < newest").join(log.select(*PLACE), PLACE, "left_anti")
    found = kinds(
        gone,
        {
            YOUNG: F.col("timestamp_ms") > F.col("young_ms"),
            ACTIVE: F.col("offset") >= F.col("active"),
        },
    )
    return findings(found, "V16", F.col("kind"), F.concat(F.lit("key "), "record_key"))


def kept_before(acked: DataFrame, log: DataFrame) -> DataFrame:
    """V16: superseded records that are there though one of their key above them is gone, superseded
    as well: a pass goes through the log from its start."""
    gone = acked.where("offset < newest").join(log.select(*PLACE), PLACE, "left_anti")
    gone = gone.groupBy(*KEY).agg(F.max("offset").alias("gone"))
    there = log.where(F.col("state") == VISIBLE).join(gone, KEY).where("offset < gone")
    detail = F.concat_ws(" ", F.lit("key"), "record_key", F.lit("gone is"), "gone")
    return findings(there, "V16", "kept though a later one of its key was removed", detail)


def changed(evidence: Evidence, acked: DataFrame, log: DataFrame) -> DataFrame:
    """V16: at an acknowledged place another record or value; an acknowledged record at another
    place."""
    sent = acked.select(*PLACE, *[F.col(name).alias(f"sent_{name}") for name in CONTENT])
    beside = log.join(sent, PLACE)
    differs = ~F.col("intact")
    stamps = evidence.append_time_topics
    for name in CONTENT:
        unlike = F.col(name) != F.col(f"sent_{name}")
        differs |= unlike & ~F.col("topic").isin(stamps) if name == "timestamp_ms" else unlike
    once = F.broadcast(evidence.producers.where("idempotent").select("producer"))
    places = acked.join(once, "producer").select(
        "topic", *IDENTITY, F.col("partition").alias("sent_partition"), F.col("offset").alias("sent_offset")
    )
    moved = log.join(places, ["topic", *IDENTITY]).where(
        "partition != sent_partition or offset != sent_offset"
    )
    moved = moved.join(sent.select(*PLACE), PLACE, "left_anti")  # those differ by what is sent there
    kind = "survivor changed or moved"
    return findings(beside.where(differs), "V16", kind, F.lit(None)).unionByName(
        findings(moved, "V16", kind, F.concat_ws(" ", F.lit("was at"), "sent_partition", "sent_offset"))
    )
