"""Mutations of what was given or committed outside of its time or place: above an open transaction,
outside of an assignment, above the log's end; and of the snapshots beside a log."""

from collections.abc import Callable

from spark_validation.checks.ownership import AFTER, BEFORE
from spark_validation.checks.stable_reads import ABOVE
from tests.spark_validation.batch_mutations import BATCHES
from tests.spark_validation.ended_mutations import ENDED
from tests.spark_validation.file_mutations import FILES
from tests.spark_validation.gone_since_mutations import GONE_SINCE, GONE_SINCE_MUTATIONS
from tests.spark_validation.hidden_mutations import HIDDEN
from tests.spark_validation.index_mutations import INDEX_MUTATIONS, INDEXES
from tests.spark_validation.late_mutations import LATE, LATE_MUTATIONS
from tests.spark_validation.mutation import Mutation
from tests.spark_validation.owner_mutations import OWNER_MUTATIONS, OWNERS
from tests.spark_validation.snapshot_mutations import SNAPSHOT_MUTATIONS, SNAPSHOTS
from tests.spark_validation.subtle_mutations import SUBTLE, SUBTLE_MUTATIONS
from tests.spark_validation.world import BATCH, MS, Topic, commit_row
from tests.spark_validation.wrong_client_mutations import WRONG_CLIENT_MUTATIONS, WRONG_CLIENTS

FOLLOWING = 12  # the batch of partition 0 after an aborted transaction and its marker


def end_late(began_ms: int) -> Callable[[Topic], None]:
    """A transaction is aborted when the records above it have been given. began_ms: so long before
    its first record it had begun."""

    def mutate(topic: Topic) -> None:
        aborted = topic.log[0][FOLLOWING - 2].records
        who = (aborted[0].producer, aborted[0].seq)
        row = next(r for r in topic.rows["transactions"] if (r["producer"], r["first_seq"]) == who)
        assert row["outcome"] == 1
        ending_ns = topic.log[0][FOLLOWING].records[-1].intended_ns + 51 * MS
        row |= {"ending_ns": ending_ns, "end_ns": ending_ns + MS}
        row["begin_ns"] -= began_ms * MS

    return mutate


def give_back(before: int) -> Callable[[Topic], None]:
    """The first assignment ends before its last records were given. before: how many."""

    def mutate(topic: Topic) -> None:
        began = next(r for r in topic.rows["assignments"] if (r["partition"], r["assignment"]) == (0, 0))
        own = [row for row in topic.reads_of(topic.reader, 0) if row["assignment"] == 0]
        topic.rows["assignments"].append(began | {"event": 1, "at_ns": own[-1 - before]["seen_ns"]})

    return mutate


def give_early(before: int) -> Callable[[Topic], None]:
    """The second assignment begins when its first records have been given. before: how many."""

    def mutate(topic: Topic) -> None:
        began = next(r for r in topic.rows["assignments"] if (r["partition"], r["assignment"]) == (0, 1))
        own = [row for row in topic.reads_of(topic.reader, 0) if row["assignment"] == 1]
        began["at_ns"] = own[before]["seen_ns"]

    return mutate


def coordinator_epochs(*epochs: int) -> Callable[[Topic], None]:
    """Of the first producer's markers in partition 0; the last one is of those that follow, too."""

    def mutate(topic: Topic) -> None:
        producer_id = topic.log[0][0].producer_id
        markers = [b for b in topic.log[0] if b.control is not None and b.producer_id == producer_id]
        for n, marker in enumerate(markers):
            marker.coordinator_epoch = epochs[min(n, len(epochs) - 1)]

    return mutate


def commit_above_the_end(topic: Topic) -> None:
    topic.committed[0] = topic.log[0][-1].end + 3
    topic.rows["commits"].append(commit_row(topic, 0, 1, topic.committed[0], 4))


OUTSIDE_MUTATIONS: tuple[Mutation, ...] = (
    *WRONG_CLIENT_MUTATIONS,
    *OWNER_MUTATIONS,
    *GONE_SINCE_MUTATIONS,
    *INDEX_MUTATIONS,
    *SNAPSHOT_MUTATIONS,
    *SUBTLE_MUTATIONS,
    *LATE_MUTATIONS,
    Mutation("above-open", "transactional", end_late(0), {("V11", ABOVE): 2 * BATCH}),  # to two readers
    Mutation("clean-timed-out", "transactional", end_late(31_000), {}),  # the broker ended it by itself
    Mutation("given-after-end", "idempotent", give_back(2), {("V08", AFTER): 2}),
    Mutation("clean-given-back", "idempotent", give_back(0), {}),
    Mutation("given-early", "idempotent", give_early(2), {("V08", BEFORE): 2}),
    Mutation("clean-given-at-once", "idempotent", give_early(0), {}),
    Mutation(
        "coordinator-back",
        "transactional",
        coordinator_epochs(3, 3, 2, 4),
        {("V07", "coordinator epoch steps back"): 1},
    ),
    Mutation(
        "coordinator-ahead",
        "transactional",
        coordinator_epochs(0, 7, 0),
        {("V07", "coordinator epoch above a later one"): 1},
    ),
    Mutation("clean-coordinators", "transactional", coordinator_epochs(0, 0, 2, 7), {}),
    Mutation("commit-above", "idempotent", commit_above_the_end, {("V09", "commit above the log's end"): 1}),
)
OUTSIDE: dict[str, tuple[str, set[tuple[int, int | None]]]] = {
    "above-open": ("V11", {(0, FOLLOWING // 2 * (BATCH + 1) + n) for n in range(BATCH)}),
    "given-after-end": ("V08", {(0, 28), (0, 29)}),
    "given-early": ("V08", {(0, 30), (0, 31)}),
    "coordinator-back": ("V07", {(0, 4 * (BATCH + 1) + BATCH)}),
    "coordinator-ahead": ("V07", {(0, 2 * (BATCH + 1) + BATCH)}),
    "commit-above": ("V09", {(0, 63)}),
    **SNAPSHOTS,
    **SUBTLE,
    **LATE,
    **WRONG_CLIENTS,
    **OWNERS,
    **GONE_SINCE,
    **INDEXES,
    **BATCHES,
    **HIDDEN,
    **ENDED,
    **FILES,
}
"""Anomaly, and partition and offset of each record that it must name."""
