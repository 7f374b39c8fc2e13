"""Mutations of the order in real time, and orders that only look wrong."""

from tests.spark_validation.mutation import Mutation
from tests.spark_validation.world import BATCH, MS, Record, Row, Topic, read_everything

OVERTAKEN = "below a record that was done before it was sent"
MISSED = "a later read ended below it"
KEY_ORDER = "read after a later record of its key"


def exchange(topic: Topic, first: int) -> list[Record]:
    """Two neighbouring batches, of two producers, change places, and everybody agrees on it; gives
    the records that lie above now."""
    log = topic.log[0]
    log[first].base, log[first + 1].base = log[first].base + BATCH, log[first].base
    log[first], log[first + 1] = log[first + 1], log[first]
    for offset, record, _ in topic.records():
        topic.sent(record.producer, record.seq)["offset"] = offset
    read_everything(topic)
    return log[first + 1].records


def append_before_what_was_acknowledged(topic: Topic) -> None:
    exchange(topic, 2)


def append_before_what_one_acknowledged(topic: Topic) -> None:
    """The same with acks=1: what the leader alone has acknowledged may still be lost, and nobody
    had read it."""
    topic.acks = "1"
    exchange(topic, 2)


def be_sent_after_the_next(topic: Topic) -> None:
    """One record, after the next one was acknowledged, and after readers saw itself."""
    row = topic.rows["sends"][7]
    row |= {"sent_ns": row["sent_ns"] + 10_000 * MS, "acked_ns": row["acked_ns"] + 10_000 * MS}


def unknown(topic: Topic, records: list[Record]) -> list[Row]:
    """Their outcome is; gives the deliveries of these records."""
    for record in records:
        topic.sent(record.producer, record.seq).update(status=2, offset=-1)
    expected = {(record.producer, record.seq) for record in records}
    return [row for row in topic.rows["reads"] if (row["producer"], row["seq"]) in expected]


def take_effect_late(topic: Topic) -> None:
    """Sent before the batch below it and never answered: it may lie anywhere above."""
    unknown(topic, exchange(topic, 10))


def be_seen_before_it_took_effect(topic: Topic) -> None:
    """The same, but a reader had one of the records before the batch below it was sent."""
    seen = unknown(topic, exchange(topic, 10))[-1]
    seen["seen_ns"] = seen["intended_ns"] + 50 * MS


def vanish_and_come_back(topic: Topic) -> None:
    """The last record, of an unknown outcome: the group saw it, a later drain did not, and the log
    holds it."""
    (row, *_) = unknown(topic, topic.log[1][-1].records[-1:])
    assert row["consumer"] == topic.reader
    topic.rows["reads"].remove(topic.reads_of(topic.drain, 1)[-1])


def read_a_key_the_wrong_way_round(topic: Topic) -> None:
    """A late reader is given two records of one key, each at the other's offset; another one of
    that key lies between them."""
    rows = topic.reads_of(topic.drain, 0)
    first, between, second = [row for row in rows if row["key"] == rows[0]["key"]][:3]
    assert first["producer"] == second["producer"] != between["producer"]
    for row in rows:
        row["seen_ns"] += 10_000 * MS
    for name in first:
        if name not in ("position", "offset", "seen_ns"):
            first[name], second[name] = second[name], first[name]


REAL_TIME_MUTATIONS: tuple[Mutation, ...] = (
    Mutation("overtaken", "idempotent", append_before_what_was_acknowledged, {("V20", OVERTAKEN): BATCH}),
    Mutation("overtaken-once", "idempotent", be_sent_after_the_next, {("V20", OVERTAKEN): 1}),
    Mutation("clean-overtaken-alone", "plain", append_before_what_one_acknowledged, {}),
    Mutation("clean-late", "idempotent", take_effect_late, {}),
    Mutation("seen-early", "idempotent", be_seen_before_it_took_effect, {("V20", OVERTAKEN): BATCH}),
    Mutation(
        "came-back",
        "idempotent",
        vanish_and_come_back,
        {("V10", "never delivered to a drain"): 1, ("V20", MISSED): 1},
    ),
    Mutation(
        "key-turned",
        "idempotent",
        read_a_key_the_wrong_way_round,
        {("V03", "another record or value"): 2, ("V20", KEY_ORDER): 2},
    ),
)
EXACTLY: dict[str, set[tuple[int, int]]] = {
    "overtaken": {(0, 2 * BATCH + n) for n in range(BATCH)},
    "overtaken-once": {(0, 7)},
    "seen-early": {(0, 10 * BATCH + n) for n in range(BATCH)},
    "came-back": {(1, 12 * BATCH - 1)},
    "key-turned": {(0, 5), (0, 12)},
}
"""Partition and offset of each record that V20 must name."""
