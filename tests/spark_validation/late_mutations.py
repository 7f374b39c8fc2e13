"""Mutations of what a log shows only beside something else: records of another run, holes that no
cleaner makes, numbers that no producer gave, and ends that came too late."""

from collections.abc import Callable
from dataclasses import dataclass

from kbroker.protocol.compression import Codec
from loadtest.record import MEANT_TO_ABORT
from spark_validation.checks.batches import UNFIT
from spark_validation.checks.compaction import CLEANED
from spark_validation.checks.markers import RISES
from spark_validation.checks.places import OTHER_RUN
from spark_validation.checks.transactions import EXPIRED
from spark_validation.segments import layout
from tests.io.files.snapshot_bytes import encode
from tests.spark_validation.batch_mutations import of_another_run
from tests.spark_validation.marker_mutations import stable_too_high
from tests.spark_validation.mutation import Expected, Mutation
from tests.spark_validation.removal_mutations import CUT, compacted, keyed, superseded
from tests.spark_validation.world import (
    BATCH,
    BATCHES,
    MS,
    Batch,
    Record,
    Topic,
    patched,
    read_everything,
)

END = BATCHES * BATCH
EXPIRES = 9 * (BATCH + 1)  # the last committed transaction of partition 1
SEGMENT = 10  # batches of one
LAST = -1


def append_of_another_run(topic: Topic) -> None:
    """It has the numbers of a record that the run sent, and everybody was given it."""
    sent = topic.log[0][0].records[3]
    flags = sent.flags | (MEANT_TO_ABORT if topic.transactional else 0)
    late_ns = 100 * MS + max(record.intended_ns for _, record, _ in topic.records())
    like = Record(sent.producer, sent.seq, sent.partition_seq, sent.key, late_ns, flags)
    like.value = of_another_run(like.bytes())
    end = topic.log[0][-1].end
    topic.log[0].append(Batch(end, [like], 77_000, 0))
    read_everything(topic)


def drop_unseen(topic: Topic) -> None:
    """From the newest segment, a record that was not acknowledged and that nobody was given."""
    record = keyed(topic, END - 4, 900)
    topic.sent(record.producer, record.seq).update(status=2, offset=-1)
    compacted(topic, {END - 4})
    rows = topic.rows["reads"]
    topic.rows["reads"] = [r for r in rows if (r["partition"], r["offset"]) != (0, END - 4)]


def snapshot_at(offset: int) -> Callable[[Topic], None]:
    """A producer snapshot without an entry."""

    def mutate(topic: Topic) -> None:
        topic.files[f"{offset:020d}.snapshot"] = encode([])

    return mutate


def bump_within(topic: Topic) -> None:
    """The first transaction of partition 0 has a second batch, under the next epoch."""
    first = topic.log[0][0]
    second = Batch(first.base + 2, first.records[2:], first.producer_id, 0, True)
    first.records = first.records[:2]
    topic.log[0].insert(1, second)
    for batch in topic.log[0][1:]:
        if batch.producer_id == first.producer_id:
            batch.producer_epoch = 1
            batch.sequence -= 2 if batch is not second and batch.control is None else 0


def commit_after_the_timeout(topic: Topic) -> None:
    """A transaction is committed more than a minute after its first record was acknowledged, and
    seen then."""
    ended = next(batch for batch in topic.log[1] if batch.base == EXPIRES)
    row = next(
        r
        for r in topic.rows["transactions"]
        if (r["producer"], r["first_seq"]) == (ended.records[0].producer, ended.records[0].seq)
    )
    assert row["outcome"] == 0
    late_ns = ended.records[0].intended_ns + 64_000 * MS
    row |= {"ending_ns": late_ns, "end_ns": late_ns + MS}
    for read in topic.rows["reads"]:
        place = read["partition"] == 1 and EXPIRES <= read["offset"] < EXPIRES + BATCH
        if place and read["consumer"] != topic.drain:
            read["seen_ns"] = late_ns + 2 * MS


