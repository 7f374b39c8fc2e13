"""Mutations of what a group was given, and of what it began with and committed."""

from tests.spark_validation.mutation import Mutation
from tests.spark_validation.world import BATCH, BATCHES, EARLIEST, MS, Topic


def forget_the_commit_at_a_start(topic: Topic) -> None:
    """The second assignment begins where the reset policy says, though a commit was confirmed."""
    row = next(row for row in topic.rows["assignments"] if row["assignment"] == 1 and row["partition"] == 0)
    row["start_offset"] = EARLIEST


def begin_above_the_commit(topic: Topic) -> None:
    row = next(row for row in topic.rows["assignments"] if row["assignment"] == 1 and row["partition"] == 0)
    row["start_offset"] += BATCH
    skip_the_first(topic, BATCH)


def skip_the_first(topic: Topic, count: int = 3) -> None:
    """The second assignment begins where it should, and its first records are delivered to
    nobody."""
    for row in [row for row in topic.reads_of(topic.reader, 0) if row["assignment"] == 1][:count]:
        topic.rows["reads"].remove(row)


def deliver_nothing(topic: Topic) -> None:
    """A partition is assigned and committed to its end, and none of its records is given to
    anybody."""
    for row in topic.reads_of(topic.reader, 1):
        topic.rows["reads"].remove(row)


def invent_a_commit(topic: Topic) -> None:
    topic.committed[1] += 7


def own_twice(topic: Topic) -> None:
    """Another consumer is given the partition and its records before the first one gives it
    back."""
    began = next(row for row in topic.rows["assignments"] if row["assignment"] == 0 and row["partition"] == 0)
    mine = [row for row in topic.reads_of(topic.reader, 0) if row["assignment"] == 0]
    other = {"consumer": topic.committed_drain, "assignment": 5}
    end = mine[-1]["seen_ns"] + 1000 * MS
    topic.rows["assignments"] += [
        began | other | {"at_ns": mine[3]["seen_ns"]},
        began | {"event": 1, "at_ns": end},
        began | other | {"event": 1, "at_ns": end + MS},
    ]
    topic.rows["reads"] += [row | other for row in mine[3:6]]


def deliver_and_commit_nothing(topic: Topic) -> None:
    """A partition is assigned all the time, and the group is given nothing of it."""
    deliver_nothing(topic)
    topic.rows["commits"] = [row for row in topic.rows["commits"] if row["partition"] != 1]
    topic.rows["assignments"] = [
        row for row in topic.rows["assignments"] if (row["partition"], row["assignment"]) != (1, 1)
    ]
    del topic.committed[1]


def commit_when_replaced(topic: Topic) -> None:
    """Another member begins with the partition; the one before commits on, and is confirmed."""
    began = next(row for row in topic.rows["assignments"] if row["assignment"] == 1 and row["partition"] == 0)
    commit = next(row for row in topic.rows["commits"] if row["assignment"] == 1 and row["partition"] == 0)
    late = {"consumer": topic.committed_drain, "assignment": 5, "start_offset": commit["offset"]}
    topic.rows["assignments"].append(began | late | {"at_ns": commit["answered_ns"] + MS})
    again = {"asked_ns": commit["asked_ns"] + 5 * MS, "answered_ns": commit["answered_ns"] + 5 * MS}
    topic.rows["commits"].append(commit | again)


def assign_to_nobody(topic: Topic) -> None:
    """A partition of the group's topic that no member is ever given."""
    deliver_and_commit_nothing(topic)
    topic.rows["assignments"] = [row for row in topic.rows["assignments"] if row["partition"] != 1]


def forget_the_group(topic: Topic) -> None:
    """The broker knows nothing of it at the end."""
    topic.committed.clear()


GROUP_MUTATIONS: tuple[Mutation, ...] = (
    Mutation(
        "start-forgotten",
        "idempotent",
        forget_the_commit_at_a_start,
        {("V09", "start forgot a confirmed commit"): 1},
    ),
    Mutation(
        "start-above",
        "idempotent",
        begin_above_the_commit,
        {("V09", "start above every commit"): 1, ("V10", "never delivered to its group"): BATCH},
    ),
    Mutation("start-skipped", "idempotent", skip_the_first, {("V10", "never delivered to its group"): 3}),
    Mutation(
        "delivers-nothing",
        "idempotent",
        deliver_nothing,
        {("V10", "never delivered to its group"): BATCHES * BATCH},
    ),
    Mutation(
        "commit-invented",
        "idempotent",
        invent_a_commit,
        {("V09", "offset at the end that nobody committed"): 1},
    ),
    Mutation(
        "silent-partition",
        "idempotent",
        deliver_and_commit_nothing,
        {("V10", "never delivered to its group"): BATCHES * BATCH},
    ),
    Mutation(
        "never-assigned",
        "idempotent",
        assign_to_nobody,
        {("V10", "never assigned to a member of its group"): 1},
    ),
    Mutation(
        "group-forgotten",
        "idempotent",
        forget_the_group,
        {("V09", "offset at the end below a confirmed commit"): 2},
    ),
    Mutation(
        "former-owner",
        "idempotent",
        commit_when_replaced,
        {("V09", "commit of a former owner was confirmed"): 1},
    ),
    Mutation(
        "two-owners",
        "idempotent",
        own_twice,
        {
            ("V08", "two owners at the same time"): 1,
            ("V09", "commit of a former owner was confirmed"): 1,
        },
    ),
)
