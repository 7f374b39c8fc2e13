"""Mutations at the edges: of transactions whose end no producer was given, of what lies at a
partition's or segment's first offset, of records that resemble what belongs there."""

from collections.abc import Callable
from copy import deepcopy

from msgspec.structs import replace

from kbroker.protocol.records import ControlType
from spark_validation.checks.compaction import ACTIVE, SEEN
from spark_validation.checks.places import OTHER_KEYS
from spark_validation.checks.stable_reads import ABOVE, WITHIN
from tests.spark_validation.batch_mutations import (
    ALTERED,
    AT,
    FIRST,
    READERS,
    change,
    rewritten,
)
from tests.spark_validation.field_mutations import HEADERS, patch, time_index
from tests.spark_validation.file_mutations import END, roll, segment
from tests.spark_validation.marker_mutations import shift
from tests.spark_validation.mutation import Mutation
from tests.spark_validation.random_logs import Made
from tests.spark_validation.real_time_mutations import KEY_ORDER, OVERTAKEN
from tests.spark_validation.removal_mutations import (
    CHECKPOINTED,
    CUT,
    GONE,
    bury,
    compacted,
    delete_records,
    expire,
    keyed,
    superseded,
)
from tests.spark_validation.snapshot_mutations import snapshot
from tests.spark_validation.transaction_mutations import UNFINISHED, killed
from tests.spark_validation.world import (
    BATCH,
    BATCHES,
    MS,
    Batch,
    Record,
    Topic,
    read_everything,
    send_row,
    transaction_row,
)

LATE_MS = 10_000  # between the two transactions above that of the killed producer
LEFT = BATCHES * (BATCH + 1)  # where that begins in partition 0
BOTH_READERS = 2  # of committed records


def commit_above(topic: Topic, after_ms: int) -> None:
    """In partition 0 the second producer commits a batch. after_ms: so long after the last
    record."""
    log, producer = topic.log[0], topic.producers[1]
    began = log[-1].records[-1].intended_ns if log[-1].records else log[-2].records[-1].intended_ns
    before = next(b for b in reversed(log) if b.producer_id == producer + 100 and b.control is None)
    own = [row for row in topic.rows["sends"] if row["producer"] == producer]
    number, seq = (1 + max(row[name] for row in own) for name in ("transaction", "seq"))
    first = before.records[-1].partition_seq + 1
    records = [
        Record(producer, seq + n, first + n, (first + n) % 7 * 2, began + (after_ms + n) * MS, 1)
        for n in range(BATCH)
    ]
    data = Batch(log[-1].end, records, producer + 100, before.sequence + BATCH, True)
    log += [data, Batch(data.end, [], producer + 100, control=ControlType.COMMIT)]
    topic.rows["sends"] += [
        send_row(topic, 0, data.base + n, record, number) for n, record in enumerate(records)
    ]
    topic.rows["transactions"].append(transaction_row(records, number, False))


def leave_open(end: ControlType | None, waits: bool = False) -> Callable[[Topic], None]:
    """A producer is killed in a transaction, and another one commits two above it, the second ten
    seconds later. end: the marker of the first behind both, if there is one. waits: readers of
    committed records are given nothing of this before."""

    def mutate(topic: Topic) -> None:
        killed(topic)
        marker = topic.log[0].pop()
        commit_above(topic, 100)
        commit_above(topic, LATE_MS)
        if end is not None:
            marker.base, marker.control = topic.log[0][-1].end, end
            topic.log[0].append(marker)
        if end == ControlType.COMMIT:
            topic.log[1][-1].control = end
        read_everything(topic)
        drop = range(LEFT, LEFT + BATCH) if end is None else ()
        last_ns = topic.records()[-1][1].intended_ns + 50 * MS
        for row in topic.rows["reads"][:]:
            if row["partition"] or row["consumer"] == topic.drain or row["offset"] < LEFT:
                continue
            if row["offset"] in drop:  # a record that is open is no committed one
                topic.rows["reads"].remove(row)
            if waits:
                row["seen_ns"] = max(row["seen_ns"], last_ns)

    return mutate


