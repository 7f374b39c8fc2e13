"""V11 aborted reads, V01 of committed transactions, V12 exactly once: by the results that producers
got."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from loadtest.record import MEANT_TO_ABORT
from spark_validation.anomalies import findings, kinds
from spark_validation.evidence import ABORTED as GONE
from spark_validation.evidence import CONTROL, IDENTITY, OPEN, PLACE, VISIBLE, Evidence

COMMITTED, ABORTED = 0, 1
TRANSACTIONAL_FLAG = 1
EXPIRED = "committed long after its timeout"
UNSEEN = "copied though it was never visible"
PATIENCE_MS = 60_000  # the load tests' transaction.timeout.ms, twice
OWNER = ["producer", "transaction"]
SEQ_BITS = 8  # transactions are found by (producer, seq >> SEQ_BITS): no scan of all of a producer's


def binned(evidence: Evidence) -> DataFrame:
    """Transactions with records, a row per bin of sequence numbers: owner, bin, range, outcome,
    begin_ns, ending_ns."""
    ended = evidence.rows("transactions").where("last_seq >= first_seq")
    bins = F.sequence(F.shiftright("first_seq", SEQ_BITS), F.shiftright("last_seq", SEQ_BITS))
    return ended.select(
        F.col("producer").alias("owner"),
        F.explode(bins).alias("bin"),
        "transaction",
        "first_seq",
        "last_seq",
        "outcome",
        "begin_ns",
        "ending_ns",
    )


def with_transaction(rows: DataFrame, bins: DataFrame, how: str = "inner") -> DataFrame:
    """Rows of (producer, seq) beside their transaction."""
    keyed = rows.withColumn("row_bin", F.shiftright("seq", SEQ_BITS))
    same = (F.col("producer") == F.col("owner")) & (F.col("row_bin") == F.col("bin"))
    within = F.col("seq").between(F.col("first_seq"), F.col("last_seq"))
    return keyed.join(bins, same & within, how).drop("row_bin")


def premature_reads(evidence: Evidence) -> DataFrame:
    """V11: read_committed showed a record of a transaction that was aborted, or before its commit
    was asked for; to a consumer, or to a member of a share group."""
    committed = evidence.consumers.where("committed").select("consumer")
    columns = ["consumer", *PLACE, *IDENTITY, "flags", "intact", "seen_ns"]
    shared = evidence.rows("shares").withColumnRenamed("acquired_ns", "seen_ns").select(*columns)
    given = evidence.reads.select(*columns).unionByName(shared)
    given = given.where("intact")  # of another record the numbers say nothing
    given = given.where(F.col("flags").bitwiseAND(TRANSACTIONAL_FLAG) != 0).join(committed, "consumer")
    seen = with_transaction(given.drop("flags", "intact"), binned(evidence))
    aborted = F.col("outcome") == ABORTED
    early = (F.col("outcome") == COMMITTED) & (F.col("seen_ns") + evidence.stepped_ns < F.col("ending_ns"))
    kind = F.when(aborted, "its producer aborted it").otherwise("before its commit was asked for")
    detail = F.concat_ws(
        " ", F.lit("transaction"), "transaction", F.lit("seen_ns"), "seen_ns", F.lit("ending_ns"), "ending_ns"
    )
    return findings(seen.where(aborted | early), "V11", kind, detail)


def doubtful(evidence: Evidence) -> DataFrame:
    """Records of the log whose fate is not what their producer's result promises, or whose producer
    has none.

    PLACE, IDENTITY, flags, state, marker, transaction and outcome (null without a row), end_ns.
    """
    log = evidence.log.where(
        (F.col("state") != CONTROL) & (F.col("flags").bitwiseAND(TRANSACTIONAL_FLAG) != 0)
    )
    rows = log.where("producer >= 0")  # others are no transaction of the run
    rows = rows.select(*PLACE, *IDENTITY, "flags", "timestamp_ms", "state", "marker")
    seen = with_transaction(rows, binned(evidence), "left").drop("owner", "bin", "first_seq", "last_seq")
    visible = F.col("state") == VISIBLE
    kept = (F.col("outcome") == COMMITTED) & visible | (F.col("outcome") == ABORTED) & (
        F.col("state") == GONE
    )
    return seen.where(~F.coalesce(kept, F.lit(False)))


def broken_promises(evidence: Evidence, doubts: DataFrame) -> DataFrame:
    """V01 and V11: the log's markers against the results that producers got. doubts: of
    `doubtful`."""
    visible = F.col("state") == VISIBLE
    meant = (F.col("flags").bitwiseAND(MEANT_TO_ABORT) != 0) & visible
    open_since = F.coalesce(F.col("ending_ns") / 1_000_000, F.col("timestamp_ms"))
    overdue = (F.col("state") == OPEN) & (open_since + PATIENCE_MS < evidence.ends_ms)
    found = kinds(
        doubts,
        {
            "committed, but not visible to read_committed": (F.col("outcome") == COMMITTED) & ~visible,
            "aborted, but committed in the log": (F.col("outcome") == ABORTED) & visible,
            "meant to be aborted, but committed in the log": meant
            & ~F.coalesce(F.col("outcome").isin(COMMITTED, ABORTED), F.lit(False)),
            "never ended in the log": overdue & ~F.coalesce(F.col("outcome") == COMMITTED, F.lit(False)),
        },
    )
    anomaly = F.when(F.col("kind").startswith("committed"), "V01").otherwise("V11")
    return findings(found, anomaly, F.col("kind"), F.concat(F.lit("transaction "), "transaction"))


def expired(evidence: Evidence) -> DataFrame:
    """V11: transactions that were committed though their timeout had passed long before the commit
    was asked for: the broker had to abort them by itself. Named by the first record.

    A broker that was down meanwhile may not have looked yet.
    """
    own = evidence.sends.where("transaction >= 0 and status = 0").groupBy(*OWNER)
    first = F.min_by(F.struct(*PLACE, "seq"), "seq").alias("at")
    begun = own.agg(first, F.min("acked_ns").alias("begun_ns"))
    ended = evidence.rows("transactions").where(F.col("outcome") == COMMITTED)
    late = ended.select(*OWNER, "ending_ns").join(begun, OWNER)
    late = late.where(F.col("ending_ns") - F.col("begun_ns") > PATIENCE_MS * 1_000_000 + evidence.stepped_ns)
    detail = F.concat_ws(" ", F.lit("transaction"), "transaction", F.lit("begun at ns"), "begun_ns")
    proven = not (evidence.faults or evidence.faults_missing or evidence.clock_moved)
    return findings(late.select(*OWNER, "begun_ns", "at.*"), "V11", EXPIRED, detail, proven)


def copies(evidence: Evidence) -> DataFrame:
    """V12: inputs copied twice, and inputs below the group's committed offset without a copy."""
    outputs = evidence.topics("copied")
    made = evidence.rows("copies").withColumn("group_name", F.col("group"))
    visible = evidence.log.where(F.col("topic").isin(outputs) & (F.col("state") == VISIBLE))
    done = made.join(visible.select(*IDENTITY), IDENTITY)
    inputs = ["group_name", "input_topic", "input_partition", "input_offset"]
    counted = done.groupBy(*inputs).agg(F.count("*").alias("copies"), F.max("producer").alias("producer"))
    twice = counted.where("copies > 1").select(
        F.col("input_topic").alias("topic"),
        F.col("input_partition").alias("partition"),
        F.col("input_offset").alias("offset"),
        "copies",
    )
    again = findings(twice, "V12", "copied more than once", F.concat("copies", F.lit(" committed copies")))
    return again.unionByName(uncopied(evidence, counted)).unionByName(unseen(evidence, counted))


