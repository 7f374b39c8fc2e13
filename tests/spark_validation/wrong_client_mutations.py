"""Mutations of answers that reached the wrong client: another group's, another topic's or
partition's; and of records that are passed over, because another member had them."""

from kbroker.protocol.records import ControlType
from spark_validation.checks import beginnings, delays, membership
from spark_validation.checks.markers import AHEAD
from spark_validation.checks.places import OTHER_KEYS
from tests.spark_validation.marker_mutations import shift
from tests.spark_validation.mutation import Mutation
from tests.spark_validation.share_mutations import given, share
from tests.spark_validation.world import (
    BATCH,
    EARLIEST,
    MS,
    PARTITIONS,
    Topic,
    assignment_row,
    commit_row,
    read_everything,
)

APART = 2  # ordinal of the second assignment of partition 1


def assign_apart(topic: Topic) -> None:
    """The second assignments of both partitions are two."""
    for kind in ("reads", "commits", "assignments"):
        for row in topic.rows[kind]:
            if (row["partition"], row["assignment"]) == (1, 1):
                row["assignment"] = APART


def give_of_another_partition(topic: Topic) -> None:
    assign_apart(topic)
    topic.reads_of(topic.reader, 0)[-1]["assignment"] = APART


def give_of_another_topic(topic: Topic) -> None:
    """A reader of another topic is given a record of this one."""
    other = topic.reader + 6
    topic.members[other] = None, "clean-source"
    row = topic.reads_of(topic.drain, 0)[21]
    topic.rows["reads"].append(row | {"consumer": other})


def commit_for_another_group(topic: Topic) -> None:
    row = commit_row(topic, 0, 1, topic.log[0][-1].end, 4)
    topic.rows["commits"].append(row | {"group": topic.copiers})


def refuse_for_another_group(topic: Topic) -> None:
    commit_for_another_group(topic)
    topic.rows["commits"][-1]["error"] = 25


def assign_in_another_group(topic: Topic) -> None:
    topic.rows["assignments"].append(assignment_row(topic, 0, 9, EARLIEST, 4) | {"group": topic.copiers})


def share_with_another_group(topic: Topic) -> None:
    share(topic)
    topic.rows["shares"].append(given(topic, 21) | {"group": topic.copiers})


def pass_over(topic: Topic) -> None:
    """The first three records of the second assignment came with the first one, which did not
    commit them."""
    own = topic.reads_of(topic.reader, 0)
    begin = next(n for n, row in enumerate(own) if row["assignment"] == 1)
    for row in own[begin : begin + 3]:
        row["assignment"] = 0


def pass_over_what_was_committed_late(topic: Topic) -> None:
    pass_over(topic)
    first = next(row for row in topic.reads_of(topic.reader, 0) if row["assignment"] == 1)
    times = {"asked_ns": first["seen_ns"] - 2, "answered_ns": first["seen_ns"] - 1}
    topic.rows["commits"].append(commit_row(topic, 0, 0, first["offset"], 1) | times)


def in_another_keys_partition(topic: Topic) -> None:
    """Client and log agree on a record whose key belongs into the other partition."""
    _, record, _ = topic.records()[7]
    record.key += 1
    topic.sent(record.producer, record.seq)["key"] = record.key
    read_everything(topic)


def bump_with_each_end(topic: Topic) -> None:
    """Markers have the next producer epoch, and sequence numbers restart."""
    epochs: dict[int, int] = {}
    for batch in [batch for partition in range(PARTITIONS) for batch in topic.log[partition]]:
        if batch.control is not None:
            epochs[batch.producer_id] = epochs.get(batch.producer_id, 0) + 1
        else:
            batch.sequence = 0
        batch.producer_epoch = epochs.get(batch.producer_id, 0)


def bump_a_marker(topic: Topic) -> None:
    topic.log[0][-1].producer_epoch = 2


def marker_without_coordinator(topic: Topic) -> None:
    topic.log[0][1].coordinator_epoch = -1


SECOND = 10  # batches of the first segment


def abort_across_segments(topic: Topic, drop: int = 0) -> None:
    """The last marker of the first segment and the batch after it change places: it aborts what
    lies in the segment before. drop: so many entries of its index are missing."""
    log = topic.log[0]
    marker, data = log[SECOND - 1], log[SECOND]
    assert marker.control == ControlType.ABORT
    data.base, marker.base = marker.base, marker.base + BATCH
    log[SECOND - 1], log[SECOND] = data, marker
    shift(topic, len(log), 0)
    read_everything(topic)
    entries: list[tuple[int, ...]] = []
    begun: dict[int, int] = {}
    for batch in log:
        if batch.control is None:
            begun.setdefault(batch.producer_id, batch.base)
            continue
        first = begun.pop(batch.producer_id)
        if batch.control == ControlType.ABORT:
            stable = min((*begun.values(), batch.end))
            entries.append((log.index(batch), batch.producer_id, first, batch.base, stable))
    for at in range(0, len(log), SECOND):
        own = [numbers for n, *numbers in entries if at <= n < at + SECOND]
        packed = [bytes(2) + b"".join(number.to_bytes(8) for number in numbers) for numbers in own]
        topic.files[f"{log[at].base:020d}.txnindex"] = b"".join(packed[drop if at == SECOND else 0 :])


