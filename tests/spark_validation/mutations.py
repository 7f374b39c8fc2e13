"""One mutation an anomaly, with exactly the findings it must lead to: {(anomaly, kind): how
many}."""

from copy import deepcopy

from kbroker.protocol.compression import Codec
from kbroker.protocol.records import ControlType
from tests.spark_validation.batch_mutations import BATCH_MUTATIONS
from tests.spark_validation.compaction_mutations import compact, compact_too_much
from tests.spark_validation.copy_mutations import copy_all_but_one, copy_from, copy_twice
from tests.spark_validation.damage_mutations import DAMAGE_MUTATIONS
from tests.spark_validation.ended_mutations import ENDED_MUTATIONS
from tests.spark_validation.epoch_mutations import EPOCH_MUTATIONS
from tests.spark_validation.field_mutations import FIELD_MUTATIONS
from tests.spark_validation.file_mutations import FILE_MUTATIONS
from tests.spark_validation.group_mutations import GROUP_MUTATIONS
from tests.spark_validation.hidden_mutations import HIDDEN_MUTATIONS
from tests.spark_validation.marker_mutations import MARKER_MUTATIONS
from tests.spark_validation.mutation import Expected, Mutation
from tests.spark_validation.order_mutations import ORDER_MUTATIONS
from tests.spark_validation.outside_mutations import OUTSIDE_MUTATIONS
from tests.spark_validation.producer_id_mutations import PRODUCER_ID_MUTATIONS
from tests.spark_validation.real_time_mutations import (
    KEY_ORDER,
    MISSED,
    OVERTAKEN,
    REAL_TIME_MUTATIONS,
)
from tests.spark_validation.refusal_mutations import REFUSAL_MUTATIONS
from tests.spark_validation.removal_mutations import REMOVAL_MUTATIONS
from tests.spark_validation.share_mutations import SHARE_MUTATIONS
from tests.spark_validation.transaction_mutations import TRANSACTION_MUTATIONS
from tests.spark_validation.world import (
    BATCH,
    MS,
    Batch,
    Record,
    Topic,
    clean,
    commit_row,
    read_everything,
    read_row,
    send_row,
)


def nothing(topic: Topic) -> None:
    """As it was made."""


def lose_the_tail(topic: Topic) -> None:
    topic.earlier = deepcopy(topic.log)
    topic.log[0].pop()
    read_everything(topic)


def lose_a_batch_within(topic: Topic) -> None:
    """The offsets are gone with it."""
    topic.log[0].pop(4)
    read_everything(topic)


def overwrite_a_value(topic: Topic) -> None:
    _, record, _ = topic.records()[7]
    record.value = record.bytes()[:-1] + b"X"
    read_everything(topic)


def another_key(topic: Topic) -> None:
    topic.records()[7][1].key += 2
    read_everything(topic)


def exchange_two_producers(topic: Topic) -> None:
    """Two neighbouring batches change places; each producer's own order is kept."""
    log = topic.log[0]
    log[2].base, log[3].base = log[3].base, log[2].base
    log[2], log[3] = log[3], log[2]
    read_everything(topic)


def a_reader_sees_another_value(topic: Topic) -> None:
    topic.reads_of(topic.reader, 0)[9]["intact"] = False


def see_it_too_soon(topic: Topic) -> None:
    row = topic.reads_of(topic.reader, 0)[9]
    row["seen_ns"] = row["intended_ns"] - 1


def append_a_batch_again(topic: Topic) -> None:
    """What a retry does to a broker that forgot the producer."""
    again = deepcopy(topic.log[0][-2])
    again.base = topic.log[0][-1].end
    topic.log[0].append(again)
    read_everything(topic)


def acknowledge_the_retry(topic: Topic) -> None:
    """The first attempt is in the log, too: without idempotence that is no more than a repeat."""
    append_a_batch_again(topic)
    again = topic.log[0][-1]
    for n, record in enumerate(again.records):
        row = topic.sent(record.producer, record.seq)
        row |= {"offset": again.base + n, "acked_ns": row["acked_ns"] + 200 * MS}


