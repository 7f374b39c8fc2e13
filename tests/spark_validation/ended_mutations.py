"""Mutations of transactions that their producers heard the end of: over both partitions, with
offsets of a group, and in a compacted topic."""

from collections.abc import Callable

from kbroker.protocol.records import ControlType
from tests.spark_validation.mutation import Mutation
from tests.spark_validation.share_mutations import copied_with_offsets
from tests.spark_validation.transaction_mutations import killed, late_reads
from tests.spark_validation.world import BATCH, BATCHES, MS, Topic, read_everything

COMMITTED, ABORTED = 0, 1
LAST = BATCHES * (BATCH + 1)  # where the transaction over both partitions begins in each


def over_both(topic: Topic, outcome: int, *ends: ControlType | None) -> None:
    """The first producer ends a last transaction over both partitions, and hears so. ends: its
    marker in each partition, None where it is missing."""
    number = killed(topic)
    producer = topic.killed.pop()
    own = [row for row in topic.rows["sends"] if (row["producer"], row["transaction"]) == (producer, number)]
    seqs, sent = [row["seq"] for row in own], [row["intended_ns"] for row in own]
    topic.rows["transactions"].append(
        {
            "producer": producer,
            "transaction": number,
            "first_seq": min(seqs),
            "last_seq": max(seqs),
            "outcome": outcome,
            "meant": outcome,
            "error": 0,
            "begin_ns": min(sent),
            "ending_ns": max(sent) + 5 * MS,
            "end_ns": max(sent) + 6 * MS,
        }
    )
    for partition, end in enumerate(ends):
        if end is None:
            topic.log[partition].pop()
        else:
            topic.log[partition][-1].control = end
    read_everything(topic)
    if None in ends:
        late_reads(topic)


def ended(outcome: int, *ends: ControlType | None) -> Callable[[Topic], None]:
    return lambda topic: over_both(topic, outcome, *ends)


def lose_copies(source: str) -> Callable[[Topic], None]:
    """The offsets of a transaction are committed, and the records that it wrote are gone."""

    def mutate(topic: Topic) -> None:
        topic.log[0].pop(2)
        read_everything(topic)
        copied_with_offsets(source)(topic)

    return mutate


def compact_a_marker(topic: Topic) -> None:
    """The marker of an aborted transaction is removed before its records: the commit that follows
    shows them."""
    topic.cleanup_policy = "compact"
    at = next(n for n, batch in enumerate(topic.log[0]) if batch.control == ControlType.ABORT)
    topic.log[0].pop(at)
    read_everything(topic)


def nothing(topic: Topic) -> None:
    """What is found in it comes from the topic that its copies are in."""


COMMIT, ABORT = ControlType.COMMIT, ControlType.ABORT
UNSEEN = ("V01", "committed, but not visible to read_committed")
V11 = "V11"
ENDED_MUTATIONS: tuple[Mutation, ...] = (
    Mutation("clean-over-both", "transactional", ended(COMMITTED, COMMIT, COMMIT), {}),
    Mutation("clean-aborted-both", "transactional", ended(ABORTED, ABORT, ABORT), {}),
    Mutation("half-marked", "transactional", ended(COMMITTED, COMMIT, None), {UNSEEN: BATCH}),
    Mutation("half-turned", "transactional", ended(COMMITTED, COMMIT, ABORT), {UNSEEN: BATCH}),
    Mutation(
        "half-open", "transactional", ended(ABORTED, ABORT, None), {(V11, "never ended in the log"): BATCH}
    ),
    Mutation(
        "compacted-marker",
        "transactional",
        compact_a_marker,
        {
            (V11, "aborted, but committed in the log"): BATCH,
            (V11, "its producer aborted it"): 2 * BATCH,
            (V11, "one marker ended two transactions"): 1,
        },
    ),
    Mutation(
        "copied-recordless",
        "copied",
        lose_copies("recordless-source"),
        {
            ("V01", "nothing at its offset"): BATCH,
            ("V15", "missing offsets"): 1,
            ("V07", "first sequence number is not 0"): 1,
            ("V07", "marker ends no transaction"): 1,
        },
    ),
    Mutation("recordless-source", "idempotent", nothing, {("V12", "never copied"): BATCH}),
)


def places(first: int, partition: int = 0) -> set[tuple[int, int | None]]:
    return {(partition, first + n) for n in range(BATCH)}


ENDED: dict[str, tuple[str, set[tuple[int, int | None]]]] = {
    "half-marked": ("V01", places(LAST, 1)),
    "half-turned": ("V01", places(LAST, 1)),
    "half-open": (V11, places(LAST, 1)),
    "compacted-marker": (V11, places(4 * (BATCH + 1))),
    "copied-recordless": ("V01", places(BATCH + 1)),
    "recordless-source": ("V12", places(BATCH)),
}
"""As OUTSIDE."""
