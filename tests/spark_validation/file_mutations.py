"""Mutations of the files of a log: of segments that are empty, missing or left over, of what
retention and compaction leave, and of numbers that wrap."""

from kbroker.protocol.records import ControlType
from spark_validation.checks.retention import NEWEST
from tests.spark_validation.ended_mutations import COMMITTED, over_both
from tests.spark_validation.epoch_mutations import leader_epochs
from tests.spark_validation.field_mutations import aborted_index, send_headers, time_index
from tests.spark_validation.mutation import Mutation
from tests.spark_validation.removal_mutations import (
    CUT,
    FIRST_SEGMENT,
    compact,
    delete_within_a_segment,
)
from tests.spark_validation.share_mutations import share
from tests.spark_validation.snapshot_mutations import snapshot
from tests.spark_validation.world import BATCH, BATCHES, Topic, read_everything

END = BATCHES * BATCH
SEQUENCES = 1 << 31


def segment(offset: int, suffix: str = ".log") -> str:
    return f"{offset:020d}{suffix}"


def roll(topic: Topic) -> None:
    """An active segment that holds nothing yet."""
    topic.files[segment(END)] = b""


def roll_beyond(topic: Topic) -> None:
    """The next record would have an offset that leaves a gap."""
    topic.files[segment(END + 10)] = b""


def leave_files(topic: Topic) -> None:
    """What cleaners and retention have not removed yet, and a stop leaves."""
    for suffix in (".log.deleted", ".log.cleaned", ".log.swap", ".index.deleted", ".timeindex.swap"):
        topic.files[segment(0, suffix)] = b"not a batch"
    topic.files["leader-epoch-checkpoint.tmp"] = b"0\n1\n7 0\n"


def lose_the_first_segment(topic: Topic) -> None:
    """The log's start stays where it was."""
    topic.log[0] = topic.log[0][FIRST_SEGMENT:]
    read_everything(topic)


def lose_the_log(topic: Topic) -> None:
    """The folder of a partition is empty, after everybody had read it."""
    topic.high_watermark = topic.log[0][-1].end
    topic.log[0] = []


def wrap_sequences(topic: Topic) -> None:
    """After the highest sequence number comes 0, also within a batch."""
    delete_within_a_segment(topic)
    for batch in topic.log[0]:
        batch.sequence = (batch.sequence + SEQUENCES - 12) % SEQUENCES


def wrap_to_one(topic: Topic) -> None:
    """0 is left out."""
    wrap_sequences(topic)
    for batch in topic.log[0]:
        if batch.sequence < 10 * BATCH:
            batch.sequence += 1


def start_at(topic: Topic, offset: int) -> None:
    """Drains were given nothing below the log's start; the group had read before."""
    topic.start_offset = offset
    topic.rows["reads"] = [
        row
        for row in topic.rows["reads"]
        if row["partition"] or row["offset"] >= offset or row["consumer"] == topic.reader
    ]


def expire_transactions(topic: Topic) -> None:
    topic.config["retention.ms"] = "50000"
    topic.log[0] = topic.log[0][FIRST_SEGMENT:]
    start_at(topic, topic.log[0][0].base)


def compact_and_expire(topic: Topic) -> None:
    compact(topic)
    topic.cleanup_policy = "compact,delete"
    topic.config["retention.ms"] = "50000"
    topic.log[0] = [batch for batch in topic.log[0] if batch.base >= CUT]
    start_at(topic, CUT)


def compact_otherwise(topic: Topic) -> None:
    """The cleaner writes a survivor with another header, when everybody had read it."""
    compact(topic)
    offset, record, _ = topic.records()[0]
    assert offset == SURVIVOR
    record.headers = (("cleaned", b"1"),)


def everything(topic: Topic) -> None:
    """All that a log of idempotent producers may have beside it, and a share group that reads
    it."""
    send_headers(topic)
    leader_epochs(topic)
    time_index(topic)
    snapshot()(topic)
    roll(topic)
    share(topic)


def everything_ended(topic: Topic) -> None:
    """The same of transactions, one of which is over both partitions."""
    over_both(topic, COMMITTED, ControlType.COMMIT, ControlType.COMMIT)
    aborted_index(topic)
    snapshot()(topic)
    share(topic)


SURVIVOR = 48  # the lowest offset of partition 0 that has the last record of its key below CUT
V15 = "V15"
FILE_MUTATIONS: tuple[Mutation, ...] = (
    Mutation("clean-everything", "idempotent", everything, {}),
    Mutation("clean-everything-ended", "transactional", everything_ended, {}),
    Mutation("clean-rolled", "idempotent", roll, {}),
    Mutation("clean-leftovers", "idempotent", leave_files, {}),
    Mutation("clean-wrapped", "idempotent", wrap_sequences, {}),
    Mutation("clean-expired-transactions", "transactional", expire_transactions, {}),
    Mutation("clean-compacted-expired", "idempotent", compact_and_expire, {}),
    Mutation("rolled-beyond", "idempotent", roll_beyond, {(V15, NEWEST): 1}),
    Mutation(
        "segment-lost",
        "idempotent",
        lose_the_first_segment,
        {
            ("V01", "nothing at its offset"): CUT,
            (V15, "missing offsets"): 1,
            ("V07", "first sequence number is not 0"): 2,
        },
    ),
    Mutation(
        "log-lost",
        "idempotent",
        lose_the_log,
        {
            ("V01", "nothing at its offset"): END,
            ("V03", "not in the log"): 3 * END,
            (V15, "missing offsets"): 1,
        },
    ),
    Mutation("wrapped-to-one", "idempotent", wrap_to_one, {("V07", "sequence numbers do not follow"): 2}),
    Mutation(
        "compacted-headers",
        "idempotent",
        compact_otherwise,
        {
            ("V02", "other headers"): 1,
            ("V03", "another record or value"): 3,
            ("V16", "survivor changed or moved"): 1,
        },
    ),
)
FILES: dict[str, tuple[str, set[tuple[int, int | None]]]] = {
    "rolled-beyond": (V15, {(0, END)}),
    "segment-lost": ("V01", {(0, offset) for offset in range(CUT)}),
    "wrapped-to-one": ("V07", {(0, 6 * BATCH), (0, 7 * BATCH)}),
    "log-lost": ("V01", {(0, offset) for offset in range(END)}),
    "compacted-headers": ("V16", {(0, SURVIVOR)}),
}
"""As OUTSIDE."""
