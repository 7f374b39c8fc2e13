"""Mutations of what a group was given, and of what it began with and committed."""

from collections.abc import Callable

from loadtest.history import UNKNOWN_START
from spark_validation.checks import ownership
from tests.spark_validation.mutation import Mutation
from tests.spark_validation.world import BATCH, BATCHES, EARLIEST, MS, Topic, assignment_row


def forget_the_commit_at_a_start(topic: Topic) -> None:
    """The second assignment begins where the reset policy says, though a commit was confirmed."""
    row = next(row for row in topic.rows["assignments"] if row["assignment"] == 1 and row["partition"] == 0)
    row["start_offset"] = EARLIEST


def begin_above_the_commit(topic: Topic) -> None:
    row = next(row for row in topic.rows["assignments"] if row["assignment"] == 1 and row["partition"] == 0)
    row["start_offset"] += BATCH
    skip_the_first(topic, BATCH)


def skip_the_first(topic: Topic, count: int = 3) -> None:
    """The second assignment begins where it should, and its first records are not
    delivered."""
    for row in [row for row in topic.reads_of(topic.reader, 0) if row["assignment"] == 1][:count]:
        topic.rows["reads"].remove(row)


def deliver_nothing(topic: Topic) -> None:
    """A partition is assigned and committed to its end, and none of its records is
    delivered."""
    for row in topic.reads_of(topic.reader, 1):
        topic.rows["reads"].remove(row)


def invent_a_commit(topic: Topic) -> None:
    topic.committed[1] += 7


def own_twice(topic: Topic) -> None:
    """Another consumer is given the partition and its records before the first one gives it
    back."""
    began = next(row for row in topic.rows["assignments"] if row["assignment"] == 0 and row["partition"] == 0)
    own = [row for row in topic.reads_of(topic.reader, 0) if row["assignment"] == 0]
    other = {"consumer": topic.committed_drain, "assignment": 5}
    end = own[-1]["seen_ns"] + 1000 * MS
    topic.rows["assignments"] += [
        began | other | {"at_ns": own[3]["seen_ns"]},
        began | {"event": 1, "at_ns": end},
        began | other | {"event": 1, "at_ns": end + MS},
    ]
    topic.rows["reads"] += [row | other for row in own[3:6]]


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


def assign_to_a_non_member(topic: Topic) -> None:
    """A partition of the group's topic that no member is ever given."""
    deliver_and_commit_nothing(topic)
    topic.rows["assignments"] = [row for row in topic.rows["assignments"] if row["partition"] != 1]


def forget_the_group(topic: Topic) -> None:
    """The broker knows nothing of it at the end."""
    topic.committed.clear()


def refuse_the_last_commit(topic: Topic) -> int:
    """The last commit of partition 0 has no answer: it may have moved the group, or not; gives
    where the one before was."""
    first, last = [row for row in topic.rows["commits"] if row["partition"] == 0]
    last["error"] = 7
    return int(first["offset"])


def begin_between_commits(topic: Topic) -> None:
    middle = refuse_the_last_commit(topic)
    topic.rows["assignments"].append(assignment_row(topic, 0, 2, middle + 3, 4))


def end_between_commits(topic: Topic) -> None:
    topic.committed[0] = refuse_the_last_commit(topic) + 3


def begin_at_the_unanswered_commit(topic: Topic) -> None:
    refuse_the_last_commit(topic)
    topic.rows["assignments"].append(assignment_row(topic, 0, 2, topic.log[0][-1].end, 4))


def stop_delivering(topic: Topic) -> None:
    """Half of a partition is given and committed, and nothing more of it, to its member that reads
    on."""
    for row in [row for row in topic.reads_of(topic.reader, 1) if row["assignment"] == 1]:
        topic.rows["reads"].remove(row)
    topic.rows["commits"] = [
        row for row in topic.rows["commits"] if (row["partition"], row["assignment"]) != (1, 1)
    ]
    topic.committed[1] = next(row["offset"] for row in topic.rows["commits"] if row["partition"] == 1)


