"""Mutations of index files that are missing or empty, of batches in another codec, and of markers
that a cleaner must keep."""

from kbroker.protocol.compression import Codec
from spark_validation.checks.batches import OTHER_CODEC
from tests.spark_validation.field_mutations import time_index
from tests.spark_validation.mutation import Mutation
from tests.spark_validation.removal_mutations import compacted, superseded
from tests.spark_validation.world import BATCH, BATCHES, Topic

ACTIVE = 10  # the first batch of the active segment


def name(batch: int, suffix: str) -> str:
    return f"{batch * BATCH:020d}{suffix}"


def lose_the_index(topic: Topic) -> None:
    topic.files[name(0, ".index")] = None


def empty_the_index(topic: Topic) -> None:
    topic.files[name(0, ".index")] = bytes(80)


def lose_the_time_index(topic: Topic) -> None:
    time_index(topic)
    topic.files[name(0, ".timeindex")] = None


def empty_the_time_index(topic: Topic) -> None:
    time_index(topic)
    topic.files[name(ACTIVE, ".timeindex")] = bytes(24)


def other(codec: Codec) -> Codec:
    return Codec.LZ4 if codec is Codec.ZSTD else Codec.ZSTD


def recompress_one(topic: Topic) -> None:
    topic.log[0][4].codec = other(topic.codec)


def recompress_all(topic: Topic) -> None:
    """By the broker's compression.type."""
    for batch in (*topic.log[0], *topic.log[1]):
        batch.codec = other(topic.codec)


def send_one_uncompressed(topic: Topic) -> None:
    topic.log[0][4].codec = Codec.NONE


def compact_transactions(topic: Topic) -> None:
    compacted(topic, superseded(topic, 20))


def compact_a_marker(topic: Topic) -> None:
    """Without it, the next marker of its producer ends this transaction, too."""
    compacted(topic, set())
    topic.log[0].remove(next(batch for batch in topic.log[0] if batch.control is not None))


V13 = "V13"
INDEX_MUTATIONS: tuple[Mutation, ...] = (
    Mutation("index-missing", "idempotent", lose_the_index, {(V13, ".index is missing"): 1}),
    Mutation("index-emptied", "idempotent", empty_the_index, {(V13, ".index holds no entry"): 1}),
    Mutation("time-index-missing", "idempotent", lose_the_time_index, {(V13, ".timeindex is missing"): 1}),
    Mutation(
        "time-index-emptied", "idempotent", empty_the_time_index, {(V13, ".timeindex holds no entry"): 1}
    ),
    Mutation("other-codec", "transactional", recompress_one, {("V07", OTHER_CODEC): 1}),
    Mutation("clean-recompressed", "idempotent", recompress_all, {}),
    Mutation("clean-uncompressed", "transactional", send_one_uncompressed, {}),
    Mutation("clean-compacted-transactions", "transactional", compact_transactions, {}),
    Mutation(
        "compacted-marker-within",
        "transactional",
        compact_a_marker,
        {("V11", "one marker ended two transactions"): 1},
    ),
)
INDEXES: dict[str, tuple[str, set[tuple[int, int | None]]]] = {
    "index-missing": (V13, {(0, 0)}),
    "index-emptied": (V13, {(0, ACTIVE * BATCH - 1)}),
    "time-index-missing": (V13, {(0, 0)}),
    "time-index-emptied": (V13, {(0, BATCHES * BATCH - 1)}),
    "other-codec": ("V07", {(0, 2 * (BATCH + 1))}),
    "compacted-marker-within": ("V11", {(0, 0)}),
}
"""As OUTSIDE."""