def delay(topic: Topic) -> None:
    """The share group is given each record 17 s or more after its timestamp."""
    share(topic)
    topic.config[delays.SETTING] = "15000"


def share_before_it_is_due(topic: Topic) -> None:
    delay(topic)
    row = given(topic, 21)
    row["acquired_ns"] = row["intended_ns"] + 13_000 * MS
    row |= {"asked_ns": row["acquired_ns"] + MS, "answered_ns": row["acquired_ns"] + 2 * MS}


def never_due(topic: Topic) -> None:
    """Of one record, when the members end."""
    delay(topic)
    row = topic.rows["shares"].pop(topic.rows["shares"].index(given(topic, 21)))
    record = topic.records()[21][1]
    record.timestamp_ms = record.stamp + 85_000
    topic.sent(row["producer"], row["seq"])["timestamp_ms"] = record.stamp
    read_everything(topic)


V07, V08, V09 = "V07", "V08", "V09"
NO_ENTRY = ("V13", ".txnindex an abort marker has no entry")
WRONG_CLIENT_MUTATIONS: tuple[Mutation, ...] = (
    Mutation("clean-assigned-apart", "idempotent", assign_apart, {}),
    Mutation(
        "given-of-another-partition",
        "idempotent",
        give_of_another_partition,
        {(V08, membership.UNASSIGNED): 1},
    ),
    Mutation(
        "given-of-another-topic", "idempotent", give_of_another_topic, {("V03", membership.UNREQUESTED): 1}
    ),
    Mutation(
        "commit-of-another-group",
        "idempotent",
        commit_for_another_group,
        {(V09, membership.COMMITTED): 1, (V09, "offset at the end below a confirmed commit"): 1},
    ),
    Mutation("clean-commit-refused-there", "idempotent", refuse_for_another_group, {}),
    Mutation("assigned-elsewhere", "idempotent", assign_in_another_group, {(V08, membership.GIVEN): 1}),
    Mutation("shared-elsewhere", "idempotent", share_with_another_group, {("V19", membership.SHARED): 1}),
    Mutation("passed-over", "idempotent", pass_over, {(V08, beginnings.SKIPPED): 3}),
    Mutation("clean-passed-over", "idempotent", pass_over_what_was_committed_late, {}),
    Mutation("key-elsewhere", "idempotent", in_another_keys_partition, {("V02", OTHER_KEYS): 1}),
    Mutation("clean-bumped-ends", "transactional", bump_with_each_end, {}),
    Mutation("marker-ahead", "transactional", bump_a_marker, {(V07, AHEAD): 1}),
    Mutation(
        "marker-without-coordinator",
        "transactional",
        marker_without_coordinator,
        {(V07, "control batch is no marker"): 1},
    ),
    Mutation("clean-abort-across", "transactional", abort_across_segments, {}),
    Mutation("abort-across", "transactional", lambda topic: abort_across_segments(topic, 1), {NO_ENTRY: 1}),
    Mutation("clean-shared-delayed", "idempotent", delay, {}),
    Mutation("shared-before-due", "idempotent", share_before_it_is_due, {("V19", delays.EARLY): 1}),
    Mutation("clean-shared-not-due", "idempotent", never_due, {}),
)
WRONG_CLIENTS: dict[str, tuple[str, set[tuple[int, int | None]]]] = {
    "given-of-another-partition": (V08, {(0, 59)}),
    "given-of-another-topic": ("V03", {(0, 21)}),
    "assigned-elsewhere": (V08, {(0, None)}),
    "shared-elsewhere": ("V19", {(0, 21)}),
    "passed-over": (V08, {(0, 30), (0, 31), (0, 32)}),
    "key-elsewhere": ("V02", {(0, 7)}),
    "marker-ahead": (V07, {(0, 71)}),
    "marker-without-coordinator": (V07, {(0, BATCH)}),
    "abort-across": ("V13", {(0, SECOND // 2 * (BATCH + 1) - 1 + BATCH)}),
    "shared-before-due": ("V19", {(0, 21)}),
}
"""As OUTSIDE."""