def leave_before_it_comes(topic: Topic) -> None:
    """A member had a partition for long, and its records come just before it gives it back."""
    deliver_and_commit_nothing(topic)
    (had,) = [row for row in topic.rows["assignments"] if row["partition"] == 1]
    topic.rows["assignments"].append(had | {"event": 1, "at_ns": had["at_ns"] + 31_000 * MS})


def own_until_the_end(topic: Topic) -> None:
    """As `own_twice`, and neither gives the partition back before it ends."""
    own_twice(topic)
    topic.rows["assignments"] = [row for row in topic.rows["assignments"] if row["event"] == 0]


def ask_without_an_answer(topic: Topic) -> None:
    """Of a commit that was confirmed, and the client library finds it when it asks again."""
    row = next(row for row in topic.rows["assignments"] if row["assignment"] == 1 and row["partition"] == 0)
    row["start_offset"] = UNKNOWN_START


def stop_while_members_change(topic: Topic) -> None:
    """The group is given nothing of a partition, of which no assignment lasts longer than 9 s."""
    deliver_and_commit_nothing(topic)
    (had,) = [row for row in topic.rows["assignments"] if row["partition"] == 1]
    topic.rows["assignments"].remove(had)
    for n in range(9):
        begun = had | {"assignment": 10 + n, "at_ns": had["at_ns"] + 9500 * n * MS}
        given_back = {"event": 1, "at_ns": begun["at_ns"] + 9000 * MS}
        topic.rows["assignments"] += [begun, begun | given_back]


def lose_rows(who: str, count: int = BATCH) -> Callable[[Topic], None]:
    """The last rows of a reader's history are gone, as it says itself."""

    def mutate(topic: Topic) -> None:
        consumer = {"reader": topic.reader, "drain": topic.drain}[who]
        for row in topic.reads_of(consumer)[-count:]:
            topic.rows["reads"].remove(row)
        topic.lost_reads[consumer] = count

    return mutate


def lose_the_commits(topic: Topic) -> None:
    """The broker holds offsets, and the histories hold no commit at all."""
    topic.rows["commits"].clear()


INVENTED_START = "start at an offset that nobody committed"
GROUP_MUTATIONS: tuple[Mutation, ...] = (
    Mutation("clean-unanswered", "idempotent", begin_at_the_unanswered_commit, {}),
    Mutation("clean-left", "idempotent", leave_before_it_comes, {}),
    Mutation("clean-unknown-start", "idempotent", ask_without_an_answer, {}),
    Mutation(
        "silent-though-changing",
        "idempotent",
        stop_while_members_change,
        {("V10", "never delivered to its group"): BATCHES * BATCH},
    ),
    Mutation("start-between", "idempotent", begin_between_commits, {("V09", INVENTED_START): 1}),
    Mutation(
        "end-between",
        "idempotent",
        end_between_commits,
        {("V09", "offset at the end that nobody committed"): 1},
    ),
    Mutation(
        "stops-delivering",
        "idempotent",
        stop_delivering,
        {("V10", "never delivered to its group"): BATCHES * BATCH // 2},
    ),
    Mutation(
        "two-owners-to-the-end",
        "idempotent",
        own_until_the_end,
        {
            ("V08", "two owners at the same time"): 1,
            ("V09", "commit of a former owner was confirmed"): 1,
        },
    ),
    Mutation("cut-drain", "idempotent", lose_rows("drain"), {("V10", "never delivered to a drain"): BATCH}),
    Mutation(
        "cut-reader", "idempotent", lose_rows("reader"), {("V10", "never delivered to its group"): BATCH}
    ),
    Mutation(
        "cut-commits",
        "idempotent",
        lose_the_commits,
        {
            ("V09", "offset at the end that nobody committed"): 2,
            ("V09", "start above every commit"): 2,
        },
    ),
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
        assign_to_a_non_member,
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
            ("V08", ownership.EARLY): 1,  # the first one again, before the other gives it back
            ("V09", "commit of a former owner was confirmed"): 1,
        },
    ),
)
