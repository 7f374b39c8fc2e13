"""Grounds of a verdict: the number of records for each check, and what is missing for a verdict at
all.

Missing evidence does not prove that a broker is correct. A run is not clean if it sent or read
nothing, did not end by itself, if its drains did not reach the end of a topic, or if its histories
lost files or rows or name unknown clients. `missing` has the reason, and the exit code is 2.
"""

from pyspark.sql import functions as F

from spark_validation.checks.batches import TRANSACTIONAL_MODES
from spark_validation.cut_histories import named, unnumbered
from spark_validation.evidence import Evidence
from spark_validation.verdict import Verdict

SENDS, LOG, READS = "sends", "log", "reads"
ISOLATIONS = ("read_uncommitted", "read_committed")
RESTS_ON = {
    "V01": SENDS, "V02": SENDS, "V03": READS, "V04": LOG, "V05": LOG, "V06": LOG, "V07": LOG, "V08": READS,
    "V09": "commits", "V10": READS, "V11": "transactions", "V12": "copies", "V13": LOG, "V15": LOG, "V19": "shares",
    "V20": SENDS,
}  # fmt: skip
"""The rows that a check compares. Checks that are not here name their own reason when they cannot
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
        *endless(evidence),
        *undrained(evidence),
        *unassigned(evidence),
        *unnumbered(evidence),
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
    if evidence.run.ended_ns is not None and not evidence.run.drained:
        found.append("the run says that its logs were not all read to their ends")
    if evidence.faults_missing:
        found.append("faults.jsonl lacks faults that the run counts")
    return found


def endless(evidence: Evidence) -> list[str]:
    """Partitions whose ends the run does not name."""
    missing = [
        f"{topic.name}-{partition}"
        for topic in evidence.run.topics
        for partition in range(topic.partitions)
        if str(partition) not in evidence.run.ends.get(topic.name, {})
    ]
    return [f"run.json names no end of: {', '.join(missing[:5])}"] if missing else []


def undrained(evidence: Evidence) -> list[str]:
    """Topics that no drain consumer read to the end; of transactions, with each isolation level;
    and with each that one has begun with."""
    drains = [c for c in evidence.consumer_clients if c.role == "drain"]
    begun = {(topic, c.isolation) for c in drains for topic in c.topics}
    ended = {(topic, c.isolation) for c in drains if c.finished for topic in c.topics}
    found = []
    for isolation in ISOLATIONS:
        missing = sorted(
            topic.name
            for topic in evidence.run.topics
            if (topic.name, isolation) in begun - ended
            or (topic.mode in TRANSACTIONAL_MODES and (topic.name, isolation) not in ended)
            or not {(topic.name, each) for each in ISOLATIONS} & ended
        )
        if missing:
            found.append(f"no {isolation} drain reached the end of: {', '.join(missing[:5])}")
    return found


def unassigned(evidence: Evidence) -> list[str]:
    """Groups whose members were never given a partition, as far as their rows go."""
    topics = {topic.name for topic in evidence.run.topics}
    groups = {
        c.group for c in evidence.consumer_clients if c.role == "load" and c.group and topics & {*c.topics}
    }
    known = {row["group"] for row in evidence.rows("assignments").select("group").distinct().collect()}
    missing = sorted(groups - known)
    return [f"no assignment is recorded for the groups: {', '.join(missing[:5])}"] if missing else []


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
        known = evidence.table(listed, f"{who} int")
        strange = evidence.rows(kind).select(who).distinct().join(F.broadcast(known), who, "left_anti")
        found += named(strange, who, f"{kind} name clients that the run does not list")
    return found
