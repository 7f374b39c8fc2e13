"""Offsets that transactions sent to a group: an aborted one's never move it, a committed one's
always do.

A transaction without a reported end is decided by the log: its outputs are committed or aborted
there.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_validation.evidence import ABORTED, IDENTITY, VISIBLE, Evidence

TRANSACTION = ["producer", "transaction"]
REFUSED = (12, 22, 25, 27, 29, 30, 69, 82, 113)
"""Errors of a commit that was not written: too large metadata, another generation or member, a
rebalance, no permission, no such group, a fenced instance, an old epoch."""
COMMITTED, GIVEN_UP = 0, 1  # outcomes; the states of their records in the log have the same numbers
assert (VISIBLE, ABORTED) == (COMMITTED, GIVEN_UP)


def within(evidence: Evidence) -> DataFrame:
    """Commits that were sent inside of transactions."""
    return evidence.rows("commits").where("transaction >= 0")


def reported(evidence: Evidence) -> DataFrame:
    """TRANSACTION, outcome, end_ns of transactions whose end was confirmed to their producer."""
    rows = evidence.rows("transactions").where(F.col("outcome").isin(COMMITTED, GIVEN_UP))
    return rows.select(*TRANSACTION, "outcome", "end_ns")


def found_in_log(evidence: Evidence) -> DataFrame:
    """TRANSACTION, outcome of transactions without a confirmed end, from the state of their
    outputs in the log. Read once."""
    if evidence.decided is None:
        rows = [tuple(row) for row in outcomes_in_log(evidence).collect()]
        schema = "producer int, transaction bigint, outcome tinyint"
        evidence.decided = evidence.table(rows, schema)
    return evidence.decided


def outcomes_in_log(evidence: Evidence) -> DataFrame:
    """The join with the log that `found_in_log` reads; only transactions without a confirmed end
    take part."""
    unsure = within(evidence).select(*TRANSACTION).distinct()
    unsure = unsure.join(reported(evidence), TRANSACTION, "left_anti")
    outputs = evidence.rows("copies").join(F.broadcast(unsure), TRANSACTION)
    ended = evidence.log.where(F.col("state").isin(VISIBLE, ABORTED)).select(*IDENTITY, "state")
    beside = ended.join(F.broadcast(outputs.select(*IDENTITY, "transaction")), IDENTITY)
    return beside.groupBy(*TRANSACTION).agg(F.min("state").alias("outcome"))


def settled(evidence: Evidence) -> DataFrame:
    """TRANSACTION, outcome of all transactions with a known outcome."""
    return reported(evidence).select(*TRANSACTION, "outcome").unionByName(found_in_log(evidence))


def aborted_offsets(evidence: Evidence) -> DataFrame:
    """Commits of transactions that were aborted."""
    if not any(p.transactional_id for p in evidence.producer_clients):
        return evidence.rows("commits").where(F.lit(False))
    gone = settled(evidence).where(F.col("outcome") == GIVEN_UP)
    return within(evidence).join(F.broadcast(gone.select(*TRANSACTION)), TRANSACTION, "left_semi")


def visible_from(evidence: Evidence, commits: DataFrame) -> DataFrame:
    """Commits with from_ns: when each was asked for; of a transaction, when its own commit was."""
    ending = evidence.rows("transactions").select(*TRANSACTION, "ending_ns")
    both = commits.join(ending, TRANSACTION, "left")
    requested = F.greatest("asked_ns", F.when(F.col("transaction") >= 0, F.col("ending_ns")))
    return both.withColumn("from_ns", requested).drop("ending_ns")


def possible(evidence: Evidence) -> DataFrame:
    """Commits that may have moved their group: all but those of aborted transactions, and, where
    nothing was repeated for a lost answer, those that were refused."""
    rows = evidence.rows("commits")
    if evidence.undisturbed_consumers:
        rows = rows.where(~F.col("error").isin(*REFUSED))
    if not any(p.transactional_id for p in evidence.producer_clients):
        return rows
    gone = settled(evidence).where(F.col("outcome") == GIVEN_UP).select(*TRANSACTION)
    kept = rows.where("transaction >= 0").join(F.broadcast(gone), TRANSACTION, "left_anti")
    return rows.where("transaction < 0").unionByName(kept.select(*rows.columns))
