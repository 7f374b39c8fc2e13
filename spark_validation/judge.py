"""The judgement: digests first, exact checks where they differ, a verdict at the end."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from spark_validation import digests
from spark_validation.checks import (
    batches,
    beginnings,
    compaction,
    delays,
    deletions,
    delivery,
    fencing,
    group_coverage,
    groups,
    indexes,
    latency,
    markers,
    membership,
    offsets,
    order,
    ownership,
    partial_transactions,
    places,
    producer_ids,
    real_time,
    restart,
    retention,
    shares,
    stable_reads,
    topic_ids,
    transactions,
    watermarks,
)
from spark_validation.evidence import IDENTITY, Evidence
from spark_validation.grounds import weigh
from spark_validation.verdict import CannotJudge, Verdict, listed

log = logging.getLogger("spark_validation")
KEPT = StorageLevel.DISK_ONLY
STEPPED_NS = 1_000_000_000
TIMED = {
    "start of an assignment below a confirmed commit",
    "commit below a confirmed commit",
    "start forgot a confirmed commit",
    "start above every commit",
    "commit of a former owner was confirmed",
    ownership.OWNED,
    ownership.EARLY,
    ownership.AFTER,
    ownership.BEFORE,
    stable_reads.ABOVE,
    stable_reads.WITHIN,
    deletions.SERVED,
    delays.EARLY,
    shares.HELD,
    shares.STALE,
    shares.LATE,
    shares.REFUSED,
    shares.BEFORE,
}
"""Findings by the order of the clients' times alone."""


