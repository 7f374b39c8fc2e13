"""V11 of transactions that ended in part: committed in one partition and aborted, or not ended, in
another.

A transaction whose end its producer could not report (it was killed, or got no answer) may end
either way, but everywhere in the same one. Its records are known by its number, where their sends
have it, else by the numbers of its producer's records: transactions of a producer do not overlap.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_validation.anomalies import findings
from spark_validation.evidence import ABORTED, IDENTITY, OPEN, PLACE, VISIBLE, Evidence

CONTRADICTS = "committed in one partition, aborted in another"
UNFINISHED = "ended in one partition, still open in another"
STRETCH = ["producer", "topic", "partition", "marker", "state"]
MOST = 200_000


class Stretch(NamedTuple):
    """Records of a producer in a partition that one marker ended, or none has yet (-1)."""

    producer: int
    topic: str
    partition: int
    marker: int
    state: int
    transaction: int  # -1: not known
    first_seq: int
    last_seq: int
    reported: bool  # there is a row of its transaction, of an unknown outcome


def contradictions(evidence: Evidence, doubts: DataFrame) -> DataFrame:
    """V11: each record of a stretch that contradicts another one of its transaction. doubts: of
    `doubtful`."""
    unknown = doubts.where("outcome is null or not outcome in (0, 1)")
    sends = evidence.sends.where("transaction >= 0").select(*IDENTITY, F.col("transaction").alias("sent_in"))
    near = F.broadcast(unknown.select(*IDENTITY).distinct())
    reported = unknown.join(sends.join(near, IDENTITY, "left_semi"), IDENTITY, "left")
    reported = reported.withColumn("transaction", F.coalesce("transaction", "sent_in", F.lit(-1)))
    reported = reported.withColumn("reported", F.col("outcome").isNotNull())
    grouped = reported.groupBy(*STRETCH, "transaction", "reported").agg(
        F.min("seq").alias("first_seq"), F.max("seq").alias("last_seq")
    )
    stretches = [Stretch(**row.asDict()) for row in grouped.limit(MOST).collect()]
    killed = {p.producer for p in evidence.producer_clients if p.ended_ns is None}
    found = [
        (*stretch[: len(STRETCH)], stretch.first_seq, stretch.last_seq, kind)
        for stretch, kind in convicted(stretches, killed)
    ]
    schema = (
        "producer int, topic string, partition int, marker bigint, state tinyint, "
        "low bigint, high bigint, kind string"
    )
    named = F.broadcast(evidence.table(found, schema))
    rows = unknown.join(named, STRETCH).where("seq between low and high")
    detail = F.concat_ws(" ", F.lit("marker at"), "marker", F.lit("state"), "state")
    return findings(rows.select(*PLACE, *IDENTITY, "kind", "marker", "state"), "V11", F.col("kind"), detail)


def convicted(stretches: Iterable[Stretch], killed: set[int]) -> list[tuple[Stretch, str]]:
    """The stretches of transactions that ended in part, and how."""
    found = []
    for transaction in transactions(stretches, killed):
        states = {stretch.state for stretch in transaction}
        for stretch in transaction:
            if stretch.state == OPEN and len(states) > 1:
                found.append((stretch, UNFINISHED))
            elif stretch.state in (VISIBLE, ABORTED) and {VISIBLE, ABORTED} <= states:
                found.append((stretch, CONTRADICTS))
    return found


def transactions(stretches: Iterable[Stretch], killed: set[int]) -> list[list[Stretch]]:
    """Stretches of the same transaction together: by its number; else where their numbers overlap;
    else what a killed producer left last, which is one transaction as long as no partition has two
    markers for it."""
    by_producer: dict[int, list[Stretch]] = defaultdict(list)
    for stretch in stretches:
        by_producer[stretch.producer].append(stretch)
    made: list[list[Stretch]] = []
    for producer, own in by_producer.items():
        groups: dict[Any, list[Stretch]] = defaultdict(list)
        for n, stretch in enumerate(own):
            groups[stretch.transaction if stretch.transaction >= 0 else f"unknown {n}"].append(stretch)
        merged = overlapping(list(groups.values()))
        if producer in killed:
            merged = last_together(merged)
        made += merged
    return made


def span(group: list[Stretch]) -> tuple[int, int]:
    return min(s.first_seq for s in group), max(s.last_seq for s in group)


def overlapping(groups: list[list[Stretch]]) -> list[list[Stretch]]:
    """Groups whose ranges of sequence numbers overlap, merged."""
    made: list[list[Stretch]] = []
    for group in sorted(groups, key=span):
        if made and span(group)[0] <= span(made[-1])[1]:
            made[-1] = made[-1] + group
        else:
            made.append(group)
    return made


def last_together(groups: list[list[Stretch]]) -> list[list[Stretch]]:
    """A producer that was killed left at most one transaction without a row: all of it, if one
    marker a partition ended it."""
    rest = [group for group in groups if not any(s.reported for s in group)]
    if len({s.transaction for group in rest for s in group if s.transaction >= 0}) > 1:
        rest = [group for group in rest if all(s.transaction < 0 for s in group)]
    together = [stretch for group in rest for stretch in group]
    markers: dict[tuple[str, int], set[int]] = defaultdict(set)
    for stretch in together:
        markers[stretch.topic, stretch.partition].add(stretch.marker)
    if any(len(found) > 1 for found in markers.values()):
        return groups
    return [*(group for group in groups if group not in rest), together]