def a_record_without_a_producer(topic: Topic) -> None:
    end = topic.log[0][-1].end
    topic.log[0].append(Batch(end, [Record(topic.producers[0], 10_000, 500, 2, 1_780_000_000_000_000_000)]))
    read_everything(topic)


def a_record_after_the_last(topic: Topic) -> None:
    """Its number was announced, and its producer ended before it."""
    last = next(b for b in reversed(topic.log[1]) if b.producer_id == topic.producers[1] + 100)
    seq = 1 + max(row["seq"] for row in topic.rows["sends"] if row["producer"] == topic.producers[1])
    record = Record(topic.producers[1], seq, last.records[-1].partition_seq + 1, 1, 1_780_000_003_000_000_000)
    made = Batch(topic.log[1][-1].end, [record], last.producer_id, last.sequence + len(last.records))
    topic.log[1].append(made)
    read_everything(topic)


def a_failed_send_in_the_log(topic: Topic) -> None:
    row = topic.rows["sends"][3]
    row |= {"status": 1, "offset": -1, "error": 10}


def break_a_checksum(topic: Topic) -> None:
    topic.log[1][3].broken_crc = True


def skip_a_sequence_number(topic: Topic) -> None:
    topic.log[0][4].sequence += 1


def skip_a_delivery(topic: Topic) -> None:
    topic.rows["reads"].remove(topic.reads_of(topic.reader, 0)[9])


def deliver_again(topic: Topic) -> None:
    row = topic.reads_of(topic.reader, 0)[9]
    topic.rows["reads"].insert(topic.rows["reads"].index(row), dict(row))


def deliver_backwards(topic: Topic) -> None:
    rows = topic.rows["reads"]
    at = rows.index(topic.reads_of(topic.reader, 0)[9])
    rows[at], rows[at + 1] = rows[at + 1], rows[at]


def commit_backwards(topic: Topic) -> None:
    topic.rows["commits"].append(commit_row(topic, 0, 1, 2, 4))


def forget_the_commit(topic: Topic) -> None:
    topic.committed[1] = 3


def begin_below_the_commit(topic: Topic) -> None:
    row = next(row for row in topic.rows["assignments"] if row["assignment"] == 1 and row["partition"] == 0)
    row["start_offset"] -= 5


def deliver_below_the_commit(topic: Topic) -> None:
    """The second assignment begins with a record that was committed before."""
    rows = topic.rows["reads"]
    first = next(row for row in topic.reads_of(topic.reader, 0) if row["assignment"] == 1)
    before = topic.reads_of(topic.reader, 0)[topic.reads_of(topic.reader, 0).index(first) - 1]
    rows.insert(rows.index(first), before | {"assignment": 1, "seen_ns": first["seen_ns"]})


def drain_ends_early(topic: Topic) -> None:
    topic.rows["reads"].remove(topic.reads_of(topic.drain, 1)[-1])


def show_an_aborted_record(topic: Topic) -> None:
    """To the drain with read_committed, in its place."""
    aborted = next(row for row in topic.rows["transactions"] if row["outcome"] == 1)
    offset, record, _ = next(
        found
        for found in topic.records()
        if (found[1].producer, found[1].seq) == (aborted["producer"], aborted["first_seq"])
    )
    rows = topic.rows["reads"]
    behind = next(row for row in topic.reads_of(topic.committed_drain, 0) if row["offset"] > offset)
    rows.insert(rows.index(behind), read_row(topic, topic.committed_drain, -1, 0, offset, record))


def show_an_open_record(topic: Topic) -> None:
    """Before its producer asked for the commit: past the last stable offset."""
    row = topic.reads_of(topic.reader, 0)[6]
    row["seen_ns"] = row["intended_ns"] + MS


def abort_what_was_committed(topic: Topic) -> None:
    marker = next(batch for batch in topic.log[0] if batch.control is not None)
    marker.control = ControlType.ABORT
    read_everything(topic)


def commit_what_was_aborted(topic: Topic) -> None:
    marker = next(batch for batch in topic.log[0] if batch.control == ControlType.ABORT)
    marker.control = ControlType.COMMIT
    read_everything(topic)