class Miscounted(tuple[tuple[str, bytes | None], ...]):
    """No headers, and a count of one."""

    def __len__(self) -> int:
        return 1


def fill_a_tombstone(topic: Topic) -> None:
    """What its header holds is its value, too."""
    bury(topic, FIRST + 2)
    read_everything(topic)
    rewritten(lambda made: change(value=made[2].headers[0][1])(made))(topic)


def miscount(made: list[Made]) -> list[Made]:
    return change(headers=Miscounted())(made)


def compact_all_but_an_empty_segment(topic: Topic) -> None:
    """The last record was a tombstone whose time is over."""
    topic.config["delete.retention.ms"] = "1000"
    keyed(topic, END - 1, 900)
    bury(topic, END - 1)
    compacted(topic, superseded(topic) | {END - 1})
    topic.high_watermark = END
    roll(topic)


def index_nothing(topic: Topic) -> None:
    """An empty segment has an index entry."""
    roll(topic)
    topic.files[segment(END, ".index")] = (4).to_bytes(4) + (100).to_bytes(4) + bytes(80)


def time_nothing(topic: Topic) -> None:
    time_index(topic)
    roll(topic)
    topic.files[segment(END, ".timeindex")] = topic.records()[-1][1].stamp.to_bytes(8) + (4).to_bytes(4)


def see_and_lose(superseded_at: int | None) -> Callable[[Topic], None]:
    """A record of a key of its own, whose send has no answer, was given to the group and is gone.
    superseded_at: where a later one of its key lies."""

    def mutate(topic: Topic) -> None:
        record = keyed(topic, 20, 900)
        topic.sent(record.producer, record.seq).update(status=2, offset=-1)
        if superseded_at is not None:
            keyed(topic, superseded_at, 900)
        compacted(topic, {20})

    return mutate


def see_and_lose_early(topic: Topic) -> None:
    """A superseded record of an unknown outcome is taken from the newest segment."""
    record = keyed(topic, END - 4, 900)
    topic.sent(record.producer, record.seq).update(status=2, offset=-1)
    keyed(topic, END - 1, 900)
    compacted(topic, {END - 4})


def checkpoint_beyond_the_end(topic: Topic) -> None:
    """Where retention moves the log's start."""
    expire(topic)
    topic.checkpointed_start = END + 10


def bury_and_die(topic: Topic) -> None:
    """A producer is killed after it sent a tombstone that has no row, and whose time is over."""
    topic.config["delete.retention.ms"] = "1000"
    keyed(topic, 20, 900)
    record = keyed(topic, END - BATCH, 900)
    bury(topic, END - BATCH)
    topic.rows["sends"].remove(topic.sent(record.producer, record.seq))
    topic.killed.append(record.producer)
    compacted(topic, {20, END - BATCH})
    roll(topic)


def acknowledge(held_at: int, **said: int) -> Callable[[Topic], None]:
    """The record of an offset of partition 0 is acknowledged at another place."""

    def mutate(topic: Topic) -> None:
        record = next(r for at, r, _ in topic.records() if at == held_at)
        topic.sent(record.producer, record.seq).update(said)

    return mutate


def swap_records_of_a_key(topic: Topic) -> None:
    """Of one producer, in two batches."""
    first, second = topic.log[0][0].records, topic.log[0][2].records
    assert first[0].key == second[2].key
    first[0], second[2] = second[2], first[0]
    read_everything(topic)


def add_headers(topic: Topic) -> None:
    topic.records()[7][1].headers = HEADERS
    read_everything(topic)


def stamp_below_zero(topic: Topic) -> None:
    topic.records()[7][1].timestamp_ms = -5
    read_everything(topic)