def unseen(evidence: Evidence, counted: DataFrame) -> DataFrame:
    """V12: committed copies of what no read_committed reader may see: an aborted record, or none.
    counted: inputs that have copies."""
    whole = F.col("topic").isin(evidence.topics())
    copied = counted.select(
        F.col("input_topic").alias("topic"),
        F.col("input_partition").alias("partition"),
        F.col("input_offset").alias("offset"),
        "producer",
    ).where(whole)
    starts = evidence.ends.select("topic", "partition", "start_offset")
    kept = copied.join(starts, ["topic", "partition"], "left").where("offset >= coalesce(start_offset, 0)")
    shown = evidence.log.where(whole & (F.col("state") == VISIBLE)).select(*PLACE)
    return findings(kept.join(shown, PLACE, "left_anti"), "V12", UNSEEN, F.lit(None))


def uncopied(evidence: Evidence, counted: DataFrame) -> DataFrame:
    """V12: visible inputs below what the copying group has committed, whose copy is not there.

    Only where every copier ended by itself: one that was killed takes up to 5 s of `copies` rows
    with it.
    """
    groups = {c.group for c in evidence.consumer_clients if c.role == "copy" and c.group is not None}
    complete = {
        g for g in groups if all(c.ended_ns is not None for c in evidence.consumer_clients if c.group == g)
    }
    committed = [
        (group, topic, int(partition), offset)
        for group, topics in evidence.run.committed.items()
        if group in groups
        for topic, partitions in topics.items()
        for partition, offset in partitions.items()
    ]
    schema = "group_name string, topic string, partition int, until bigint"
    passed = F.broadcast(evidence.table(committed, schema))
    inputs = (
        evidence.log.where(F.col("state") == VISIBLE)
        .join(passed, ["topic", "partition"])
        .join(evidence.ends, ["topic", "partition"], "left")
        .where("offset < until and offset >= coalesce(start_offset, 0)")
    )
    done = counted.select(
        "group_name",
        F.col("input_topic").alias("topic"),
        F.col("input_partition").alias("partition"),
        F.col("input_offset").alias("offset"),
    )
    missing = inputs.join(done, ["group_name", *PLACE], "left_anti")
    detail = F.concat(F.lit("group "), "group_name")
    lacks = bool(evidence.uncopied_producers or evidence.cut.get("copies"))
    proven = F.col("group_name").isin(sorted(complete)) & F.lit(not lacks)
    return findings(missing, "V12", "never copied", detail, proven)