def hole_in_the_offsets(topic: Topic) -> None:
    """A number is left out, and everybody agrees on the numbers behind it."""
    for batch in topic.log[0][6:]:
        batch.base += 1
    for row in topic.rows["sends"]:
        if row["partition"] == 0 and row["offset"] >= 6 * BATCH:
            row["offset"] += 1
    read_everything(topic)


def spoil_an_index(topic: Topic) -> None:
    topic.spoiled_index = True


def change_what_was_acknowledged(topic: Topic) -> None:
    topic.earlier = deepcopy(topic.log)
    overwrite_a_value(topic)


def be_unsure(topic: Topic) -> None:
    """Outcomes that are no anomalies: unknown and in the log, no row at all, unknown and not in the
    log."""
    topic.rows["sends"][2] |= {"status": 2, "offset": -1}
    topic.rows["sends"].pop(7)
    ghost = Record(topic.producers[0], 300, 200, 2, 1_780_000_000_000_000_000)
    topic.rows["sends"].append(send_row(topic, 0, -1, ghost, -1) | {"status": 2})


ALL: tuple[Mutation, ...] = (
    *GROUP_MUTATIONS,
    *FIELD_MUTATIONS,
    *DAMAGE_MUTATIONS,
    *REFUSAL_MUTATIONS,
    *EPOCH_MUTATIONS,
    *PRODUCER_ID_MUTATIONS,
    *REMOVAL_MUTATIONS,
    *TRANSACTION_MUTATIONS,
    *MARKER_MUTATIONS,
    *SHARE_MUTATIONS,
    *OUTSIDE_MUTATIONS,
    *ORDER_MUTATIONS,
    *BATCH_MUTATIONS,
    *HIDDEN_MUTATIONS,
    *ENDED_MUTATIONS,
    *FILE_MUTATIONS,
    Mutation("clean", "idempotent", nothing, {}),
    Mutation("clean-plain", "plain", nothing, {}),
    Mutation("clean-transactional", "transactional", nothing, {}),
    Mutation("clean-copied", "copied", copy_from("clean-source"), {}),
    Mutation("clean-unsure", "idempotent", be_unsure, {}),
    Mutation("clean-compacted", "idempotent", compact, {}),
    Mutation(
        "tail-lost",
        "idempotent",
        lose_the_tail,
        {("V01", "beyond the log's end"): 5, ("V14", "gone"): 5, ("V20", MISSED): 5},
    ),
    Mutation(
        "batch-lost",
        "idempotent",
        lose_a_batch_within,
        {
            ("V01", "nothing at its offset"): 5,
            ("V15", "missing offsets"): 1,
            ("V07", "sequence numbers do not follow"): 1,
        },
    ),
    Mutation("value-altered", "idempotent", overwrite_a_value, {("V02", "altered value"): 1}),
    Mutation("key-altered", "idempotent", another_key, {("V02", "another key"): 1}),
    Mutation(
        "misplaced",
        "idempotent",
        exchange_two_producers,
        {("V02", "another record"): 10, ("V20", KEY_ORDER): 15},  # by each of three readers
    ),
    Mutation(
        "too-soon",
        "idempotent",
        see_it_too_soon,
        {("V03", "before it was sent"): 1, ("V20", OVERTAKEN): 2},  # and so before the one below it
    ),
    Mutation("diverged", "idempotent", a_reader_sees_another_value, {("V03", "another record or value"): 1}),
    Mutation(
        "duplicate",
        "idempotent",
        append_a_batch_again,
        {("V04", "at two offsets"): 5, ("V07", "sequence numbers do not follow"): 1},
    ),
    Mutation("duplicate-plain", "plain", append_a_batch_again, {("V04", "at two offsets"): 5}),
    Mutation("retried-plain", "plain", acknowledge_the_retry, {("V04", "at two offsets"): 5}),
    Mutation(
        "phantom",
        "idempotent",
        a_record_without_a_producer,
        {("V05", "nobody sent it"): 1, ("V07", "no producer id"): 1},
    ),
    Mutation("phantom-announced", "idempotent", a_record_after_the_last, {("V05", "nobody sent it"): 1}),
    Mutation("failed", "idempotent", a_failed_send_in_the_log, {("V05", "its send surely failed"): 1}),
    Mutation("checksum", "idempotent", break_a_checksum, {("V07", "checksum wrong"): 1}),
    Mutation(
        "sequence", "idempotent", skip_a_sequence_number, {("V07", "sequence numbers do not follow"): 2}
    ),
    Mutation(
        "skipped",
        "idempotent",
        skip_a_delivery,
        {("V08", "skipped"): 1, ("V10", "never delivered to its group"): 1},
    ),
    Mutation("again", "idempotent", deliver_again, {("V08", "delivered again"): 1}),
    Mutation("backwards", "idempotent", deliver_backwards, {("V08", "went back"): 1}),
    Mutation("commit-back", "idempotent", commit_backwards, {("V09", "commit below a confirmed commit"): 1}),
    Mutation(
        "commit-forgotten",
        "idempotent",
        forget_the_commit,
        {("V09", "offset at the end below a confirmed commit"): 1},
    ),
    Mutation(
        "begins-below",
        "idempotent",
        begin_below_the_commit,
        {("V09", "start of an assignment below a confirmed commit"): 1},
    ),
    Mutation(
        "delivers-below",
        "idempotent",
        deliver_below_the_commit,
        {("V09", "delivered below the committed offset"): 1},
    ),
    Mutation(
        "unread",
        "idempotent",
        drain_ends_early,
        {("V10", "never delivered to a drain"): 1, ("V20", MISSED): 1},
    ),
    Mutation(
        "aborted",
        "transactional",
        show_an_aborted_record,
        {("V11", "aborted in the log"): 1, ("V11", "its producer aborted it"): 1},
    ),
    Mutation("open", "transactional", show_an_open_record, {("V11", "before its commit was asked for"): 1}),
    Mutation(
        "commit-aborted",
        "transactional",
        abort_what_was_committed,
        {("V01", "committed, but not visible to read_committed"): 5},
    ),
    Mutation(
        "abort-committed",
        "transactional",
        commit_what_was_aborted,
        # by the log's markers, and by each of the two that read it
        {("V11", "aborted, but committed in the log"): 5, ("V11", "its producer aborted it"): 10},
    ),
    # what was copied wrongly is named by its place in the input
    Mutation("copied-twice", "copied", copy_twice, {}),
    Mutation("twice-source", "idempotent", nothing, {("V12", "copied more than once"): 1}),
    Mutation("copied-but-one", "copied", copy_all_but_one, {}),
    Mutation("missing-source", "idempotent", nothing, {("V12", "never copied"): 1}),
    Mutation("index", "idempotent", spoil_an_index, {("V13", ".index byte N is no batch start"): 1}),
    Mutation(
        "changed",
        "idempotent",
        change_what_was_acknowledged,
        {("V14", "changed"): 1, ("V02", "altered value"): 1},
    ),
    Mutation("hole", "idempotent", hole_in_the_offsets, {("V15", "missing offsets"): 1}),
    Mutation("compacted-away", "idempotent", compact_too_much, {("V16", "last value of a key is gone"): 1}),
    *REAL_TIME_MUTATIONS,
)


def world(acks_0: bool = True) -> dict[str, tuple[Topic, Expected]]:
    """Every topic with what must be found in it. acks_0: also one whose producers get
    nothing."""
    made: dict[str, tuple[Topic, Expected]] = {}
    for number, mutation in enumerate(ALL, 1):
        codec = (Codec.NONE, Codec.LZ4, Codec.ZSTD, Codec.GZIP, Codec.SNAPPY)[number % 5]
        topic = clean(mutation.name, number, mutation.mode, codec=codec)
        mutation.mutate(topic)
        made[mutation.name] = topic, mutation.expected
    made["clean-source"] = clean("clean-source", len(ALL) + 1), {}
    if acks_0:
        made["clean-silent"] = clean("clean-silent", len(ALL) + 2, "plain", acks="0"), {}
    return made
