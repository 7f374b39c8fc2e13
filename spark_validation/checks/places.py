"""V01 lost, V02 misplaced, V04 duplicate, V05 phantom: what was sent against what the log holds."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from loadtest.history import SendStatus
from spark_validation.anomalies import findings
from spark_validation.digests import BUCKET
from spark_validation.evidence import CONTROL, FOREIGN, IDENTITY, PLACE, Evidence, bucket

SLACK_MS = 1000
OTHER_RUN = "a record of another run"
OTHER_KEYS = "acknowledged in another partition than its key's"
WHO = ["producer", "seq", "partition_seq", "intended_ns"]
DESCRIBED = [*WHO, "record_key", "timestamp_ms", "header_sum"]


def sent_and_found(evidence: Evidence, suspects: DataFrame) -> DataFrame:
    """Acknowledged sends (s) beside the log's records (l), by place, in suspect buckets."""
    near = F.broadcast(suspects)
    sends = evidence.acked.withColumn("bucket", bucket()).join(near, BUCKET)
    log = evidence.log.where(F.col("state") != CONTROL).withColumn("bucket", bucket()).join(near, BUCKET)
    sends = sends.select(*PLACE, F.struct(*DESCRIBED, "acked_ns").alias("s"))
    log = log.select(*PLACE, F.struct(*DESCRIBED, "intact", "state").alias("l"))
    return sends.join(log, PLACE, "full")


def lost(evidence: Evidence, placed: DataFrame) -> DataFrame:
    """V01: acknowledged, not below the log's start, and nothing is at its offset."""
    kept = placed.where(F.col("topic").isin(evidence.topics()))
    gone = kept.where("s is not null and l is null").join(evidence.ends, ["topic", "partition"], "left")
    gone = gone.where("offset >= coalesce(start_offset, 0)").select(
        *PLACE, "s.producer", "s.seq", "high_watermark", "s.acked_ns"
    )
    behind = F.col("offset") >= F.coalesce("high_watermark", F.col("offset") + 1)
    kind = F.when(behind, "beyond the log's end").otherwise("nothing at its offset")
    return findings(gone, "V01", kind, F.concat(F.lit("acknowledged at ns "), "acked_ns"))


def lost_without_offset(evidence: Evidence) -> DataFrame:
    """V01: acknowledged without an offset, as a repeat is, by a broker that promises one, and not
    in the log at all."""
    unplaced = evidence.sends.where("status = 0 and offset < 0").where(F.col("topic").isin(evidence.topics()))
    if evidence.silent_producers:
        unplaced = unplaced.where(~F.col("producer").isin(evidence.silent_producers))
    moved = evidence.ends.where("start_offset > 0").select("topic", "partition")
    kept = unplaced.join(moved, ["topic", "partition"], "left_anti")
    if kept.isEmpty():
        return findings(kept, "V01", "nowhere in the log", F.lit(None))
    held = evidence.log.where(F.col("state") != CONTROL).select(*IDENTITY)
    held = held.join(F.broadcast(kept.select(*IDENTITY)), IDENTITY, "left_semi")
    gone = kept.join(held, IDENTITY, "left_anti").withColumn("offset", F.lit(None))
    return findings(gone, "V01", "nowhere in the log", F.concat(F.lit("acknowledged at ns "), "acked_ns"))


def difference(evidence: Evidence, sent: str = "s", held: str = "l") -> Column:
    """The difference between a send and a record of the log with its place or identity; null when
    nothing does."""
    unlike = {name: F.col(f"{sent}.{name}") != F.col(f"{held}.{name}") for name in DESCRIBED}
    another = F.lit(False)
    for name in WHO:
        another |= unlike[name]
    stamped = ~F.col("topic").isin(evidence.append_time_topics) & (F.col(f"{sent}.timestamp_ms") >= 0)
    return (
        F.when(F.col(f"{held}.producer") == FOREIGN, OTHER_RUN)
        .when(~F.col(f"{held}.intact"), "altered value")
        .when(another, "another record")
        .when(unlike["record_key"], "another key")
        .when(unlike["timestamp_ms"] & stamped, "another timestamp")
        .when(unlike["header_sum"], "other headers")
    )


def displaced(beside: DataFrame, known: str, held: str) -> DataFrame:
    """topic, partition of records at whose place another one was acknowledged, or read."""
    unlike = [F.col(f"{known}.{name}") != F.col(f"{held}.{name}") for name in IDENTITY]
    return beside.where(unlike[0] | unlike[1]).select("topic", "partition")


