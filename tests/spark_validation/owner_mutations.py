"""Mutations of what a member was assigned: a partition that another one still had, a topic or
partition that it had no claim to; and of a share group's acknowledgement that was refused."""

from collections.abc import Callable

from loadtest.history import AssignmentEvent, ShareAck
from spark_validation.checks import membership, ownership, shares
from tests.spark_validation.mutation import Mutation
from tests.spark_validation.refusal_mutations import INVALID_RECORD_STATE
from tests.spark_validation.share_mutations import RELEASED, share, share_row
from tests.spark_validation.world import EARLIEST, MS, PARTITIONS, Topic, assignment_row

HANDED = 30  # the offset at which the group was when the partition was handed over


def hand_over(early: bool) -> Callable[[Topic], None]:
    """Between its two assignments of partition 0 the reader gives it back, and another member has
    it meanwhile, without a record. early: that one is assigned it before the reader gave it
    back."""

    def mutate(topic: Topic) -> None:
        own = [row for row in topic.rows["assignments"] if row["partition"] == 0]
        first, second = sorted(own, key=lambda row: int(row["at_ns"]))
        assert second["start_offset"] == HANDED
        before, after = second["at_ns"] - MS // 16, second["at_ns"] - MS // 32
        given_back, assigned = (after, before) if early else (before, after)
        other = {"consumer": topic.committed_drain, "assignment": 5, "start_offset": HANDED}
        revoked = {"event": int(AssignmentEvent.REVOKED)}
        topic.rows["assignments"] += [
            first | revoked | {"at_ns": given_back},
            first | other | {"at_ns": assigned},
            first | other | revoked | {"at_ns": after + MS // 64},
        ]

    return mutate


def assign_what_was_not_requested(topic: Topic) -> None:
    """A reader of another topic is assigned a partition of this one."""
    other = topic.reader + 6
    topic.members[other] = None, "clean-source"
    end = topic.log[0][-1].end
    topic.rows["assignments"].append(assignment_row(topic, 0, 9, end, 4) | {"consumer": other})


def assign_what_is_not_there(topic: Topic) -> None:
    topic.rows["assignments"].append(assignment_row(topic, PARTITIONS, 0, EARLIEST, 0))


def refuse_what_was_held(topic: Topic) -> None:
    """The second delivery is accepted in time, and comes again."""
    share(topic)
    second = next(row for row in topic.rows["shares"] if row["delivery"] == 2)
    second["error"] = INVALID_RECORD_STATE
    _, record, _ = topic.records()[RELEASED]
    third = share_row(topic, 0, RELEASED, record, 3, ShareAck.ACCEPT)
    topic.rows["shares"].append(third | {"consumer": second["consumer"]})


OWNER_MUTATIONS: tuple[Mutation, ...] = (
    Mutation("clean-handed-over", "idempotent", hand_over(False), {}),
    Mutation("handed-over-early", "idempotent", hand_over(True), {("V08", ownership.EARLY): 1}),
    Mutation(
        "assigned-unrequested",
        "idempotent",
        assign_what_was_not_requested,
        {("V08", membership.UNSUBSCRIBED): 1},
    ),
    Mutation(
        "assigned-nowhere", "idempotent", assign_what_is_not_there, {("V08", membership.NO_PARTITION): 1}
    ),
    Mutation("shared-refused", "idempotent", refuse_what_was_held, {("V19", shares.REFUSED): 1}),
)
OWNERS: dict[str, tuple[str, set[tuple[int, int | None]]]] = {
    "handed-over-early": ("V08", {(0, HANDED)}),
    "assigned-unrequested": ("V08", {(0, 60)}),
    "assigned-nowhere": ("V08", {(PARTITIONS, None)}),
    "shared-refused": ("V19", {(0, RELEASED)}),
}
"""As OUTSIDE."""
