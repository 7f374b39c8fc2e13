"""Mutations of what was given before it was removed, of copies of what is not there, and of an
earlier copy of the log."""

from collections.abc import Callable
from copy import deepcopy

from spark_validation.checks.delivery import UNLIKE_SENT
from spark_validation.checks.restart import REWRITTEN
from spark_validation.checks.transactions import UNSEEN
from tests.spark_validation.copy_mutations import copy_from
from tests.spark_validation.mutation import Mutation
from tests.spark_validation.removal_mutations import compact, expire
from tests.spark_validation.share_mutations import given, share
from tests.spark_validation.world import BATCH, START_NS, Record, Topic

EARLY = 3  # an offset that compaction and retention take


def given_otherwise(
    remove: Callable[[Topic], None], **changes: Callable[[int], int]
) -> Callable[[Topic], None]:
    """A record that is removed later was given to the group with other fields."""

    def mutate(topic: Topic) -> None:
        remove(topic)
        assert EARLY not in {offset for offset, _, _ in topic.records()}
        row = next(row for row in topic.reads_of(topic.reader, 0) if row["offset"] == EARLY)
        for name, change in changes.items():
            row[name] = change(row[name])

    return mutate


def more(value: int) -> int:
    return value + 1


def share_and_expire(topic: Topic) -> None:
    share(topic)
    expire(topic)


def shared_otherwise(topic: Topic) -> None:
    share_and_expire(topic)
    given(topic, EARLY)["header_sum"] += 1


def compacted_since(topic: Topic) -> None:
    topic.earlier = deepcopy(topic.log)
    compact(topic)


def acknowledged_in_its_place(topic: Topic) -> None:
    """The earlier copy ends with a record that was not acknowledged; it is lost, and another one
    lies there now."""
    topic.earlier = deepcopy(topic.log)
    own = topic.earlier[0][-1]
    own.records = [Record(topic.producers[1], 115 + n, 115 + n, 2, START_NS) for n in range(BATCH)]


def rewritten(**fields: int) -> Callable[[Topic], None]:
    """A batch of the log has another header than in the earlier copy."""

    def mutate(topic: Topic) -> None:
        topic.earlier = deepcopy(topic.log)
        topic.log[0][0].patch = fields

    return mutate


def nothing(topic: Topic) -> None:
    """What is found in it comes from the topic that its copies are in."""


GONE_SINCE_MUTATIONS: tuple[Mutation, ...] = (
    Mutation(
        "compacted-altered",
        "idempotent",
        given_otherwise(compact, intact=lambda _: False),
        {("V03", UNLIKE_SENT): 1},
    ),
    Mutation(
        "compacted-timestamp",
        "idempotent",
        given_otherwise(compact, timestamp_ms=more),
        {("V03", UNLIKE_SENT): 1},
    ),
    Mutation(
        "expired-headers", "idempotent", given_otherwise(expire, header_sum=more), {("V03", UNLIKE_SENT): 1}
    ),
    Mutation("expired-identity", "idempotent", given_otherwise(expire, seq=more), {("V03", UNLIKE_SENT): 1}),
    Mutation("clean-shared-expired", "idempotent", share_and_expire, {}),
    Mutation("shared-expired-headers", "idempotent", shared_otherwise, {("V03", UNLIKE_SENT): 1}),
    Mutation("clean-compacted-since", "idempotent", compacted_since, {}),
    Mutation("replaced-since", "idempotent", acknowledged_in_its_place, {("V14", "changed"): BATCH}),
    Mutation(
        "rewritten-since",
        "idempotent",
        rewritten(producer_id=77_000),
        {("V14", REWRITTEN): 1, ("V07", "first sequence number is not 0"): 1},
    ),
    Mutation("copied-marker", "copied", copy_from("marker-source"), {}),
    Mutation("marker-source", "transactional", nothing, {("V12", UNSEEN): 1}),
)
AT_EARLY: set[tuple[int, int | None]] = {(0, EARLY)}
GONE_SINCE: dict[str, tuple[str, set[tuple[int, int | None]]]] = {
    "compacted-altered": ("V03", AT_EARLY),
    "compacted-timestamp": ("V03", AT_EARLY),
    "expired-headers": ("V03", AT_EARLY),
    "expired-identity": ("V03", AT_EARLY),
    "shared-expired-headers": ("V03", AT_EARLY),
    "rewritten-since": ("V14", {(0, 0)}),
    "marker-source": ("V12", {(0, BATCH)}),
}
"""As OUTSIDE. Of a copy the place is that of its input."""
