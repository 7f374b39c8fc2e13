"""Mutations of headers that hide a batch or its records, of files that are cut, and of records that
lie where no client sent them."""

from copy import deepcopy

from tests.spark_validation.field_mutations import patch
from tests.spark_validation.mutation import Expected, Mutation
from tests.spark_validation.real_time_mutations import MISSED
from tests.spark_validation.removal_mutations import compacted, keyed, superseded
from tests.spark_validation.world import BATCH, BATCHES, Topic, read_everything

FOLLOW = ("V07", "sequence numbers do not follow")


def unread(problem: str, batches: int = 1, follow: int = 1) -> Expected:
    """What is missed of batches that cannot be read, and which three readers were given."""
    lost = batches * BATCH
    return {
        ("V07", problem): 1,
        FOLLOW: follow,
        ("V01", "nothing at its offset"): lost,
        ("V03", "not in the log"): 3 * lost,
        ("V15", "missing offsets"): 1,
    }


def in_another_partition(topic: Topic) -> None:
    """The last batch of partition 0 lies in partition 1."""
    moved = topic.log[0].pop()
    last = topic.log[1][-1]
    moved.base, moved.sequence = last.end, last.sequence + BATCH
    topic.log[1].append(moved)
    read_everything(topic)


def twice_of_an_unknown_outcome(topic: Topic) -> None:
    """As two batches whose sequence numbers follow."""
    last = topic.log[0][-1]
    for record in last.records:
        topic.sent(record.producer, record.seq).update(status=2, offset=-1)
    again = deepcopy(last)
    again.base, again.sequence = last.end, last.sequence + BATCH
    topic.log[0].append(again)
    read_everything(topic)


def start_above_the_end(topic: Topic) -> None:
    topic.start_offset = topic.log[0][-1].end + 10


def compact_the_active_segment(topic: Topic) -> None:
    """The newest segment loses a record whose key has a later one."""
    keyed(topic, 52, 900)
    keyed(topic, 57, 900)
    compacted(topic, {52, *superseded(topic, 20)})


DAMAGE_MUTATIONS: tuple[Mutation, ...] = (
    Mutation("no-leader-epoch", "idempotent", patch(0, leader_epoch=-1), {("V07", "no leader epoch"): 1}),
    Mutation("old-format", "idempotent", patch(3, magic=1), unread("old message format")),
    Mutation("magic", "idempotent", patch(3, magic=7), unread("magic wrong")),
    Mutation("count-high", "idempotent", patch(3, record_count=6), unread("record count wrong")),
    Mutation("length", "idempotent", patch(3, length=40), unread("batch length wrong", 7, 2)),
    Mutation(
        "last-offset",
        "idempotent",
        patch(3, last_offset_delta=6),
        {("V07", "count is not the offsets'"): 1, ("V07", "offsets step back"): 1},
    ),
    Mutation(
        "sequence-missing",
        "idempotent",
        patch(3, base_sequence=-1),
        {("V07", "producer fields contradict each other"): 1, FOLLOW: 1},
    ),
    Mutation(
        "other-partition",
        "idempotent",
        in_another_partition,
        {
            ("V01", "beyond the log's end"): BATCH,
            ("V02", "another key"): BATCH,
            ("V06", "producer steps back"): 1,
            ("V20", MISSED): BATCH,
        },
    ),
    Mutation("unknown-twice", "idempotent", twice_of_an_unknown_outcome, {("V04", "at two offsets"): BATCH}),
    Mutation(
        "start-above-end",
        "idempotent",
        start_above_the_end,
        {
            ("V01", "below a log start that nothing allows"): BATCHES * BATCH,
            ("V03", "below the log's start"): 2 * BATCHES * BATCH,
            ("V15", "log start above the high watermark"): 1,
            ("V15", "log start moved without a reason"): 1,
        },
    ),
    Mutation(
        "compacted-active",
        "idempotent",
        compact_the_active_segment,
        {("V16", "removed from the active segment"): 1, ("V15", "missing offsets"): 1},
    ),
)
