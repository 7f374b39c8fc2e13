"""Digests of buckets of 4096 offsets: what agrees in count and hash needs no join of records.

Comparing 100 million sends with 100 million log records by a join would shuffle and sort both.
Their digests are made where the rows are read and are a few thousand rows; only buckets that differ
are joined record by record. A bucket whose records differ and whose digests agree would take an
accident of 2^-64.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_validation.evidence import CONTROL, PLACE, VISIBLE, Evidence, bucket

BUCKET = ["topic", "partition", "bucket"]
SAMPLED_SENDS = 1000
SHARED = [
    "offset",
    "producer",
    "seq",
    "partition_seq",
    "record_key",
    "intended_ns",
    "header_sum",
]  # of sends, log and reads


def content_hash(intact: Column, stamp: Column) -> Column:
    """Hash of a record's place and content, the same for a send and the log. stamp:
    `Evidence.sent_stamp`."""
    return F.xxhash64(*SHARED, intact, stamp)


def read_hash(intact: Column) -> Column:
    """Hash of a record's place and content, the same for the log and a read: it includes the
    timestamp and flags, which a send does not know."""
    return F.xxhash64(*SHARED, intact, "timestamp_ms", "flags")


def send_digests(evidence: Evidence) -> DataFrame:
    """BUCKET, sent, sent_hash of acknowledged sends with an offset."""
    hashed = evidence.acked.select(
        "topic", "partition", bucket(), content_hash(F.lit(True), evidence.sent_stamp()).alias("h")
    )
    return hashed.groupBy(*BUCKET).agg(F.count("*").alias("sent"), F.bit_xor("h").alias("sent_hash"))


def log_digests(evidence: Evidence) -> DataFrame:
    """BUCKET and of the log: count and hash of records that are in sends, of those visible to
    read_committed, of all.

    first, last, offsets: of the bucket, markers among them.
    """
    data = F.col("state") != CONTROL
    visible = F.col("state") == VISIBLE
    reported = data
    if evidence.silent_producers:
        reported = data & ~F.col("producer").isin(evidence.silent_producers)
    hashed = evidence.log.select(
        "topic",
        "partition",
        bucket(),
        "offset",
        F.when(reported, content_hash(F.col("intact"), evidence.sent_stamp())).alias("reported"),
        F.when(data, read_hash(F.col("intact"))).alias("any"),
        F.when(visible, read_hash(F.col("intact"))).alias("shown"),
    )
    return hashed.groupBy(*BUCKET).agg(
        F.count("*").alias("offsets"),
        F.min("offset").alias("first"),
        F.max("offset").alias("last"),
        F.count("reported").alias("reported"),
        F.bit_xor("reported").alias("reported_hash"),
        F.count("any").alias("any"),
        F.bit_xor("any").alias("any_hash"),
        F.count("shown").alias("shown"),
        F.bit_xor("shown").alias("shown_hash"),
    )


def read_digests(evidence: Evidence) -> DataFrame:
    """consumer, assignment, BUCKET, reads, read_hash, first_read, last_read."""
    hashed = evidence.reads.select(
        "consumer",
        "assignment",
        "topic",
        "partition",
        bucket(),
        "offset",
        read_hash(F.col("intact")).alias("h"),
    )
    return hashed.groupBy("consumer", "assignment", *BUCKET).agg(
        F.count("*").alias("reads"),
        F.bit_xor("h").alias("read_hash"),
        F.min("offset").alias("first_read"),
        F.max("offset").alias("last_read"),
    )


def of_these_sends(evidence: Evidence) -> DataFrame:
    """Records of the log that are, but for their values, what some of the sends say of their
    places."""
    known = ["intended_ns", "timestamp_ms", "record_key"]
    some = evidence.acked.limit(SAMPLED_SENDS).select(
        *PLACE, *[F.col(name).alias(f"sent_{name}") for name in known]
    )
    stamped = F.expr("timestamp_ms = sent_timestamp_ms and record_key = sent_record_key")
    return evidence.log.join(F.broadcast(some), PLACE).where(
        F.expr("intended_ns = sent_intended_ns") | stamped
    )


def unequal_sends(sends: DataFrame, log: DataFrame) -> DataFrame:
    """BUCKETs where sends and log differ."""
    both = sends.join(log.where("reported > 0"), BUCKET, "full")
    same = F.col("sent").eqNullSafe(F.col("reported")) & F.col("sent_hash").eqNullSafe(F.col("reported_hash"))
    return both.where(~same).select(*BUCKET)


def unequal_reads(evidence: Evidence, reads: DataFrame, log: DataFrame) -> DataFrame:
    """consumer, assignment, BUCKET where what a consumer was given is not what the log holds, or
    nothing was given.

    With span_first, span_last: what the consumer read of the partition in the assignment; a drain
    consumer that got to the end is held to the whole log.
    """
    spans = reads.groupBy("consumer", "assignment", "topic", "partition").agg(
        F.min("first_read").alias("span_first"), F.max("last_read").alias("span_last")
    )
    drains = evidence.consumers.where("role = 'drain' and finished").select("consumer")
    # also those of which nothing is left, and the drain was given records
    partitions = log.select("topic", "partition").unionByName(reads.select("topic", "partition")).distinct()
    asked_for = [
        (c.consumer, topic)
        for c in evidence.consumer_clients
        if c.role == "drain" and c.finished
        for topic in c.topics
    ]
    requested = evidence.table(asked_for, "consumer int, topic string")
    whole = partitions.join(F.broadcast(requested), "topic").select(
        "consumer", F.lit(-1).alias("assignment"), "topic", "partition"
    )
    far = F.lit(1 << 62).cast("bigint")
    whole = whole.withColumns({"span_first": F.lit(0).cast("bigint"), "span_last": far})
    spans = spans.join(drains, "consumer", "left_anti").unionByName(whole)
    spans = spans.join(evidence.consumers, "consumer")
    expected = (
        log.join(F.broadcast(spans), ["topic", "partition"])
        .where(
            (F.col("bucket") >= F.shiftright("span_first", 12))
            & (F.col("bucket") <= F.shiftright("span_last", 12))
        )
        .withColumn("wanted", F.when(F.col("committed"), F.col("shown")).otherwise(F.col("any")))
        .withColumn(
            "wanted_hash", F.when(F.col("committed"), F.col("shown_hash")).otherwise(F.col("any_hash"))
        )
        .select("consumer", "assignment", *BUCKET, "wanted", "wanted_hash")
        .where("wanted > 0")
    )
    both = expected.join(reads, ["consumer", "assignment", *BUCKET], "full")
    same = F.col("reads").eqNullSafe(F.col("wanted")) & F.col("read_hash").eqNullSafe(F.col("wanted_hash"))
    found = both.where(~same).select("consumer", "assignment", *BUCKET)
    return found.join(
        spans.select(
            "consumer", "assignment", "topic", "partition", "span_first", "span_last", "role", "committed"
        ),
        ["consumer", "assignment", "topic", "partition"],
    )
