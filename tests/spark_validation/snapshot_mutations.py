"""Mutations of the producer snapshot at the second segment of a partition."""

from collections.abc import Callable

from msgspec.structs import replace

from kbroker.io.files.producer_snapshot import BatchMetadata, ProducerEntry
from tests.io.files.snapshot_bytes import encode
from tests.spark_validation.mutation import Mutation
from tests.spark_validation.world import BATCH, MS, START_NS, Topic

SEGMENT = 10  # batches of the first one
Spoil = Callable[[ProducerEntry], ProducerEntry | None]


def snapshot(spoil: Spoil = lambda entry: entry, flip: bool = False) -> Callable[[Topic], None]:
    """spoil: changes the first producer's entry, or leaves it out."""

    def mutate(topic: Topic) -> None:
        entries: dict[int, ProducerEntry] = {}
        for batch in topic.log[0][:SEGMENT]:
            known = entries.get(batch.producer_id, ProducerEntry(batch.producer_id, 0))
            if batch.control is None:
                last = batch.sequence + len(batch.records) - 1
                made = BatchMetadata(batch.sequence, last, batch.base, batch.end - 1, batch.records[-1].stamp)
                begun = batch.base if batch.transactional else -1
                known = replace(known, batches=(made,), current_txn_first_offset=begun)
                known = replace(known, last_timestamp=made.timestamp)
            else:
                known = replace(known, coordinator_epoch=0, current_txn_first_offset=-1)
                known = replace(known, last_timestamp=START_NS // MS)
            entries[batch.producer_id] = known
        first, *others = entries.values()
        spoilt = spoil(first)
        data = bytearray(encode([*([spoilt] if spoilt else []), *others]))
        data[12] ^= flip
        topic.files[f"{topic.log[0][SEGMENT].base:020d}.snapshot"] = bytes(data)

    return mutate


def older(entry: ProducerEntry) -> ProducerEntry:
    last = entry.batches[-1]
    return replace(
        entry,
        batches=(
            BatchMetadata(
                last.base_sequence - BATCH,
                last.last_sequence - BATCH,
                last.base_offset - 2 * BATCH,
                last.last_offset - 2 * BATCH,
                last.timestamp,
            ),
        ),
    )


def other_sequence(entry: ProducerEntry) -> ProducerEntry:
    last = entry.batches[-1]
    return replace(entry, batches=(replace(last, last_sequence=last.last_sequence + 1),))


def left_open(entry: ProducerEntry) -> ProducerEntry:
    return replace(entry, current_txn_first_offset=0)


def left_out(_entry: ProducerEntry) -> None:
    """A producer that repeats its last batch is not known any more."""


def earlier_coordinator(entry: ProducerEntry) -> ProducerEntry:
    return replace(entry, coordinator_epoch=-1)


def aged(by_ms: int) -> Spoil:
    """It expires at another time than the producer's last record makes it."""
    return lambda entry: replace(entry, last_timestamp=entry.last_timestamp - by_ms)


TIME = ("V13", ".snapshot has the time N, there is N")
SNAPSHOT_MUTATIONS: tuple[Mutation, ...] = (
    Mutation("clean-snapshot", "idempotent", snapshot(), {}),
    Mutation("clean-snapshot-transactional", "transactional", snapshot(), {}),
    Mutation("snapshot-damaged", "idempotent", snapshot(flip=True), {("V13", ".snapshot cannot be read"): 1}),
    Mutation(
        "snapshot-older", "idempotent", snapshot(older), {("V13", ".snapshot ends at N, below its batch"): 1}
    ),
    Mutation(
        "snapshot-sequence",
        "idempotent",
        snapshot(other_sequence),
        {("V13", ".snapshot has the last sequence number N, there is N"): 1},
    ),
    Mutation("snapshot-late", "idempotent", snapshot(aged(-1)), {TIME: 1}),
    Mutation("snapshot-early", "transactional", snapshot(aged(1)), {TIME: 1}),
    Mutation(
        "snapshot-open",
        "transactional",
        snapshot(left_open),
        {("V13", ".snapshot has an open transaction from N, which a marker ended"): 1},
    ),
    Mutation(
        "snapshot-lacks", "idempotent", snapshot(left_out), {("V13", ".snapshot lacks the producer N"): 1}
    ),
    Mutation(
        "snapshot-coordinator",
        "transactional",
        snapshot(earlier_coordinator),
        {("V13", ".snapshot has the coordinator epoch -N, there is N"): 1},
    ),
)
SNAPSHOTS: dict[str, tuple[str, set[tuple[int, int | None]]]] = {
    "snapshot-older": ("V13", {(0, 9 * BATCH - 1)}),
    "snapshot-sequence": ("V13", {(0, 9 * BATCH - 1)}),
    "snapshot-lacks": ("V13", {(0, 9 * BATCH - 1)}),
    "snapshot-late": ("V13", {(0, 9 * BATCH - 1)}),
    "snapshot-early": ("V13", {(0, 5 * (BATCH + 1) - 1)}),
    "snapshot-open": ("V13", {(0, 5 * (BATCH + 1) - 1)}),
    "snapshot-coordinator": ("V13", {(0, 5 * (BATCH + 1) - 1)}),
}
"""As OUTSIDE."""