def leave_out_an_offset(at: int) -> Callable[[Topic], None]:
    """Before batch `at` of partition 0; everybody agrees on the numbers behind it."""

    def mutate(topic: Topic) -> None:
        shift(topic, at, 1)
        read_everything(topic)

    return mutate


def leave_out_very_much(topic: Topic) -> None:
    """Where the group's second assignment begins: more offsets than a list of them can have."""
    shift(topic, 6, 1 << 40)
    read_everything(topic)
    for kind, name in (("commits", "offset"), ("assignments", "start_offset")):
        for row in topic.rows[kind]:
            if row["partition"] == 0 and row[name] == (1 << 40) + 6 * BATCH:
                row[name] = 6 * BATCH


def write_an_unknown_batch_elsewhere(topic: Topic) -> None:
    """The last batch of partition 0, whose sends have no answer, lies in partition 1."""
    moved, last = topic.log[0].pop(), topic.log[1][-1]
    for record in moved.records:
        topic.sent(record.producer, record.seq).update(status=2, offset=-1)
    moved.base, moved.sequence = last.end, last.sequence + BATCH
    topic.log[1].append(moved)
    read_everything(topic)


def delete_since(topic: Topic) -> None:
    topic.earlier = deepcopy(topic.log)
    delete_records(CUT)(topic)


V01, V02, V11, V13, V15 = "V01", "V02", "V11", "V13", "V15"
TWICE_BATCH = BOTH_READERS * BATCH
HOLE = {(V15, "missing offsets"): 1}
SUBTLE_MUTATIONS: tuple[Mutation, ...] = (
    Mutation("clean-late-abort", "transactional", leave_open(ControlType.ABORT, True), {}),
    Mutation("clean-late-commit", "transactional", leave_open(ControlType.COMMIT, True), {}),
    Mutation("above-late-abort", "transactional", leave_open(ControlType.ABORT), {(V11, ABOVE): TWICE_BATCH}),
    Mutation(
        "within-late-commit",
        "transactional",
        leave_open(ControlType.COMMIT),
        {(V11, ABOVE): TWICE_BATCH, (V11, WITHIN): TWICE_BATCH},
    ),
    Mutation(
        "above-unended",
        "transactional",
        leave_open(None),
        {
            (V11, ABOVE): 2 * TWICE_BATCH,
            (V11, UNFINISHED): BATCH,
            (V11, "never ended in the log"): BATCH,
        },
    ),
    Mutation("headers-miscounted", "idempotent", rewritten(miscount), {("V07", "records not readable"): 1}),
    Mutation(
        "length-last",  # of the newest segment
        "idempotent",
        patch(BATCHES - 1, length=40),
        {
            ("V07", "batch length wrong"): 1,
            (V01, "nothing at its offset"): BATCH,
            ("V03", "not in the log"): READERS * BATCH,
            (V13, ".index byte N is no batch start"): 1,
            **HOLE,
        },
    ),
    Mutation("tombstone-filled", "idempotent", fill_a_tombstone, ALTERED),
    Mutation("clean-compacted-rolled", "idempotent", compact_all_but_an_empty_segment, {}),
    Mutation("index-of-nothing", "idempotent", index_nothing, {(V13, ".index byte N is no batch start"): 1}),
    Mutation(
        "time-of-nothing", "idempotent", time_nothing, {(V13, ".timeindex lies after the segment's end"): 1}
    ),
    Mutation(
        "snapshot-of-another",
        "idempotent",
        snapshot(lambda entry: replace(entry, producer_id=77_000)),
        {
            (V13, ".snapshot ends at N, in a batch of the producer N"): 1,
            (V13, ".snapshot lacks the producer N"): 1,
        },
    ),
    Mutation("gone-with-killed", "idempotent", bury_and_die, {("V16", GONE): 1}),  # counted
    Mutation("seen-and-gone", "idempotent", see_and_lose(None), {("V16", SEEN): 1}),
    Mutation("clean-seen-superseded", "idempotent", see_and_lose(25), {}),
    Mutation("seen-and-gone-early", "idempotent", see_and_lose_early, {("V16", ACTIVE): 1, **HOLE}),
    Mutation("checkpointed-beyond", "idempotent", checkpoint_beyond_the_end, {(V15, CHECKPOINTED): 1}),
    Mutation("acked-twice", "idempotent", acknowledge(7, offset=8), {(V02, "another record"): 1}),
    Mutation(
        "acked-at-marker",
        "transactional",
        acknowledge(BATCH - 1, offset=BATCH),
        {(V01, "nothing at its offset"): 1},
    ),
    Mutation(
        "acked-elsewhere",
        "idempotent",
        acknowledge(7, partition=1),
        {(V02, OTHER_KEYS): 1, (V02, "another record"): 1, ("V20", OVERTAKEN): 7},
    ),
    Mutation(
        "key-swapped",
        "idempotent",
        swap_records_of_a_key,
        {
            (V02, "another record"): 2,
            ("V06", "producer steps back"): 2,
            ("V06", "key steps back"): 1,
            ("V20", KEY_ORDER): 2 * READERS,
        },
    ),
    Mutation("headers-added", "idempotent", add_headers, {(V02, "other headers"): 1}),
    Mutation("timestamp-negative", "idempotent", stamp_below_zero, {(V02, "another timestamp"): 1}),
    Mutation("hole-at-start", "idempotent", leave_out_an_offset(0), HOLE),
    Mutation("hole-between-segments", "idempotent", leave_out_an_offset(10), HOLE),
    Mutation("hole-huge", "idempotent", leave_out_very_much, HOLE),
    Mutation(
        "unknown-elsewhere",
        "idempotent",
        write_an_unknown_batch_elsewhere,
        {(V02, "another partition"): BATCH, ("V06", "producer steps back"): 1},
    ),
    Mutation("clean-deleted-since", "idempotent", delete_since, {}),
)


