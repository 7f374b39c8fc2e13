"""Mutations within a batch: what it holds is not what its header, its acknowledgement and its
readers say."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kbroker.protocol.compression import Codec
from loadtest.record import key_bytes, sealed
from spark_validation.checks.batches import UNASKED_ID
from spark_validation.checks.places import OTHER_RUN
from spark_validation.segments import layout
from tests.spark_validation.mutation import Expected, Mutation
from tests.spark_validation.random_logs import Made, batch
from tests.spark_validation.world import BATCH, RUN, START_NS, Batch, Record, Topic, patched

READERS = 3
AT = 4  # a batch of partition 0
FIRST = AT * BATCH
Rewrite = Callable[[list[Made]], list[Made]]


@dataclass
class Rewritten(Batch):
    """A batch that is written with other records than it was made of."""

    rewrite: Rewrite = field(kw_only=True)

    def bytes(self, codec: Codec) -> bytes:
        plain = [
            Made(n, r.stamp, key_bytes(r.key), None if r.tombstone else r.bytes(), r.all_headers())
            for n, r in enumerate(self.records)
        ]
        stamps = [record.timestamp_ms for record in plain]
        made = batch(
            self.base,
            self.rewrite(plain),
            last_delta=len(plain) - 1,
            attributes=int(codec) | (layout.TRANSACTIONAL if self.transactional else 0),
            base_timestamp=stamps[0],
            max_timestamp=max(stamps),
            epoch=self.leader_epoch,
            producer=(self.producer_id, self.producer_epoch if self.producer_id >= 0 else -1, self.sequence),
            dice=random.Random(0),
        )
        return patched(made, self.patch)


def rewritten(how: Rewrite, **fields: int) -> Callable[[Topic], None]:
    """Of batch AT, after everybody had read it."""

    def mutate(topic: Topic) -> None:
        before = topic.log[0][AT]
        topic.log[0][AT] = Rewritten(**vars(before) | {"patch": fields}, rewrite=how)

    return mutate


def unpackable(codec: int) -> Callable[[Topic], None]:
    """A plain batch says that it is compressed."""

    def mutate(topic: Topic) -> None:
        topic.codec = Codec.NONE
        topic.log[0][AT].patch = {"attributes": codec}

    return mutate


def change(**fields: Any) -> Rewrite:
    """Of the third record."""
    return lambda made: [*made[:2], made[2]._replace(**fields), *made[3:]]


def change_value(how: Callable[[bytes], bytes]) -> Rewrite:
    return lambda made: change(value=how(made[2].value or b""))(made)


def drop(made: list[Made]) -> list[Made]:
    return [*made[:2], *made[3:]]


def swap_values(made: list[Made]) -> list[Made]:
    """Of the second and third record; keys and timestamps stay."""
    return [
        made[0],
        made[1]._replace(value=made[2].value),
        made[2]._replace(value=made[1].value),
        *made[3:],
    ]


def repeat(made: list[Made]) -> list[Made]:
    """The second one again, where the third one was."""
    return [*made[:2], made[1]._replace(delta=2), *made[3:]]


def cross_offsets(made: list[Made]) -> list[Made]:
    return [made[0], made[1]._replace(delta=2), made[2]._replace(delta=1), *made[3:]]


def repeat_offset(made: list[Made]) -> list[Made]:
    """The third record has the offset of the second one."""
    return change(delta=1)(made)


def of_another_run(value: bytes) -> bytes:
    """The same record, with the number of another run and a checksum that fits."""
    return sealed(value[4:8] + (RUN + 1).to_bytes(4) + value[12:])


def append_a_strange_value(topic: Topic) -> None:
    """Nobody of the run sent it, and nobody was given it."""
    record = Record(topic.producers[0], 500, 500, 2, START_NS, value=b"of somebody else")
    topic.log[0].append(Batch(topic.log[0][-1].end, [record], 77_000, 0))


def move_all_timestamps(topic: Topic) -> None:
    """By one millisecond, and the highest one with them."""
    own = topic.log[0][AT]
    first, last = own.records[0].stamp, own.records[-1].stamp
    own.patch = {"base_timestamp": first - 1, "max_timestamp": last - 1}


def raise_the_max_timestamp(topic: Topic) -> None:
    own = topic.log[0][AT]
    own.patch = {"max_timestamp": own.records[-1].stamp + 1}


def number_a_plain_batch(topic: Topic) -> None:
    topic.log[0][AT].patch = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}


V02, V03, V07 = "V02", "V03", "V07"
DIVERGED = (V03, "another record or value")
ONE_GONE: Expected = {
    ("V01", "nothing at its offset"): 1,
    (V03, "not in the log"): READERS,
    ("V15", "missing offsets"): 1,
}
ALL_GONE: Expected = {
    ("V01", "nothing at its offset"): BATCH,
    (V03, "not in the log"): READERS * BATCH,
    ("V15", "missing offsets"): 1,
    (V07, "records not readable"): 1,
}
ALTERED: Expected = {(V02, "altered value"): 1, DIVERGED: READERS}
REPLACED: Expected = {(V02, OTHER_RUN): 1, DIVERGED: READERS}
OTHER_KEY: Expected = {(V02, "another key"): 1, DIVERGED: READERS}
BATCH_MUTATIONS: tuple[Mutation, ...] = (
    Mutation("clean-rewritten", "idempotent", rewritten(lambda made: made), {}),
    Mutation(
        "dropped-within",
        "idempotent",
        rewritten(drop),
        {**ONE_GONE, (V07, "count is not the offsets'"): 1, (V07, "sequence numbers do not follow"): 1},
    ),
    Mutation(
        "dropped-uncounted",
        "idempotent",
        rewritten(drop, record_count=BATCH),
        {**ONE_GONE, (V07, "records not readable"): 1},
    ),
    Mutation(
        "values-swapped",
        "idempotent",
        rewritten(swap_values),
        {(V02, "another record"): 2, DIVERGED: 2 * READERS, ("V06", "producer steps back"): 1},
    ),
    Mutation(
        "twice-within",
        "idempotent",
        rewritten(repeat),
        {(V02, "another record"): 1, DIVERGED: READERS, ("V04", "at two offsets"): 1},
    ),
    Mutation(
        "offsets-crossed",
        "idempotent",
        rewritten(cross_offsets),
        {
            (V02, "another record"): 2,
            DIVERGED: 2 * READERS,
            ("V06", "producer steps back"): 1,
            (V07, "offsets of records wrong"): 1,
        },
    ),
    Mutation(
        "offset-twice",
        "idempotent",
        rewritten(repeat_offset),
        {
            ("V01", "nothing at its offset"): 1,
            (V02, "another record"): 1,
            (V03, "not in the log"): READERS,
            DIVERGED: READERS,
            (V07, "offsets of records wrong"): 1,
        },
    ),
    Mutation("key-null", "idempotent", rewritten(change(key=None)), OTHER_KEY),
    Mutation("key-empty", "idempotent", rewritten(change(key=b"")), OTHER_KEY),
    Mutation("value-null", "idempotent", rewritten(change(value=None)), ALTERED),
    Mutation("value-empty", "idempotent", rewritten(change(value=b"")), ALTERED),
    Mutation("value-short", "idempotent", rewritten(change_value(lambda value: value[:-1])), ALTERED),
    Mutation("value-long", "idempotent", rewritten(change_value(lambda value: value + b"x")), ALTERED),
    Mutation("of-another-run", "idempotent", rewritten(change_value(of_another_run)), REPLACED),
    Mutation(
        "strange-value",
        "idempotent",
        append_a_strange_value,
        {("V05", "not a record of this run"): 1, ("V10", "never delivered to a drain"): 2},
    ),
    Mutation("codec-wrong", "idempotent", unpackable(int(Codec.GZIP)), ALL_GONE),
    Mutation("codec-unknown", "idempotent", unpackable(7), {**ALL_GONE, (V07, "unknown attributes"): 1}),
    Mutation(
        "timestamps-moved",
        "idempotent",
        move_all_timestamps,
        {(V02, "another timestamp"): BATCH, DIVERGED: READERS * BATCH},
    ),
    Mutation(
        "max-timestamp-one",
        "idempotent",
        raise_the_max_timestamp,
        {(V07, "max timestamp is not its records'"): 1},
    ),
    Mutation("plain-numbered", "plain", number_a_plain_batch, {(V07, UNASKED_ID): 1}),
)
THIRD: set[tuple[int, int | None]] = {(0, FIRST + 2)}
BATCHES: dict[str, tuple[str, set[tuple[int, int | None]]]] = {
    "dropped-within": ("V01", THIRD),
    "dropped-uncounted": ("V01", THIRD),
    "values-swapped": (V02, {(0, FIRST + 1), (0, FIRST + 2)}),
    "twice-within": ("V04", THIRD),
    "offsets-crossed": (V02, {(0, FIRST + 1), (0, FIRST + 2)}),
    "offset-twice": ("V01", THIRD),
    "key-null": (V02, THIRD),
    "key-empty": (V02, THIRD),
    "value-null": (V02, THIRD),
    "value-empty": (V02, THIRD),
    "value-short": (V02, THIRD),
    "value-long": (V02, THIRD),
    "of-another-run": (V02, THIRD),
    "strange-value": ("V05", {(0, 60)}),
    "codec-wrong": ("V01", {(0, FIRST + n) for n in range(BATCH)}),
    "timestamps-moved": (V02, {(0, FIRST + n) for n in range(BATCH)}),
    "max-timestamp-one": (V07, {(0, FIRST)}),
    "plain-numbered": (V07, {(0, FIRST)}),
}
"""As OUTSIDE."""
