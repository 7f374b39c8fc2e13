"""Mutations of what retention, DeleteRecords and compaction removed."""

from dataclasses import replace

from loadtest.run import Deletion
from tests.spark_validation.mutation import Mutation
from tests.spark_validation.world import (
    BATCH,
    MS,
    START_NS,
    Batch,
    Record,
    Topic,
    read_everything,
    send_row,
)

FIRST_SEGMENT = 10  # batches of it; the second one is the active segment
CUT = FIRST_SEGMENT * BATCH


def remove_the_first_segment(topic: Topic) -> None:
    topic.log[0] = topic.log[0][FIRST_SEGMENT:]
    topic.start_offset = CUT
    before = topic.rows["reads"]
    read_everything(topic)
    kept = {(row["consumer"], row["partition"], row["offset"]) for row in topic.rows["reads"]}
    topic.rows["reads"] = [
        row
        for row in before
        if row["consumer"] == topic.reader or (row["consumer"], row["partition"], row["offset"]) in kept
    ]


def regroup(topic: Topic) -> None:
    """Commits and starts as they were before anything was removed."""
    given_ns = min(row["seen_ns"] for row in topic.reads_of(topic.reader, 0) if row["assignment"] == 1)
    for kind in ("commits", "assignments"):
        for row in topic.rows[kind]:
            if row["partition"] == 0 and row["assignment"] == 1 and kind == "assignments":
                row |= {"start_offset": 30, "at_ns": given_ns - MS // 8}
            if row["partition"] == 0 and row["assignment"] == 0 and kind == "commits":
                row |= {"offset": 30, "asked_ns": given_ns - MS // 2, "answered_ns": given_ns - MS // 4}


def expire(topic: Topic) -> None:
    topic.config["retention.ms"] = "50000"  # the run ends 100 s after its first record
    remove_the_first_segment(topic)
    regroup(topic)


def expire_by_ttl(topic: Topic) -> None:
    topic.config["kbroker.record.ttl.ms"] = "50000"
    remove_the_first_segment(topic)
    regroup(topic)


def expire_too_early_by_ttl(topic: Topic) -> None:
    topic.config |= {"retention.ms": "-1", "kbroker.record.ttl.ms": "99200"}
    remove_the_first_segment(topic)
    regroup(topic)


def expire_too_early(topic: Topic) -> None:
    topic.config["retention.ms"] = "99200"
    remove_the_first_segment(topic)
    regroup(topic)


def expire_by_size(topic: Topic) -> None:
    topic.config["retention.bytes"] = "200"
    remove_the_first_segment(topic)
    regroup(topic)


def expire_too_much(topic: Topic) -> None:
    topic.config["retention.bytes"] = "60000"
    remove_the_first_segment(topic)
    regroup(topic)


def delete_records(until: int, confirmed: bool = True):  # type: ignore[no-untyped-def]
    def mutate(topic: Topic) -> None:
        remove_the_first_segment(topic)
        regroup(topic)
        topic.deletions = [Deletion(topic.name, 0, until, confirmed, START_NS)]

    return mutate


def delete_within_a_segment(topic: Topic) -> None:
    """The segment stays, and holds what no reader gets any more: not the drains, nor the group,
    which was at 10 and continues at the new start."""
    topic.start_offset = 23
    topic.deletions = [Deletion(topic.name, 0, 23, True, START_NS)]
    topic.rows["reads"] = [
        row
        for row in topic.rows["reads"]
        if row["partition"] or row["offset"] >= 23 or (row["consumer"] == topic.reader and row["offset"] < 10)
    ]


def begin_late(topic: Topic) -> None:
    """The second assignment of partition 0, and what is given in it, come 20 s after the start of
    the run."""
    late_ns = START_NS + 20_000 * MS
    for row in topic.rows["assignments"]:
        if (row["partition"], row["assignment"]) == (0, 1):
            row["at_ns"] = late_ns
    for row in topic.reads_of(topic.reader, 0):
        if row["assignment"] == 1:
            row["seen_ns"] += 20_000 * MS


def delete_between_assignments(answered_ms: int, confirmed: bool = True):  # type: ignore[no-untyped-def]
    """Of partition 0 the group's second assignment begins at offset 30, 20 s after the start of the
    run, and is given records below the log's new start at 33."""

    def mutate(topic: Topic) -> None:
        topic.start_offset = 33
        begin_late(topic)
        asked_ns, answered_ns = START_NS + 10_000 * MS, START_NS + answered_ms * MS
        topic.deletions = [Deletion(topic.name, 0, 33, confirmed, asked_ns, answered_ns)]
        topic.rows["reads"] = [
            row
            for row in topic.rows["reads"]
            if row["partition"] or row["offset"] >= 33 or row["consumer"] == topic.reader
        ]

    return mutate


def delete_again(topic: Topic) -> None:
    """The second request, for more records, is confirmed when the second assignment has begun."""
    delete_between_assignments(15_000)(topic)
    topic.start_offset = 37
    first = topic.deletions[0]
    asked_ns, answered_ns = START_NS + 19_000 * MS, START_NS + 21_000 * MS
    topic.deletions.append(replace(first, offset=37, asked_ns=asked_ns, answered_ns=answered_ns))
    topic.rows["reads"] = [
        row
        for row in topic.rows["reads"]
        if row["partition"] or row["offset"] >= 37 or row["consumer"] == topic.reader
    ]


def checkpoint_a_start(topic: Topic) -> None:
    """The log directory's file has a start that nothing moved."""
    topic.checkpointed_start = 10


def serve_what_was_deleted(topic: Topic) -> None:
    """A late reader is given a record below the log's start."""
    delete_records(CUT)(topic)
    given = next(row for row in topic.reads_of(topic.reader, 0) if row["offset"] == CUT - 1)
    rows = topic.rows["reads"]
    first = rows.index(topic.reads_of(topic.drain, 0)[0])
    rows.insert(first, given | {"consumer": topic.drain, "assignment": -1})


def forget_a_deletion(topic: Topic) -> None:
    topic.deletions = [Deletion(topic.name, 0, CUT, True, START_NS)]


def keyed(topic: Topic, offset: int, key: int, partition: int = 0) -> Record:
    """Gives a record another key, in the log and in what its client says."""
    _, record, _ = topic.records(partition)[offset]
    record.key = key
    topic.sent(record.producer, record.seq)["key"] = key
    return record


def bury(topic: Topic, offset: int, partition: int = 0) -> None:
    """Makes a record a tombstone."""
    _, record, _ = topic.records(partition)[offset]
    record.tombstone = True
    row = topic.sent(record.producer, record.seq)
    place = {name: row[name] for name in ("transaction", "partition")}
    row.update(send_row(topic, place["partition"], offset, record, place["transaction"]))


def compacted(topic: Topic, drop: set[int], partition: int = 0) -> None:
    """Compaction took these offsets of partition 0; what the reader saw before stays."""
    topic.cleanup_policy = "compact"
    read_everything(topic)
    kept = []
    for batch in topic.log[partition]:
        for n, record in enumerate(batch.records):
            if batch.base + n not in drop:
                kept.append(
                    Batch(
                        batch.base + n, [record], batch.producer_id, batch.sequence + n, batch.transactional
                    )
                )
        if batch.control is not None:
            kept.append(batch)
    topic.log[partition] = kept
    drains = (topic.drain, topic.committed_drain)
    topic.rows["reads"] = [
        row
        for row in topic.rows["reads"]
        if row["consumer"] not in drains or row["partition"] != partition or row["offset"] not in drop
    ]


def superseded(topic: Topic, below: int = 60) -> set[int]:
    """Offsets of partition 0 whose key has a later record."""
    last = {record.key: offset for offset, record, _ in topic.records()}
    return {offset for offset, record, _ in topic.records() if offset < min(last[record.key], below)}


def compact(topic: Topic) -> None:
    compacted(topic, superseded(topic, CUT))


def compact_too_young(topic: Topic) -> None:
    topic.config["min.compaction.lag.ms"] = "99700"  # 300 ms of records may be compacted, and all were
    compact(topic)


def tombstone(topic: Topic) -> None:
    """Of a key of its own, and still there."""
    keyed(topic, 20, 900)
    keyed(topic, 25, 900)
    bury(topic, 25)
    compacted(topic, {20})


def tombstone_gone(topic: Topic) -> None:
    keyed(topic, 20, 900)
    keyed(topic, 25, 900)
    bury(topic, 25)
    compacted(topic, {20, 25})


def tombstone_expired(topic: Topic) -> None:
    topic.config["delete.retention.ms"] = "1000"
    tombstone_gone(topic)


def tombstone_resurrects(topic: Topic) -> None:
    topic.config["delete.retention.ms"] = "1000"
    keyed(topic, 20, 900)
    keyed(topic, 25, 900)
    bury(topic, 25)
    compacted(topic, {25})


def keep_an_older_one(topic: Topic) -> None:
    """Of three records of a key the second one goes, and the first one stays."""
    for offset in (10, 15, 25):
        keyed(topic, offset, 900)
    compacted(topic, {15})


def survivor_moves(topic: Topic) -> None:
    """A survivor lies where a record was that compaction took."""
    keyed(topic, 20, 900)
    keyed(topic, 25, 900)
    compacted(topic, {20})
    at = next(n for n, batch in enumerate(topic.log[0]) if batch.base == 25)
    topic.log[0].insert(20, topic.log[0].pop(at))
    topic.log[0][20].base = 20
    for row in topic.rows["reads"]:
        if row["partition"] == 0 and row["offset"] == 25 and row["consumer"] != topic.reader:
            row["offset"] = 20
    reads = topic.rows["reads"]
    for consumer in (topic.drain, topic.committed_drain):
        moved = next(row for row in topic.reads_of(consumer, 0) if row["offset"] == 20)
        behind = next(row for row in topic.reads_of(consumer, 0) if row["offset"] > 20)
        reads.remove(moved)
        reads.insert(reads.index(behind), moved)


def superseded_by_an_aborted(topic: Topic) -> None:
    """The last committed record of a key goes because an aborted one came after it."""
    aborted = next(row for row in topic.rows["transactions"] if row["outcome"] == 1)
    late = next(
        offset
        for offset, record, _ in topic.records()
        if (record.producer, record.seq) == (aborted["producer"], aborted["first_seq"])
    )
    places = {offset: n for n, (offset, _, _) in enumerate(topic.records())}
    keyed(topic, places[late], 900)
    keyed(topic, 1, 900)
    compacted(topic, {1})


GONE = "last value of a key is gone"
UNALLOWED = "below a log start that nothing allows"
REASONLESS = "log start moved without a reason"
SERVED = "below a confirmed DeleteRecords"
CHECKPOINTED = "checkpoint above the log start"
REMOVAL_MUTATIONS: tuple[Mutation, ...] = (
    Mutation("clean-expired", "idempotent", expire, {}),
    Mutation("clean-expired-by-size", "idempotent", expire_by_size, {}),
    Mutation("clean-deleted", "idempotent", delete_records(CUT), {}),
    Mutation("clean-deletion-unanswered", "idempotent", delete_records(CUT, False), {}),
    Mutation("clean-deleted-within", "idempotent", delete_within_a_segment, {}),
    Mutation(
        "compacted-the-later",
        "idempotent",
        keep_an_older_one,
        {("V16", "kept though a later one of its key was removed"): 1},
    ),
    Mutation("start-checkpointed", "idempotent", checkpoint_a_start, {("V15", CHECKPOINTED): 1}),
    Mutation("clean-ttl", "idempotent", expire_by_ttl, {}),
    Mutation("ttl-too-early", "idempotent", expire_too_early_by_ttl, {("V01", UNALLOWED): 9}),
    Mutation("expired-too-early", "idempotent", expire_too_early, {("V01", UNALLOWED): 9}),
    Mutation(
        "expired-too-much",
        "idempotent",
        expire_too_much,
        {("V01", UNALLOWED): CUT, ("V15", REASONLESS): 1},
    ),
    Mutation(
        "deleted-too-much",
        "idempotent",
        delete_records(CUT - 7),
        {("V01", UNALLOWED): 7, ("V15", REASONLESS): 1},
    ),
    Mutation(
        "deleted-served",
        "idempotent",
        serve_what_was_deleted,
        {("V03", "below the log's start"): 1},
    ),
    Mutation(
        "deletion-forgotten",
        "idempotent",
        forget_a_deletion,
        {("V15", "log start below a confirmed DeleteRecords"): 1, ("V03", SERVED): 2 * CUT},
    ),
    Mutation("deleted-given-later", "idempotent", delete_between_assignments(15_000), {("V03", SERVED): 3}),
    Mutation("deleted-twice-given-later", "idempotent", delete_again, {("V03", SERVED): 3}),
    Mutation("clean-deleted-in-flight", "idempotent", delete_between_assignments(20_001), {}),
    Mutation("clean-deletion-refused", "idempotent", delete_between_assignments(15_000, False), {}),
    Mutation("clean-compacted-segment", "idempotent", compact, {}),
    Mutation("clean-tombstone", "idempotent", tombstone, {}),
    Mutation("clean-tombstone-expired", "idempotent", tombstone_expired, {}),
    Mutation(
        "tombstone-gone",
        "idempotent",
        tombstone_gone,
        {("V16", "tombstone gone before delete.retention.ms"): 1},
    ),
    Mutation("tombstone-resurrects", "idempotent", tombstone_resurrects, {("V16", GONE): 1}),
    Mutation(
        "compacted-young",
        "idempotent",
        compact_too_young,
        {("V16", "removed within min.compaction.lag.ms"): 32},
    ),
    Mutation("superseded-by-aborted", "transactional", superseded_by_an_aborted, {("V16", GONE): 1}),
    Mutation(
        "survivor-moved",
        "idempotent",
        survivor_moves,
        {
            ("V16", GONE): 1,
            ("V16", "survivor changed or moved"): 1,
            ("V02", "another record"): 1,
            ("V03", "another record or value"): 1,
        },
    ),
)
