"""Mutations of what a share group was given and acknowledged, and of offsets that transactions sent
to a group."""

from collections.abc import Callable

from loadtest.history import ShareAck
from loadtest.record import header_sum
from spark_validation.checks.stable_reads import ABOVE
from tests.spark_validation.copy_mutations import copy_from
from tests.spark_validation.mutation import Mutation
from tests.spark_validation.real_time_mutations import OVERTAKEN
from tests.spark_validation.world import BATCH, MS, START_NS, Record, Row, Topic, commit_row, visible

RELEASED = 13  # this offset of partition 0 is released once and comes again


def share_row(topic: Topic, partition: int, offset: int, record: Record, delivery: int, ack: ShareAck) -> Row:
    """One delivery and its acknowledgement; the second one comes a second later, to the other
    member."""
    acquired = START_NS + 20_000 * MS + offset * MS + (delivery - 1) * 1000 * MS
    return {
        "consumer": topic.reader + 3 + delivery,
        "group": topic.sharers,
        "topic": topic.name,
        "partition": partition,
        "offset": offset,
        "delivery": delivery,
        "timestamp_ms": record.stamp,
        "key": record.key,
        "producer": record.producer,
        "seq": record.seq,
        "partition_seq": record.partition_seq,
        "flags": record.all_flags,
        "intact": record.value is None,
        "intended_ns": record.intended_ns,
        "header_sum": header_sum(record.all_headers()),
        "acquired_ns": acquired,
        "ack": int(ack),
        "error": 0,
        "asked_ns": acquired + 10 * MS,
        "answered_ns": acquired + 12 * MS,
    }


def share(topic: Topic) -> None:
    """Every visible record is accepted, one of them after it was released."""
    for partition in topic.log:
        for offset, record in visible(topic, partition, True):
            first = (partition, offset) == (0, RELEASED)
            ack = ShareAck.RELEASE if first else ShareAck.ACCEPT
            topic.rows["shares"].append(share_row(topic, partition, offset, record, 1, ack))
            if first:
                topic.rows["shares"].append(share_row(topic, partition, offset, record, 2, ShareAck.ACCEPT))


def again(ack: ShareAck, delivery: int = 2, **changes: int) -> Callable[[Topic], None]:
    """Offset 20 of partition 0 comes again after it was acknowledged so."""

    def mutate(topic: Topic) -> None:
        share(topic)
        first = given(topic, 20)
        first["ack"] = int(ack)
        _, record, _ = topic.records()[20]
        row = share_row(topic, 0, 20, record, 2, ShareAck.ACCEPT)
        topic.rows["shares"].append(row | {"delivery": delivery} | changes)

    return mutate


def given(topic: Topic, offset: int) -> Row:
    return next(r for r in topic.rows["shares"] if (r["partition"], r["offset"]) == (0, offset))


def steal(topic: Topic) -> None:
    """The other member is given it before it is released."""
    share(topic)
    second = next(row for row in topic.rows["shares"] if row["delivery"] == 2)
    second["acquired_ns"] = given(topic, RELEASED)["acquired_ns"] + 5 * MS


def expire(wait_ms: int) -> Callable[[Topic], None]:
    """It is not acknowledged at all, and comes again after a while."""

    def mutate(topic: Topic) -> None:
        share(topic)
        first = given(topic, RELEASED)
        first |= {"ack": int(ShareAck.NOTHING), "error": -1, "asked_ns": 0, "answered_ns": 0}
        second = next(row for row in topic.rows["shares"] if row["delivery"] == 2)
        second["acquired_ns"] = first["acquired_ns"] + wait_ms * MS

    return mutate


def too_often(topic: Topic) -> None:
    share(topic)
    _, record, _ = topic.records()[RELEASED]
    for delivery in (3, 4, 5, 6):
        topic.rows["shares"].append(
            share_row(topic, 0, RELEASED, record, delivery, ShareAck.RELEASE) | {"consumer": topic.reader + 5}
        )
    next(row for row in topic.rows["shares"] if row["delivery"] == 2)["ack"] = int(ShareAck.RELEASE)


def never_shared(topic: Topic) -> None:
    share(topic)
    topic.rows["shares"].remove(given(topic, 21))


def shared_otherwise(topic: Topic) -> None:
    share(topic)
    given(topic, 21)["seq"] += 1


