"""Grounds of a verdict: the number of records for each check, and what is missing for a verdict at
all.

No evidence is not innocence. A run that sent or read nothing, that did not end by itself, whose
drains did not reach the end of a topic, whose histories lost files or rows at their ends, or name
clients that are not listed, cannot be called clean: `missing` gives the reason, and the exit code
is 2.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_validation.evidence import Evidence
from spark_validation.verdict import Verdict

SENDS, LOG, READS = "sends", "log", "reads"
RESTS_ON = {
    "V01": SENDS, "V02": SENDS, "V03": READS, "V04": LOG, "V05": LOG, "V06": LOG, "V07": LOG, "V08": READS,
    "V09": "commits", "V10": READS, "V11": "transactions", "V12": "copies", "V13": LOG, "V15": LOG, "V19": "shares",
    "V20": SENDS,
}  # fmt: skip
"""Which rows a check compares. Checks that are not here name their own reason when they cannot
judge."""


def weigh(evidence: Evidence, verdict: Verdict) -> None:
    """Fill in `basis` and `missing` of a verdict whose records are counted."""
    counts = dict(verdict.records)
    for kind in ("commits", "transactions", "copies", "shares"):
        counts[kind] = evidence.rows(kind).count()
    for anomaly, kind in RESTS_ON.items():
        result = verdict.results[anomaly]
        result.basis = counts[kind]
        if result.judged and not counts[kind] and not result.convicting:
            verdict.skip(anomaly, f"the run has no {kind}")
    verdict.missing += [
        *absent(evidence, counts),
        *undrained(evidence),
        *unassigned(evidence),
        *cut_off_sends(evidence),
        *cut_off_reads(evidence),
        *unknown_clients(evidence),
    ]


def absent(evidence: Evidence, counts: dict[str, int]) -> list[str]:
    """Reasons by what the run as a whole lacks."""
    found = []
    if evidence.run.ended_ns is None:
        found.append("the run did not end by itself: its histories stop somewhere")
    if not counts[SENDS]:
        found.append("no acknowledged send is recorded")
    if not counts[READS]:
        found.append("no delivered record is recorded")
    return found


def undrained(evidence: Evidence) -> list[str]:
    """Topics that no drain consumer read to the end."""
    drained = {
        topic for c in evidence.consumer_clients if c.role == "drain" and c.finished for topic in c.topics
    }
    missing = sorted(topic.name for topic in evidence.run.topics if topic.name not in drained)
    return [f"no drain reached the end of: {', '.join(missing)}"] if missing else []


def unassigned(evidence: Evidence) -> list[str]:
    """Groups whose members were never given a partition, as far as their rows go."""
    topics = {topic.name for topic in evidence.run.topics}
    groups = {
        c.group for c in evidence.consumer_clients if c.role == "load" and c.group and topics & {*c.topics}
    }
    known = {row["group"] for row in evidence.rows("assignments").select("group").distinct().collect()}
    missing = sorted(groups - known)
    return [f"no assignment is recorded for the groups: {', '.join(missing[:5])}"] if missing else []


def cut_off_sends(evidence: Evidence) -> list[str]:
    """Producers that ended by themselves, so that every record has an outcome, and whose rows have
    gaps."""
    topics = {topic.name for topic in evidence.run.topics}
    ended = [p.producer for p in evidence.producer_clients if p.ended_ns is not None and p.topic in topics]
    if not ended:
        return []
    rows = evidence.rows("sends").where(F.col("producer").isin(ended))
    counts = [(p.producer, p.attempted) for p in evidence.producer_clients if p.ended_ns is not None]
    attempted = evidence.spark.createDataFrame(counts, "producer int, attempted bigint")
    held = rows.groupBy("producer").agg(
        F.count("*").alias("rows"), F.countDistinct("seq").alias("seqs"), F.max("seq").alias("last")
    )
    begun = evidence.intents.where(F.col("producer").isin(ended))
    begun = begun.groupBy("producer").agg(F.max("first_seq").alias("begun"))
    both = begun.join(held, "producer", "full").join(attempted, "producer", "left")
    gaps = both.where("rows is null or seqs != last + 1 or begun > last or attempted != last + 1")
    return _named(gaps, "producer", "sends of producers that ended by themselves are missing")


def cut_off_reads(evidence: Evidence) -> list[str]:
    """Consumers whose deliveries, which they number from 0 on, have gaps."""
    held = (
        evidence.rows("reads", every_topic=True)
        .groupBy("consumer")
        .agg(F.countDistinct("position").alias("rows"), F.max("position").alias("last"))
    )
    counts = [(c.consumer, c.delivered) for c in evidence.consumer_clients if c.delivered]
    ended = evidence.spark.createDataFrame(counts, "consumer int, delivered bigint")
    both = held.join(ended, "consumer", "full")
    gaps = both.where("rows is null or rows != last + 1 or delivered != rows")
    return _named(gaps, "consumer", "deliveries of consumers are missing")


def unknown_clients(evidence: Evidence) -> list[str]:
    """Rows of clients that the run does not list: what they were and how they ended is not
    known."""
    producers = [(p.producer,) for p in evidence.producer_clients]
    consumers = [(c.consumer,) for c in evidence.consumer_clients]
    found = []
    for kind, who, listed in (
        ("sends", "producer", producers),
        ("reads", "consumer", consumers),
        ("commits", "consumer", consumers),
        ("assignments", "consumer", consumers),
        ("shares", "consumer", consumers),
    ):
        known = evidence.spark.createDataFrame(listed, f"{who} int")
        strange = evidence.rows(kind).select(who).distinct().join(F.broadcast(known), who, "left_anti")
        found += _named(strange, who, f"{kind} name clients that the run does not list")
    return found


def _named(frame: DataFrame, column: str, what: str) -> list[str]:
    found = [row[column] for row in frame.select(column).orderBy(column).limit(6).collect()]
    more = " ..." if len(found) > 5 else ""
    return [f"{what}: {', '.join(map(str, found[:5]))}{more}"] if found else []
