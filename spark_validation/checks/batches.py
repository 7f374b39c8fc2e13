"""V07 batch chain: headers of the segment files, in offset order."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_validation.anomalies import findings, kinds
from spark_validation.evidence import Evidence
from spark_validation.order import ROWS_BEFORE

SOUND = 1  # spark_validation.segments.layout.Fault
FAULTS = {
    2: "torn batch",
    3: "batch length wrong",
    4: "magic wrong",
    5: "old message format",
    6: "checksum wrong",
    8: "record count wrong",
    9: "records not readable",
    10: "offsets of records wrong",
    11: "attributes of records unknown",
}
DESCRIBED = (SOUND, 6, 9, 10, 11)
"""Faults behind the header, which still says where the batch lies."""
APPEND_TIME_BIT, TRANSACTIONAL_BIT, CONTROL_BIT = 0x08, 0x10, 0x20
HORIZON_BIT, KNOWN_BITS = 0x40, 0x7F
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
CODEC_MASK = 0x07
OTHER_CODEC = "codec of no producer of its topic"
CLOCK_SLACK_MS = 60_000  # the broker's clock beside the clients'
SEQUENCES = 1 << 31
TRANSACTIONAL_MODES = ("transactional", "copied")
UNFIT = "sequence numbers do not fit the offsets"
UNASKED_ID = "producer id of a producer that has none"


def bit(mask: int) -> Column:
    return F.col("attributes").bitwiseAND(mask) != 0


def codec() -> Column:
    return F.col("attributes").bitwiseAND(CODEC_MASK)


def faults(batches: DataFrame) -> DataFrame:
    """V07: what makes a batch no batch."""
    names = F.create_map(*[F.lit(item) for pair in FAULTS.items() for item in pair])
    broken = batches.where(F.col("fault") != SOUND).withColumn("offset", F.col("base_offset"))
    kind = F.coalesce(names[F.col("fault")], F.lit("not readable"))
    return findings(
        broken, "V07", kind, F.concat_ws(" ", F.lit("segment"), "segment", F.lit("byte"), "position")
    )


def chains(evidence: Evidence, batches: DataFrame) -> DataFrame:
    """V07: what each header says, and says beside those before it in its partition and of its
    producer."""
    sound = batches.where(F.col("fault").isin(*DESCRIBED)).withColumn("offset", F.col("base_offset"))
    return in_partition(evidence, sound).unionByName(of_producers(evidence, sound))


def in_partition(evidence: Evidence, sound: DataFrame) -> DataFrame:
    """V07: offsets rise, leader epochs and append times do not fall, and what each header says of
    its batch."""
    order = Window.partitionBy("topic", "partition").orderBy("segment", "position")
    stamped = F.when(bit(APPEND_TIME_BIT) & ~bit(CONTROL_BIT), F.col("max_timestamp_ms"))
    linked = sound.withColumns({"before": F.lag("last_offset").over(order), "stamp": stamped})
    linked = out_of_line(out_of_line(linked, "leader_epoch"), "stamp")
    codecs, whole = F.when(~bit(CONTROL_BIT), codec()), Window.partitionBy("topic", "partition")
    linked = linked.withColumn("mixed", F.min(codecs).over(whole) != F.max(codecs).over(whole))
    found = kinds(linked, {**header_faults(evidence), **control_faults(evidence), **mode_faults(evidence)})
    detail = F.concat_ws(
        " ",
        *(F.lit("segment"), "segment", F.lit("byte"), "position", F.lit("after offset"), "before"),
        *(F.lit("leader epoch"), "leader_epoch", F.lit("attributes"), "attributes"),
        *(F.lit("max timestamp"), "max_timestamp_ms", F.lit("of records"), "highest_timestamp_ms"),
    )
    return findings(found, "V07", F.col("kind"), detail)


def out_of_line(batches: DataFrame, name: str, *within: str) -> DataFrame:
    """Batches with `<name>_low` or `<name>_high`: below one before in the partition, or above one
    after it, whichever the fewer batches are: one that is too high makes all after it low. within:
    more columns that the compared batches share."""
    whole = Window.partitionBy("topic", "partition", *within)
    before = whole.orderBy("segment", "position").rowsBetween(*ROWS_BEFORE)
    after = whole.orderBy(F.desc("segment"), F.desc("position")).rowsBetween(*ROWS_BEFORE)
    low = F.coalesce(F.col(name) < F.max(name).over(before), F.lit(False))
    high = F.coalesce(F.col(name) > F.min(name).over(after), F.lit(False))
    both = batches.withColumns({"low": low, "high": high})
    fewer = F.count_if("high").over(whole) < F.count_if("low").over(whole)
    return both.withColumns(
        {f"{name}_low": F.col("low") & ~fewer, f"{name}_high": F.col("high") & fewer}
    ).drop("low", "high")


def header_faults(evidence: Evidence) -> dict[str, Column]:
    """V07: kind of finding -> its condition, for every batch."""
    whole = F.col("topic").isin(evidence.topics())  # compaction takes records out of batches
    own_time = ~bit(APPEND_TIME_BIT) & (F.col("record_count") > 0) & (F.col("fault") != 9)
    by_broker = F.col("topic").isin(evidence.append_time_topics) & ~bit(CONTROL_BIT)
    timed = by_broker & F.lit(not evidence.clock_moved)
    return {
        "offsets step back": F.col("offset") <= F.col("before"),
        "count is not the offsets'": whole & F.expr("record_count != last_offset - base_offset + 1"),
        "leader epoch steps back": F.col("leader_epoch_low"),
        "leader epoch above a later one": F.col("leader_epoch_high"),
        "no leader epoch": F.col("leader_epoch") < 0,
        "max timestamp is not its records'": own_time & F.expr("max_timestamp_ms != highest_timestamp_ms"),
        "timestamp type is not the topic's": ~bit(CONTROL_BIT) & (bit(APPEND_TIME_BIT) != by_broker),
        "append time steps back": timed & F.col("stamp_low"),
        "append time above a later one": timed & F.col("stamp_high"),
        "unknown attributes": (F.col("attributes").bitwiseAND(~KNOWN_BITS) != 0)
        | (whole & bit(HORIZON_BIT))
        | (codec() >= len(CODECS)),
    }


def control_faults(evidence: Evidence) -> dict[str, Column]:
    """V07: kind of finding -> its condition, for control batches. Each must be a marker: one
    uncompressed record, of a producer, without a sequence number, that commits or aborts."""
    one = (F.col("record_count") == 1) & F.col("control_type").isin(0, 1) & (F.col("coordinator_epoch") >= 0)
    emptied = (F.col("record_count") == 0) & F.col("topic").isin(evidence.topics(compacted=True))
    formed = bit(TRANSACTIONAL_BIT) & F.expr(
        "producer_id >= 0 and producer_epoch >= 0 and base_sequence = -1"
    )
    formed &= F.col("topic").isin(transactional(evidence)) & ~bit(0x07)
    first_ms = evidence.run.started_ns // 1_000_000 - CLOCK_SLACK_MS
    timely = F.col("max_timestamp_ms").between(first_ms, evidence.latest_ms + CLOCK_SLACK_MS)
    return {
        "control batch is no marker": bit(CONTROL_BIT) & ~((one | emptied) & formed),
        "marker's time is not of the run": bit(CONTROL_BIT)
        & formed
        & ~(timely | F.lit(evidence.clock_moved)),
    }


def mode_faults(evidence: Evidence) -> dict[str, Column]:
    """V07: kind of finding -> its condition, for data batches. The mode of a topic (Topic.mode)
    decides which producer fields its batches have."""
    within = F.col("topic").isin(transactional(evidence))
    data = ~bit(CONTROL_BIT)
    numbered = F.expr("producer_id >= 0 and producer_epoch >= 0 and base_sequence >= 0")
    unnumbered = F.expr("producer_id = -1 and producer_epoch = -1 and base_sequence = -1")
    plain = [topic.name for topic in evidence.run.topics if topic.mode == "plain"]
    return {
        "transactional bit is not its producer's": data & (bit(TRANSACTIONAL_BIT) != within),
        "producer fields contradict each other": data & ~numbered & ~unnumbered,
        "no producer id": data & unnumbered & ~F.col("topic").isin(plain),
        UNASKED_ID: data & numbered & F.col("topic").isin(plain),
        OTHER_CODEC: data & other_codec(evidence),
    }


def other_codec(evidence: Evidence) -> Column:
    """Batches in a codec that none of its topic's producers has: with compression.type=producer a
    broker keeps what it was sent. Uncompressed batches prove nothing, because a client sends those
    that compression makes no smaller.

    If all batches of a partition have one codec, it may be the broker's compression.type, which
    run.json need not have.
    """
    allowed: dict[frozenset[int], list[str]] = {}
    for topic in evidence.run.topics:
        names = {p.compression for p in evidence.producer_clients if p.topic == topic.name}
        names |= {"none", topic.config.get("compression.type", "none")}
        numbers = frozenset(CODECS.index(name) for name in names if name in CODECS)
        allowed.setdefault(numbers, []).append(topic.name)
    foreign = F.lit(False)
    for numbers, topics in allowed.items():
        foreign |= F.col("topic").isin(topics) & ~codec().isin(*numbers)
    return (F.col("fault") == SOUND) & foreign & F.col("mixed")


def transactional(evidence: Evidence) -> list[str]:
    return [topic.name for topic in evidence.run.topics if topic.mode in TRANSACTIONAL_MODES]


def of_producers(evidence: Evidence, sound: DataFrame) -> DataFrame:
    """V07: base sequence = the one before + its count, 0 with a new epoch and at first; the epoch
    never falls.

    Markers have their producer's epoch, or with a transaction's end the next one: what comes later
    with a lower one was written by a fenced producer. A marker's coordinator epoch does not fall
    either: the one with the lower was written by a coordinator that had been replaced, unless it is
    one marker that is too high.
    """
    own = sound.where(F.col("producer_id") >= 0)
    data = ~bit(CONTROL_BIT) & (F.col("base_sequence") >= 0)
    marks = bit(CONTROL_BIT) & F.col("control_type").isin(0, 1)
    own = own.withColumn("coordinator", F.when(marks, F.col("coordinator_epoch")))
    own = out_of_line(own, "coordinator", "producer_id")
    linked = with_last(own, data).join(starts(evidence), ["topic", "partition"], "left")
    cleaned = F.col("topic").isin(evidence.topics(compacted=True))
    chained = data & ~cleaned
    from_zero = F.coalesce("log_start", F.lit(0)) == 0
    found = kinds(
        linked,
        {
            "producer epoch steps back": F.expr("producer_epoch < epoch_before"),
            "coordinator epoch steps back": F.col("coordinator_low"),
            "coordinator epoch above a later one": F.col("coordinator_high"),
            "sequence numbers do not follow": chained
            & (
                F.expr("producer_epoch = last.epoch and base_sequence != due")
                | F.expr("producer_epoch > last.epoch and base_sequence != 0")
            ),
            UNFIT: data & cleaned & from_zero & beyond_offsets(),
            "first sequence number is not 0": chained
            & from_zero
            & F.col("last").isNull()
            & (F.col("base_sequence") != 0),
        },
    )
    detail = F.concat_ws(
        " ", F.lit("producer id"), "producer_id", F.lit("sequence"), "base_sequence", F.lit("due"), "due"
    )
    return findings(found, "V07", F.col("kind"), detail)


def with_last(own: DataFrame, data: Column) -> DataFrame:
    """Each batch with the last one of its producer, and the base sequence that is due after it.
    data: it has records with sequence numbers."""
    order = Window.partitionBy("topic", "partition", "producer_id").orderBy("offset")
    before = order.rowsBetween(*ROWS_BEFORE)
    whole = F.expr("last_offset - base_offset + 1").alias("offsets")
    facts = F.struct(
        F.col("producer_epoch").alias("epoch"), "base_sequence", "record_count", whole, "last_offset"
    )
    linked = own.withColumns(
        {
            "last": F.last(F.when(data, facts), ignorenulls=True).over(before),
            "epoch_before": F.max("producer_epoch").over(before),
        }
    )
    due = F.pmod(F.col("last.base_sequence").cast("bigint") + F.col("last.record_count"), F.lit(SEQUENCES))
    return linked.withColumn("due", due)


def beyond_offsets() -> Column:
    """Batches whose sequence is further from the last one of their producer than their offset: a
    cleaner removes no more records than there are offsets."""
    gap = F.col("offset") - F.coalesce(F.col("last.last_offset"), F.lit(-1)) - 1
    ahead = F.pmod(F.expr("base_sequence - last.base_sequence - last.offsets"), F.lit(SEQUENCES))
    first = F.expr("last is null or producer_epoch > last.epoch")
    same_epoch = F.expr("producer_epoch = last.epoch")
    beyond = F.when(first, F.col("base_sequence") > gap).when(same_epoch, ahead > gap)
    return F.coalesce(beyond, F.lit(False))


def starts(evidence: Evidence) -> DataFrame:
    return evidence.ends.select("topic", "partition", F.col("start_offset").alias("log_start"))