def begins_with_two(topic: Topic) -> None:
    share(topic)
    given(topic, 21)["delivery"] = 2


def leaps(topic: Topic) -> None:
    share(topic)
    next(row for row in topic.rows["shares"] if row["delivery"] == 2)["delivery"] = 3


def begins_with_none(topic: Topic) -> None:
    share(topic)
    given(topic, 21)["delivery"] = 0


def release_and_forget(topic: Topic) -> None:
    """It is never given again, though both members read on."""
    share(topic)
    topic.rows["shares"] = [row for row in topic.rows["shares"] if row["delivery"] == 1]


def expire_and_forget(topic: Topic) -> None:
    expire(30_500)(topic)
    topic.rows["shares"] = [row for row in topic.rows["shares"] if row["delivery"] == 1]


def give_up(topic: Topic) -> None:
    """Released as often as it may be delivered: then no member gets it any more."""
    too_often(topic)
    topic.rows["shares"] = [row for row in topic.rows["shares"] if row["delivery"] < 6]


def share_the_aborted(topic: Topic) -> None:
    share(topic)
    shown = {offset for offset, _ in visible(topic, 0, True)}
    offset, record, _ = next(found for found in topic.records() if found[0] not in shown)
    topic.rows["shares"].append(share_row(topic, 0, offset, record, 1, ShareAck.ACCEPT))


def share_before_the_commit(topic: Topic) -> None:
    share(topic)
    ending_ns = min(row["ending_ns"] for row in topic.rows["transactions"])
    times = {"acquired_ns": ending_ns - MS, "asked_ns": ending_ns + MS, "answered_ns": ending_ns + 2 * MS}
    given(topic, 0).update(times)


def share_too_soon(topic: Topic) -> None:
    share(topic)
    row = given(topic, 21)
    row["acquired_ns"] = row["intended_ns"] - 1


def copied_with_offsets(source: str, spoil: str = "") -> Callable[[Topic], None]:
    """The copiers' offsets go with their transactions: 10 committed, 5 more in one that is
    aborted."""

    def mutate(topic: Topic) -> None:
        copy_from(source)(topic)
        ended = topic.rows["transactions"]
        last = max(topic.rows["copies"], key=lambda row: row["input_offset"])
        aborted = next(row for row in ended if row["outcome"] == 1)
        commit = topic.rows["commits"][-1]
        commit |= {"transaction": last["transaction"], "producer": last["producer"]}
        late = commit_row(topic, 0, 0, topic.copied_until + BATCH, 4)
        who = {name: commit[name] for name in ("consumer", "group", "topic")}
        topic.rows["commits"].append(
            late | who | {"transaction": aborted["transaction"], "producer": aborted["producer"]}
        )
        if spoil == "moved":
            topic.copied_until += BATCH
        elif spoil == "pending":  # a member begins at an offset whose transaction is not yet to be committed
            its = next(
                row
                for row in ended
                if (row["producer"], row["transaction"]) == (last["producer"], last["transaction"])
            )
            its |= {"ending_ns": commit["asked_ns"] + 500 * MS, "end_ns": commit["asked_ns"] + 501 * MS}
            begun: Row = {"assignment": 9, "event": 0, "start_offset": topic.copied_until}
            begun |= {name: commit[name] for name in ("consumer", "group", "topic", "partition")}
            topic.rows["assignments"].append(begun | {"at_ns": commit["asked_ns"] + 100 * MS})
        elif spoil == "forgotten":
            topic.copied_until -= BATCH
        elif spoil == "unknown":  # its producer got no answer; the log says that it was aborted
            ended.remove(aborted)
            topic.copied_until += BATCH
            own = [r for r in topic.rows["sends"] if r["transaction"] == aborted["transaction"]]
            seq = next(r["seq"] for r in own if r["producer"] == aborted["producer"])
            topic.rows["copies"] += [
                topic.rows["copies"][0]
                | {
                    "producer": aborted["producer"],
                    "transaction": aborted["transaction"],
                    "seq": seq + n,
                    "input_offset": 2 * BATCH + n,
                }
                for n in range(BATCH)
            ]

    return mutate


def nothing(topic: Topic) -> None:
    """What is found in it comes from the topic that its copies are in."""