def held_detail() -> Column:
    parts = (("producer", "producer"), ("seq", "seq"), ("key", "record_key"), ("timestamp", "timestamp_ms"))
    reported = [
        column for label, name in parts for column in (F.lit(label), F.col(f"l.{name}").cast("string"))
    ]
    return F.concat_ws(
        " ", F.lit("there is"), *reported, F.lit("headers"), F.col("l.header_sum").cast("string")
    )


def misplaced(evidence: Evidence, placed: DataFrame) -> DataFrame:
    """V02: at an acknowledged offset another record, key, timestamp or headers, or an altered
    value."""
    both = placed.where("s is not null and l is not null").withColumn("kind", difference(evidence))
    wrong = both.where("kind is not null").select(*PLACE, "s.producer", "s.seq", "l", "kind")
    return findings(wrong, "V02", F.col("kind"), held_detail())


def altered_records(evidence: Evidence, strange: DataFrame) -> DataFrame:
    """V02 of records whose place was not acknowledged: what their client sent, as far as it could
    say that.

    A record of an unknown outcome, or of acks=0, against its send; one without a row against what
    every record keeps: its key's partition, its producer's topic, and a time after it was intended.
    """
    unsure = evidence.sends.where("status = 2 or (status = 0 and offset < 0)")
    sent = unsure.select(
        *IDENTITY,
        F.struct(*DESCRIBED).alias("s"),
        F.col("topic").alias("sent_topic"),
        F.col("partition").alias("sent_partition"),
    )
    near = few(evidence, strange.select(*IDENTITY).distinct())
    beside = strange.join(sent.join(near, IDENTITY, "left_semi"), IDENTITY, "left")
    clients = [(p.producer, p.topic) for p in evidence.producer_clients]
    homes = evidence.table(clients, "producer int, home string")
    beside = beside.join(F.broadcast(homes), "producer", "left").join(evidence.sizes, "topic")
    elsewhere = (F.col("topic") != F.col("home")) | (F.col("partition") != F.col("sent_partition"))
    stamp = F.col("l.timestamp_ms")
    early = stamp < F.col("l.intended_ns") / 1_000_000 - SLACK_MS
    late = F.lit(False) if evidence.run.ended_ns is None else stamp > evidence.ends_ms + SLACK_MS
    stamped = ~F.col("topic").isin(evidence.append_time_topics)
    if evidence.clock_moved:
        stamped = F.lit(False)
    kind = (
        F.when(F.col("s").isNotNull(), difference(evidence))
        .when(F.coalesce(elsewhere, F.lit(False)), "another partition")
        .when(F.pmod("l.record_key", "partitions") != F.col("partition"), "another key")
        .when((early | late) & stamped & F.col("s").isNull(), "another timestamp")
    )
    kind = F.coalesce(kind, F.when(F.coalesce(elsewhere, F.lit(False)), "another partition"))
    named = beside.where("producer >= 0 and l.intact").withColumn("kind", kind).where("kind is not null")
    return findings(named, "V02", F.col("kind"), held_detail())


def wrong_partitions(evidence: Evidence) -> DataFrame:
    """V02: acknowledged in another partition than that of its key, whatever the log says."""
    sends = evidence.sends.where("status = 0").join(evidence.sizes, "topic")
    wrong = sends.where("pmod(record_key, partitions) <> partition")
    return findings(wrong, "V02", OTHER_KEYS, F.concat_ws(" ", F.lit("key"), "record_key"))


def append_times(evidence: Evidence) -> DataFrame:
    """V02: a time of append that lies outside of its request, where the broker sets the
    timestamps. A request without an answer may take until the end of the run."""
    topics = evidence.append_time_topics
    columns = [*PLACE, *IDENTITY, "sent_ns", "acked_ns"]
    ended_ns = F.lit(evidence.run.ends_ns or evidence.run.ended_ns or 1 << 62)
    unsure = evidence.unanswered.where("topic = sent_to").withColumn("acked_ns", ended_ns)
    sends = evidence.acked.select(*columns).unionByName(unsure.select(*columns))
    log = evidence.log.where(F.col("topic").isin(topics) & (F.col("state") != CONTROL))
    log = log.select(*PLACE, F.col("timestamp_ms").alias("append_ms"))
    both = sends.where(F.col("topic").isin(topics)).join(log, PLACE)
    first, last = F.col("sent_ns") / 1_000_000 - SLACK_MS, F.col("acked_ns") / 1_000_000 + SLACK_MS
    wrong = both.where(~F.col("append_ms").between(first, last))
    detail = F.concat_ws(" ", F.lit("appended at ms"), "append_ms", F.lit("sent at ns"), "sent_ns")
    return findings(wrong, "V02", "append time outside of its request", detail)


