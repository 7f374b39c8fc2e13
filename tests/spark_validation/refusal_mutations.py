"""Mutations of answers that contradict what a broker must refuse: commits that move their group all
the same, and acknowledgements of members that no longer had the record."""

from collections.abc import Callable

from loadtest.history import ShareAck
from tests.spark_validation.mutation import Mutation
from tests.spark_validation.share_mutations import RELEASED, STALE, expire, given, share
from tests.spark_validation.world import MS, Topic, assignment_row, commit_row

ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, INVALID_RECORD_STATE = 22, 25, 121


def refuse_the_last_commit(topic: Topic, code: int) -> int:
    """The last commit of partition 0 is refused; gives its offset."""
    last = [row for row in topic.rows["commits"] if row["partition"] == 0][-1]
    last["error"] = code
    return int(last["offset"])


def end_at_the_refused(topic: Topic) -> None:
    topic.committed[0] = refuse_the_last_commit(topic, ILLEGAL_GENERATION)


def begin_at_the_refused(topic: Topic) -> None:
    refused = refuse_the_last_commit(topic, UNKNOWN_MEMBER_ID)
    topic.rows["assignments"].append(assignment_row(topic, 0, 2, refused, 4))
    topic.committed[0] = next(r["offset"] for r in topic.rows["commits"] if r["partition"] == 0)


def refuse_without_effect(topic: Topic) -> None:
    refused = commit_row(topic, 0, 1, topic.log[0][-1].end - 3, 4)
    topic.rows["commits"].append(refused | {"error": ILLEGAL_GENERATION})


def acknowledge_late(ack: ShareAck, error: int = 0) -> Callable[[Topic], None]:
    """A member's lock expires, the other one has the record, and then the first acknowledges it."""

    def mutate(topic: Topic) -> None:
        expire(30_500)(topic)
        second = next(row for row in topic.rows["shares"] if row["delivery"] == 2)
        asked_ns = second["acquired_ns"] + 5 * MS
        given(topic, RELEASED).update(ack=int(ack), error=error, asked_ns=asked_ns, answered_ns=asked_ns + MS)

    return mutate


def acknowledge_when_expired(topic: Topic) -> None:
    """No other member had it meanwhile."""
    share(topic)
    row = given(topic, 21)
    row["asked_ns"] = row["acquired_ns"] + 45_000 * MS
    row["answered_ns"] = row["asked_ns"] + MS


REFUSAL_MUTATIONS: tuple[Mutation, ...] = (
    Mutation("clean-refused", "idempotent", refuse_without_effect, {}),
    Mutation(
        "refused-end",
        "idempotent",
        end_at_the_refused,
        {("V09", "offset at the end that nobody committed"): 1},
    ),
    Mutation("refused-start", "idempotent", begin_at_the_refused, {("V09", "start above every commit"): 1}),
    Mutation("clean-share-late", "idempotent", acknowledge_late(ShareAck.ACCEPT, INVALID_RECORD_STATE), {}),
    Mutation("shared-stale", "idempotent", acknowledge_late(ShareAck.RELEASE), {("V19", STALE): 1}),
    Mutation(
        "shared-stale-accept",
        "idempotent",
        acknowledge_late(ShareAck.ACCEPT),
        {("V19", STALE): 1, ("V19", "delivered after it was accepted"): 1},
    ),
    Mutation(
        "shared-late",
        "idempotent",
        acknowledge_when_expired,
        {("V19", "confirmed after its lock had expired"): 1},
    ),
)