def compact_without_a_producer(topic: Topic) -> None:
    compacted(topic, superseded(topic, CUT))
    topic.log[0][LAST].producer_id = topic.log[0][LAST].sequence = -1


def compact_and_renumber(topic: Topic) -> None:
    """The last batch has a sequence number beyond what can have been removed."""
    compacted(topic, superseded(topic, CUT))
    topic.log[0][LAST].sequence += END


def clean_up_to(more: int) -> Callable[[Topic], None]:
    """What the log directory says was cleaned ends so far above the newest segment's begin."""

    def mutate(topic: Topic) -> None:
        compacted(topic, superseded(topic, CUT))
        topic.cleaned = topic.log[0][(len(topic.log[0]) - 1) // SEGMENT * SEGMENT].base + more

    return mutate


def stable_above_open_and_compacted(topic: Topic) -> None:
    stable_too_high(topic)
    topic.cleanup_policy = "compact"


@dataclass
class Marked(Batch):
    """The attributes of its first record are not 0."""

    def bytes(self, codec: Codec) -> bytes:
        made = bytearray(super().bytes(Codec.NONE))
        at = layout.HEADER_BYTES
        while made[at] >= 0x80:  # the record's length
            at += 1
        made[at + 1] = 1
        return patched(bytes(made), {})


def mark_a_record(topic: Topic) -> None:
    topic.log[0][4] = Marked(**vars(topic.log[0][4]))


V05, V07, V11, V13, V15, V16 = "V05", "V07", "V11", "V13", "V15", "V16"
# its batch names no transaction, as every one of the topic does
OTHER_RUNS: Expected = {(V05, OTHER_RUN): 1, (V07, "transactional bit is not its producer's"): 1}
LATE_MUTATIONS: tuple[Mutation, ...] = (
    Mutation("other-run-appended", "idempotent", append_of_another_run, {(V05, OTHER_RUN): 1}),
    Mutation("other-run-within", "transactional", append_of_another_run, OTHER_RUNS),
    Mutation("compacted-hole", "idempotent", drop_unseen, {(V15, "missing offsets"): 1}),
    Mutation("clean-snapshot-at-end", "idempotent", snapshot_at(END), {}),
    Mutation("snapshot-beyond", "idempotent", snapshot_at(END + 7), {(V13, ".snapshot lies after the log's end"): 1}),
    Mutation("epoch-within", "transactional", bump_within, {(V07, RISES): 1}),
    Mutation("commit-expired", "transactional", commit_after_the_timeout, {(V11, EXPIRED): 1}),
    Mutation("compacted-unnumbered", "idempotent", compact_without_a_producer, {(V07, "no producer id"): 1}),
    Mutation("compacted-sequence", "idempotent", compact_and_renumber, {(V07, UNFIT): 1}),
    Mutation(
        "compacted-stable",
        "transactional",
        stable_above_open_and_compacted,
        {
            (V11, "last stable offset above an open record"): 1,
            (V11, "never ended in the log"): 2 * BATCH,
        },
    ),
    Mutation("clean-cleaned", "idempotent", clean_up_to(0), {}),
    Mutation("cleaned-within", "idempotent", clean_up_to(1), {(V16, CLEANED): 1}),
    Mutation("record-attributes", "idempotent", mark_a_record, {(V07, "attributes of records unknown"): 1}),
)  # fmt: skip
LATE: dict[str, tuple[str, set[tuple[int, int | None]]]] = {
    "other-run-appended": (V05, {(0, END)}),
    "compacted-hole": (V15, {(0, END - 4)}),
    "snapshot-beyond": (V13, {(0, END + 7)}),
    "epoch-within": (V07, {(0, 2)}),
    "commit-expired": (V11, {(1, EXPIRES)}),
    "compacted-unnumbered": (V07, {(0, END - 1)}),
    "compacted-sequence": (V07, {(0, END - 1)}),
    "cleaned-within": (V16, {(0, END - 1)}),
    "record-attributes": (V07, {(0, 4 * BATCH)}),
}
"""As OUTSIDE."""