class Judge:
    """One judgement. Runs in: the driver. `verdict` grows check by check."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.verdict = Verdict()
        self.latencies: list[latency.Latency] = []
        self.displaced: list[DataFrame] = []  # topic, partition of records that are not in their places

    def run(self) -> Verdict:
        """All checks that the evidence allows."""
        with self.step("digests"):
            sends = digests.send_digests(self.evidence).persist(KEPT)
            held = digests.log_digests(self.evidence).persist(KEPT)
            reads = digests.read_digests(self.evidence).persist(KEPT)
            self.count(sends, held, reads)
        self.judge_places(sends, held)
        self.judge_delivery(reads, held)
        self.judge_real_time()
        self.judge_transactions()
        self.judge_groups(reads, held)
        self.judge_shares()
        self.judge_files()
        with self.step("grounds"):
            weigh(self.evidence, self.verdict)
        with self.step("latency"):
            self.latencies = latency.latencies(self.evidence)
        for frame in (sends, held, reads):
            frame.unpersist()
        return self.verdict

    def judge_places(self, sends: DataFrame, held: DataFrame) -> None:
        """V01, V02, V04, V05, V06, V15, V16."""
        evidence = self.evidence
        strange: DataFrame | None = None
        with self.step("sends against log"):
            suspects = digests.unequal_sends(sends, held).persist(KEPT)
            if not suspects.isEmpty():
                placed = places.sent_and_found(evidence, suspects).persist(KEPT)
                self.take(places.lost(evidence, placed))
                self.take(places.misplaced(evidence, placed))
                self.displaced.append(places.displaced(placed, "s", "l"))
                strange = places.unacknowledged(evidence, placed).persist(KEPT)
            if evidence.silent_producers:
                silent = places.without_offsets(evidence)
                strange = (silent if strange is None else strange.unionByName(silent)).persist(KEPT)
            if strange is not None:
                self.take(places.phantoms(evidence, strange))
                self.take(places.altered_records(evidence, strange))
            self.take(places.lost_without_offset(evidence))
            self.take(places.wrong_partitions(evidence))
            if evidence.append_time_topics and not evidence.clock_moved:
                self.take(places.append_times(evidence))
        with self.step("order"):
            steps = order.disordered(evidence).persist(KEPT)
            doubtful = steps.select(*IDENTITY)
            if strange is not None:
                doubtful = doubtful.unionByName(strange.select(*IDENTITY)).where("producer >= 0")
                # of acks=0 every record is strange, and repeats are no promise
                doubtful = doubtful.where(~F.col("producer").isin(evidence.silent_producers))
            if not doubtful.isEmpty():
                again = places.repeated(evidence, doubtful).persist(KEPT)
                self.take(places.duplicates(evidence, again))
                if not steps.isEmpty():
                    self.take(order.out_of_order(evidence, steps, again))
                    self.take(order.keys_out_of_order(evidence, steps, again))
        with self.step("holes"):
            self.take(offsets.holes(evidence, held))
            self.take(watermarks.high_watermarks(evidence, held))
            self.take(watermarks.contradictory(evidence))
        with self.step("log starts"):
            self.take(retention.log_starts(evidence))
            self.take(retention.checkpointed(evidence))
            self.take(retention.synced(evidence, held))
        if evidence.topics(compacted=True):
            with self.step("compaction"):
                self.take(compaction.compaction(evidence))
        else:
            self.verdict.skip("V16", "no compacted topic in the run")

    def judge_delivery(self, reads: DataFrame, held: DataFrame) -> None:
        """V03, V08, V10 and V11 by the log's markers."""
        evidence = self.evidence
        with self.step("reads against log"):
            suspects = digests.unequal_reads(evidence, reads, held).persist(KEPT)
            if not suspects.isEmpty():
                beside = delivery.reads_beside_log(evidence, suspects).persist(KEPT)
                self.take(delivery.diverged(evidence, beside))
                self.take(delivery.missing_reads(evidence, beside))
                self.take(delivery.aborted_by_log(beside))
                if evidence.records_removed:
                    taken = delivery.reads_of_removed(evidence, beside)
                    self.take(delivery.reads_unlike_sends(evidence, taken))
                    if evidence.topics(compacted=True):
                        self.take(compaction.seen_and_gone(evidence, taken))
                self.displaced.append(places.displaced(beside, "r", "l"))
        with self.step("order of delivery"):
            back = delivery.stepping_back(evidence).persist(KEPT)
            self.take(back)
            self.displaced.append(back.select("topic", "partition"))
            self.take(delivery.impossible_reads(evidence))
            self.take(membership.unrequested(evidence))
            if any(deletion.confirmed for deletion in evidence.run.deletions):
                self.take(deletions.reads_of_deleted(evidence))
        if not any(c.role == "drain" and c.finished for c in evidence.consumer_clients):
            self.verdict.skip(
                "V10", "no drain consumer reached the end: a record that nobody read proves nothing"
            )

    def judge_real_time(self) -> None:
        """V20, real time."""
        if self.evidence.run.clock_steps:
            self.verdict.skip("V20", "the clients' clocks were set: their times have no order")
            return
        with self.step("real time"):
            self.take(real_time.violations(self.evidence))
            displaced = reduce(DataFrame.unionByName, self.displaced).distinct().persist(KEPT)
            if not displaced.isEmpty():
                self.take(real_time.keys_as_read(self.evidence, displaced))

    def judge_transactions(self) -> None:
        """V11, V12 and V01 by the results that producers got."""
        evidence = self.evidence
        if any(p.transactional_id for p in evidence.producer_clients):
            with self.step("transactions"):
                self.take(transactions.premature_reads(evidence))
                self.take(transactions.expired(evidence))
                self.take(stable_reads.above_open(evidence))
                self.take(markers.divided(evidence))
                if (late := fencing.accepted_after_fencing(evidence)) is not None:
                    self.take(late)
                if evidence.source == "segments":
                    self.take(watermarks.last_stable(evidence))
                doubts = transactions.doubtful(evidence).persist(KEPT)
                if not doubts.isEmpty():
                    self.take(transactions.broken_promises(evidence, doubts))
                    self.take(partial_transactions.contradictions(evidence, doubts))
        else:
            self.verdict.skip("V11", "no transactional producer in the run")
            if evidence.source == "segments" and (held := watermarks.held_back(evidence)) is not None:
                self.take(held)
        if evidence.topics("copied") and not evidence.rows("copies").isEmpty():
            with self.step("copies"):
                self.take(transactions.copies(evidence))
        else:
            self.verdict.skip("V12", "nothing was copied in the run")

    def judge_groups(self, reads: DataFrame, held: DataFrame) -> None:
        """V09, and V08 and V10 of groups."""
        with self.step("groups"):
            self.take(groups.going_back(self.evidence))
            self.take(groups.early_deliveries(self.evidence))
            self.take(groups.commits_above_end(self.evidence))
        with self.step("group coverage"):
            self.take(group_coverage.starts(self.evidence))
            self.take(group_coverage.ends(self.evidence))
            self.take(group_coverage.undelivered(self.evidence, reads, held))
            self.take(group_coverage.unassigned(self.evidence))
            self.take(ownership.owners(self.evidence))
            self.take(ownership.former_owners(self.evidence))
            self.take(ownership.given_outside(self.evidence))
            self.take(beginnings.skipped(self.evidence))
        with self.step("membership"):
            self.take(membership.wrong_members(self.evidence))
            self.take(membership.unassigned(self.evidence))
            self.take(membership.unclaimed(self.evidence))

    def judge_shares(self) -> None:
        """V19, and V03, V10 and V11 of share groups."""
        evidence = self.evidence
        if evidence.rows("shares").isEmpty():
            self.verdict.skip("V19", "no share group in the run")
            return
        with self.step("share groups"):
            self.take(shares.repeated(evidence))
            self.take(shares.stale(evidence))
            if (old := shares.before_their_group(evidence)) is not None:
                self.take(old)
            self.take(shares.wrong_deliveries(evidence))
            self.take(shares.undelivered(evidence))
            self.take(shares.forgotten(evidence))
            if evidence.records_removed:
                given = delivery.reads_of_removed(evidence, shares.beside_log(evidence))
                self.take(delivery.reads_unlike_sends(evidence, given))
            if delays.delays(evidence):
                self.take(delays.early(evidence))

    def judge_files(self) -> None:
        """V07, V13, V14."""
        evidence = self.evidence
        if evidence.batches is None:
            for anomaly in ("V07", "V13"):
                self.verdict.skip(anomaly, "needs the segment files (--segments)")
        else:
            with self.step("batch chain"):
                self.take(batches.faults(evidence.batches))
                self.take(batches.chains(evidence, evidence.batches))
                self.take(markers.idle(evidence, evidence.batches))
                self.take(producer_ids.shared(evidence, evidence.batches))
                self.take(producer_ids.mixed_batches(evidence, evidence.batches))
            with self.step("indexes"):
                self.take(indexes.indexes(evidence))
                self.take(retention.unreadable(evidence))
                self.take(topic_ids.topic_ids(evidence))
        if evidence.earlier is None:
            self.verdict.skip("V14", "needs an earlier copy of the log (--earlier)")
        else:
            with self.step("earlier copy"):
                self.take(restart.changed_records(evidence))
                self.take(restart.changed_batches(evidence))

    def count(self, sends: DataFrame, held: DataFrame, reads: DataFrame) -> None:
        """Count the records that are judged. Raises CannotJudge when the log is another run's."""
        for name, frame, column in (
            ("sends", sends, "sent"),
            ("log", held, "any"),
            ("reads", reads, "reads"),
        ):
            row = frame.agg(F.sum(column)).first()
            self.verdict.records[name] = int(row[0] or 0) if row else 0
        if not self.verdict.records["log"] or not self.evidence.log.where("intact").isEmpty():
            return
        if digests.of_these_sends(self.evidence).isEmpty():
            raise CannotJudge(f"no record of the log is of run {self.evidence.run.run}")

    def take(self, found: DataFrame) -> None:
        """Findings into the verdict, at most LISTED of them. Those by an order of times are counted
        where the clients' clocks were set."""
        rows = listed(found)
        if self.evidence.stepped_ns > STEPPED_NS:
            rows = [row | {"convicts": row["convicts"] and row["kind"] not in TIMED} for row in rows]
        self.verdict.add(rows)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Times a step and says that it is done."""
        began = time.monotonic()
        yield
        taken = time.monotonic() - began
        self.verdict.seconds[name] = taken
        log.info("%-20s %6.1f s  %s", name, taken, self.verdict.convicted() or "")


Limits = dict[str, float]


def apply_limits(judge: Judge, limits: Limits) -> None:
    """V17 and V18: limits in ms, keys `visibility`, `ack`, `end_to_end` (all of p99)."""
    requested: dict[str, tuple[str, Callable[[Judge], latency.Latency]]] = {
        "visibility": ("V17", lambda j: j.latencies[3]),
        "ack": ("V18", lambda j: j.latencies[0]),
        "end_to_end": ("V18", lambda j: j.latencies[2]),
    }
    for anomaly, option in (("V17", "--max-visibility-ms"), ("V18", "--max-ack-ms or --max-end-to-end-ms")):
        if not any(requested[name][0] == anomaly for name in limits):
            judge.verdict.skip(anomaly, f"no limit given ({option}); the percentiles are in the report")
    for name, limit in limits.items():
        anomaly, pick = requested[name]
        p99 = pick(judge).at("p99")
        if p99 is None:
            judge.verdict.skip(anomaly, "nothing to measure")
            judge.verdict.missing.append(f"nothing to measure for a limit: {pick(judge).what}")
        elif p99 > limit:
            row = {"anomaly": anomaly, "kind": f"p99 of {pick(judge).what}", "convicts": True}
            judge.verdict.add([row | {"detail": f"{p99:.2f} ms, the limit is {limit:g} ms"}])