def unacknowledged(evidence: Evidence, placed: DataFrame) -> DataFrame:
    """Records of the log without an acknowledged send at their place: PLACE, IDENTITY, intact, and
    l, the record."""
    found = placed.where("s is null and l is not null").select(*PLACE, "l.producer", "l.seq", "l.intact", "l")
    if evidence.silent_producers:
        found = found.where(~F.col("producer").isin(evidence.silent_producers))
    return found


def without_offsets(evidence: Evidence) -> DataFrame:
    """All records of producers that get no offsets (acks=0), with the columns of
    `unacknowledged`."""
    log = evidence.log.where((F.col("state") != CONTROL) & F.col("producer").isin(evidence.silent_producers))
    return log.select(*PLACE, *IDENTITY, "intact", F.struct(*DESCRIBED, "intact", "state").alias("l"))


def few(evidence: Evidence, frame: DataFrame) -> DataFrame:
    """Broadcast, unless it holds all records of producers with acks=0."""
    return frame if evidence.silent_producers else F.broadcast(frame)


def phantoms(evidence: Evidence, strange: DataFrame) -> DataFrame:
    """V05, and V02 of records that nothing was acknowledged for.

    A record that was acknowledged at another place is no phantom: either it lies there too and is
    V04's, or that place is convicted already.
    """
    strange = strange.drop("l")
    known = few(evidence, strange.select(*IDENTITY).distinct())
    sends = evidence.sends.join(known, IDENTITY).groupBy(*IDENTITY).agg(F.min("status").alias("status"))
    intents = F.broadcast(evidence.intents.withColumnRenamed("producer", "intender"))
    within = F.expr("producer = intender and seq between first_seq and last_seq")
    intended = strange.select(*IDENTITY).distinct().join(intents, within, "left_semi")
    intended = intended.withColumn("intended", F.lit(True))
    rows = strange.join(sends, IDENTITY, "left").join(intended, IDENTITY, "left")
    kind = (
        F.when(F.col("producer") == FOREIGN, OTHER_RUN)
        .when(F.col("producer") < 0, "not a record of this run")
        .when(~F.col("intact"), "altered value")
        .when(F.col("status") == int(SendStatus.FAILED), "its send surely failed")
        .when(F.col("status").isNull() & F.col("intended").isNull(), "nobody sent it")
    )
    named = rows.withColumn("kind", kind).where("kind is not null")
    altered = F.col("kind") == "altered value"
    announced = (F.col("kind") != "nobody sent it") | ~F.col("producer").isin(evidence.unannounced)
    return findings(named.where(altered), "V02", F.col("kind"), F.lit(None)).unionByName(
        findings(named.where(~altered), "V05", F.col("kind"), F.lit(None), announced)
    )


def repeated(evidence: Evidence, identities: DataFrame) -> DataFrame:
    """Places of records that the log holds already at a lower place (`first`), of the identities
    named."""
    data = evidence.log.where((F.col("state") != CONTROL) & (F.col("producer") >= 0))
    places = data.join(F.broadcast(identities.select(*IDENTITY).distinct()), IDENTITY, "left_semi")
    grouped = places.groupBy(*IDENTITY).agg(F.sort_array(F.collect_list(F.struct(*PLACE))).alias("places"))
    grouped = grouped.where(F.size("places") > 1).withColumn("first", F.element_at("places", 1))
    again = grouped.select(*IDENTITY, "first", F.explode(F.slice("places", 2, 1 << 20)).alias("place"))
    return again.select(*IDENTITY, "first", "place.*")


def duplicates(evidence: Evidence, again: DataFrame) -> DataFrame:
    """V04: each place after the first is a finding. Counted only without idempotence."""
    named = again.join(evidence.producers, "producer", "left")
    detail = F.concat(F.lit("first at "), F.to_json("first"))
    return findings(named, "V04", "at two offsets", detail, F.coalesce("idempotent", F.lit(True)))