ACCEPTED, REJECTED = "delivered after it was accepted", "delivered after it was rejected"
HELD, TWICE = "delivered while another delivery held it", "two deliveries with one count"
STALE = "confirmed for a member that no longer had it"
MOVED = "an aborted transaction's offsets moved the group"
PREMATURE = {  # its records were read long before, by two readers, and those of six batches above it
    ("V11", "before its commit was asked for"): 2 * BATCH,
    ("V11", ABOVE): 2 * 6 * BATCH,
}
SHARE_MUTATIONS: tuple[Mutation, ...] = (
    Mutation("clean-shared", "idempotent", share, {}),
    Mutation("clean-shared-transactional", "transactional", share, {}),
    Mutation("clean-share-expired", "idempotent", expire(30_500), {}),
    Mutation("clean-share-refused", "idempotent", again(ShareAck.RELEASE), {}),
    Mutation("shared-accepted", "idempotent", again(ShareAck.ACCEPT), {("V19", ACCEPTED): 1}),
    Mutation("shared-rejected", "idempotent", again(ShareAck.REJECT), {("V19", REJECTED): 1}),
    Mutation("shared-count", "idempotent", again(ShareAck.RELEASE, delivery=1), {("V19", TWICE): 1}),
    Mutation("shared-stolen", "idempotent", steal, {("V19", HELD): 1, ("V19", STALE): 1}),
    Mutation("shared-too-soon", "idempotent", expire(5000), {("V19", HELD): 1}),
    Mutation(
        "shared-too-often", "idempotent", too_often, {("V19", "delivered more often than its limit"): 1}
    ),
    Mutation(
        "shared-begins-late",
        "idempotent",
        begins_with_two,
        {("V19", "first delivery has not the count 1"): 1},
    ),
    Mutation(
        "shared-begins-with-none",
        "idempotent",
        begins_with_none,
        {("V19", "first delivery has not the count 1"): 1},
    ),
    Mutation("shared-leaps", "idempotent", leaps, {("V19", "delivery count leaps"): 1}),
    Mutation(
        "shared-forgotten",
        "idempotent",
        release_and_forget,
        {("V10", "released and never delivered again"): 1},
    ),
    Mutation(
        "shared-expired",
        "idempotent",
        expire_and_forget,
        {("V10", "never delivered again after its lock expired"): 1},
    ),
    Mutation("clean-share-given-up", "idempotent", give_up, {}),
    Mutation("shared-never", "idempotent", never_shared, {("V10", "never delivered to its share group"): 1}),
    Mutation("shared-otherwise", "idempotent", shared_otherwise, {("V03", "another record or value"): 1}),
    Mutation(
        "shared-too-early",
        "idempotent",
        share_too_soon,
        {("V03", "before it was sent"): 1, ("V20", OVERTAKEN): 2},  # and so before the one below it
    ),
    Mutation(
        "shared-aborted",
        "transactional",
        share_the_aborted,
        {("V11", "aborted in the log"): 1, ("V11", "its producer aborted it"): 1},
    ),
    Mutation(
        "shared-before-commit",
        "transactional",
        share_before_the_commit,
        {("V11", "before its commit was asked for"): 1},
    ),
    Mutation("copied-offsets", "copied", copied_with_offsets("clean-offsets-source"), {}),
    Mutation("clean-offsets-source", "idempotent", nothing, {}),
    Mutation("copied-moved", "copied", copied_with_offsets("moved-source", "moved"), {}),
    Mutation("moved-source", "idempotent", nothing, {("V09", MOVED): 1, ("V12", "never copied"): BATCH}),
    Mutation("copied-pending", "copied", copied_with_offsets("pending-source", "pending"), PREMATURE),
    Mutation("pending-source", "idempotent", nothing, {("V09", "start above every commit"): 1}),
    Mutation("copied-forgotten", "copied", copied_with_offsets("forgotten-source", "forgotten"), {}),
    Mutation(
        "forgotten-source", "idempotent", nothing, {("V09", "offset at the end below a confirmed commit"): 1}
    ),
    Mutation("copied-unknown", "copied", copied_with_offsets("unknown-source", "unknown"), {}),
    Mutation("unknown-source", "idempotent", nothing, {("V09", MOVED): 1, ("V12", "never copied"): BATCH}),
)
