"""Mutations of what readers were given: less than the log holds, the same again, other fields, or
what was lost after they had it; and deliveries that only look wrong."""

from collections.abc import Callable

from loadtest.history import AssignmentEvent
from tests.spark_validation.group_mutations import skip_the_first
from tests.spark_validation.mutation import Mutation
from tests.spark_validation.real_time_mutations import KEY_ORDER, MISSED
from tests.spark_validation.removal_mutations import begin_late
from tests.spark_validation.world import BATCH, BATCHES, MS, Row, Topic, read_row

HALF = BATCHES * BATCH // 2  # where the reader's second assignment begins
END = BATCHES * BATCH
Who = Callable[[Topic], int]


def reader(topic: Topic) -> int:
    return topic.reader


def drain(topic: Topic) -> int:
    return topic.drain


def committed_drain(topic: Topic) -> int:
    return topic.committed_drain


def hide(who: Who, partition: int, first: int, until: int) -> Callable[[Topic], None]:
    """A reader is not given offsets [first, until)."""

    def mutate(topic: Topic) -> None:
        hidden = [row for row in topic.reads_of(who(topic), partition) if first <= row["offset"] < until]
        assert hidden
        for row in hidden:
            topic.rows["reads"].remove(row)

    return mutate


def hide_a_transaction(who: Who, outcome: int, at: int) -> Callable[[Topic], None]:
    """Of partition 0, that of batch `at`."""

    def mutate(topic: Topic) -> None:
        first = topic.log[0][at].records[0]
        (row,) = [
            r
            for r in topic.rows["transactions"]
            if (r["producer"], r["first_seq"]) == (first.producer, first.seq)
        ]
        assert row["outcome"] == outcome
        base = topic.log[0][at].base
        hide(who, 0, base, base + BATCH)(topic)

    return mutate


def hide_behind_another(topic: Topic) -> None:
    """The group is given as many records as it is to be given: an aborted one instead of the
    last."""
    own = topic.reads_of(topic.reader, 0)
    topic.rows["reads"].remove(own[-1])
    base = topic.log[0][8].base
    behind = next(row for row in own if row["offset"] > base)
    aborted = read_row(topic, topic.reader, 0, 0, base, topic.log[0][8].records[0])
    topic.rows["reads"].insert(topic.rows["reads"].index(behind), aborted)


def rewind(topic: Topic) -> None:
    """Within its first assignment the reader is given ten records once more."""
    own = topic.reads_of(topic.reader, 0)
    at = topic.rows["reads"].index(own[20])
    topic.rows["reads"][at:at] = [row | {"seen_ns": own[19]["seen_ns"]} for row in own[10:20]]


def redeliver(topic: Topic) -> None:
    """The first assignment is given five records more than it commits; the second begins 20 s later
    and is given them, too."""
    begin_late(topic)
    again = [row for row in topic.reads_of(topic.reader, 0) if row["assignment"] == 1][:BATCH]
    at = topic.rows["reads"].index(again[0])
    first = [row | {"assignment": 0, "seen_ns": row["seen_ns"] - 20_000 * MS} for row in again]
    topic.rows["reads"][at:at] = first


def skip_uncommitted(topic: Topic) -> None:
    """The second assignment begins where it should, its first records are not delivered, and nobody
    commits what comes after them."""
    skip_the_first(topic, BATCH)
    topic.rows["commits"] = [r for r in topic.rows["commits"] if (r["partition"], r["assignment"]) != (0, 1)]
    topic.committed[0] = HALF