def places(first: int, count: int = 1, partition: int = 0) -> set[tuple[int, int | None]]:
    return {(partition, first + n) for n in range(count)}


ABOVE_LEFT = LEFT + BATCH
SUBTLE: dict[str, tuple[str, set[tuple[int, int | None]]]] = {
    "above-late-abort": (V11, places(ABOVE_LEFT, BATCH)),
    "within-late-commit": (V11, places(LEFT, 2 * BATCH)),
    "above-unended": (
        V11,
        places(LEFT, BATCH) | places(ABOVE_LEFT, BATCH) | places(ABOVE_LEFT + BATCH + 1, BATCH),
    ),
    "headers-miscounted": ("V07", places(AT * BATCH)),
    "length-last": (V01, places(END - BATCH, BATCH)),
    "tombstone-filled": (V02, places(FIRST + 2)),
    "index-of-nothing": (V13, places(END + 4)),
    "time-of-nothing": (V13, places(END + 4)),
    "snapshot-of-another": (V13, places(9 * BATCH - 1)),
    "seen-and-gone": ("V16", places(20)),
    "seen-and-gone-early": ("V16", places(END - 4)),
    "checkpointed-beyond": (V15, places(END + 10)),
    "acked-twice": (V02, places(8)),
    "acked-at-marker": (V01, places(BATCH)),
    "acked-elsewhere": (V02, places(7, partition=1)),
    "key-swapped": (V02, places(0) | places(12)),
    "headers-added": (V02, places(7)),
    "timestamp-negative": (V02, places(7)),
    "hole-at-start": (V15, places(0)),
    "hole-between-segments": (V15, places(10 * BATCH)),
    "hole-huge": (V15, places(6 * BATCH)),
    "unknown-elsewhere": (V02, places(END, BATCH, 1)),
}
"""As OUTSIDE."""