def lose_without_noticing(topic: Topic) -> None:
    """A member's session runs out: another one has the partition and commits before the first one
    hears that it lost it."""
    own = [row for row in topic.reads_of(topic.reader, 0) if row["assignment"] == 0]
    first, second = (row for row in topic.rows["assignments"] if row["partition"] == 0)
    other: Row = {"consumer": topic.committed_drain, "assignment": 5}
    lost = {"event": int(AssignmentEvent.LOST), "at_ns": own[-1]["seen_ns"] + 1}
    given_back = {"event": int(AssignmentEvent.REVOKED), "at_ns": second["at_ns"] - MS // 16}
    topic.rows["assignments"] += [
        first | lost,
        first | other | {"at_ns": own[3]["seen_ns"]},
        first | other | given_back,
    ]
    topic.rows["reads"] += [row | other for row in own[3:6]]
    commit = next(row for row in topic.rows["commits"] if (row["partition"], row["assignment"]) == (0, 0))
    commit |= other


def read_otherwise(**fields: int) -> Callable[[Topic], None]:
    def mutate(topic: Topic) -> None:
        row = topic.reads_of(topic.reader, 0)[9]
        row |= {name: row[name] + by for name, by in fields.items()}

    return mutate


def read_an_empty_key(topic: Topic) -> None:
    topic.reads_of(topic.reader, 0)[9]["key"] = -1


def lose_what_was_seen(topic: Topic) -> None:
    """The last batch was never acknowledged, and all readers had it."""
    for record in topic.log[0].pop().records:
        topic.sent(record.producer, record.seq).update(status=2, offset=-1)


def begin_at_the_end(topic: Topic) -> None:
    """A member that never committed begins at the log's end, though its policy is earliest."""
    hide(reader, 0, 0, BATCH)(topic)


V08, V10 = "V08", "V10"
DRAIN, GROUP = (V10, "never delivered to a drain"), (V10, "never delivered to its group")
DIVERGED = ("V03", "another record or value")
HIDDEN_MUTATIONS: tuple[Mutation, ...] = (
    Mutation("hides-committed", "transactional", hide_a_transaction(committed_drain, 0, 2), {DRAIN: BATCH}),
    Mutation("hides-aborted", "transactional", hide_a_transaction(drain, 1, 10), {DRAIN: BATCH}),
    Mutation("hides-tail", "idempotent", hide(committed_drain, 1, END - 1, END), {DRAIN: 1}),
    Mutation("hides-partition", "idempotent", hide(drain, 1, 0, END), {DRAIN: END}),
    Mutation("hides-groups-tail", "idempotent", hide(reader, 0, END - BATCH, END), {GROUP: BATCH}),
    Mutation("hides-beginning", "idempotent", begin_at_the_end, {GROUP: BATCH}),
    Mutation("hides-uncommitted", "idempotent", skip_uncommitted, {GROUP: BATCH}),
    Mutation(
        "hides-behind-another",
        "transactional",
        hide_behind_another,
        {GROUP: 1, ("V11", "aborted in the log"): 1, ("V11", "its producer aborted it"): 1},
    ),
    Mutation("rewound", "idempotent", rewind, {(V08, "went back"): 1, ("V20", KEY_ORDER): 5}),
    Mutation("clean-redelivered", "idempotent", redeliver, {}),
    Mutation("clean-lost-partition", "idempotent", lose_without_noticing, {}),
    Mutation("timestamp-read", "idempotent", read_otherwise(timestamp_ms=1), {DIVERGED: 1}),
    Mutation("key-read", "idempotent", read_an_empty_key, {DIVERGED: 1}),
    Mutation(
        "seen-then-lost",
        "idempotent",
        lose_what_was_seen,
        {
            ("V03", "not in the log"): 3 * BATCH,
            ("V09", "commit above the log's end"): 1,
            ("V20", MISSED): BATCH,
        },
    ),
)


def places(first: int, count: int, partition: int = 0) -> set[tuple[int, int | None]]:
    return {(partition, offset) for offset in range(first, first + count)}


HIDDEN: dict[str, tuple[str, set[tuple[int, int | None]]]] = {
    "hides-committed": (V10, places(BATCH + 1, BATCH)),
    "hides-aborted": (V10, places(5 * (BATCH + 1), BATCH)),
    "hides-tail": (V10, places(END - 1, 1, 1)),
    "hides-partition": (V10, places(0, END, 1)),
    "hides-groups-tail": (V10, places(END - BATCH, BATCH)),
    "hides-beginning": (V10, places(0, BATCH)),
    "hides-uncommitted": (V10, places(HALF, BATCH)),
    "hides-behind-another": (V10, places(9 * (BATCH + 1) + BATCH - 1, 1)),
    "rewound": (V08, places(10, 1)),
    "timestamp-read": ("V03", places(9, 1)),
    "key-read": ("V03", places(9, 1)),
    "seen-then-lost": ("V03", places(END - BATCH, BATCH)),
}
"""As OUTSIDE."""
