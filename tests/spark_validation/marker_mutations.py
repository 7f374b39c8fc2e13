"""Mutations of markers and of the offsets that the broker names when everything has stopped."""

from kbroker.protocol.records import ControlType
from tests.spark_validation.mutation import Mutation
from tests.spark_validation.real_time_mutations import MISSED
from tests.spark_validation.transaction_mutations import never_ends
from tests.spark_validation.world import BATCH, MS, START_NS, Batch, Record, Topic, read_everything, send_row


def shift(topic: Topic, at: int, by: int) -> None:
    """Batches from one on lie further on; acknowledgements follow them."""
    for batch in topic.log[0][at:]:
        batch.base += by
    for offset, record, _ in topic.records():
        topic.sent(record.producer, record.seq)["offset"] = offset


def marker_before_the_last_record(topic: Topic) -> None:
    """A record of a committed transaction is appended after its marker; the producer's next one
    makes it visible."""
    data, marker = topic.log[0][0], topic.log[0][1]
    late = Batch(marker.base, [data.records.pop()], data.producer_id, data.sequence + BATCH - 1, True)
    marker.base -= 1
    topic.log[0].insert(2, late)
    shift(topic, 3, 0)
    read_everything(topic)


def marker_for_two(topic: Topic) -> None:
    """The first of two transactions has no marker: that of the second one, a commit as well, ends
    both."""
    topic.log[0].pop(1)
    shift(topic, 1, -1)
    read_everything(topic)


def marker_again(kind: ControlType):  # type: ignore[no-untyped-def]
    def mutate(topic: Topic) -> None:
        end = topic.log[0][-1].end
        topic.log[0].append(Batch(end, [], topic.log[0][-1].producer_id, control=kind))
        read_everything(topic)

    return mutate


def marker_repeated(topic: Topic) -> None:
    """A commit's marker twice, as a coordinator writes it that had no answer."""
    first = topic.log[0][1]
    topic.log[0].insert(2, Batch(first.end, [], first.producer_id, control=first.control))
    shift(topic, 3, 1)
    read_everything(topic)


def marker_of_a_stranger(topic: Topic) -> None:
    """In the middle of the log, of a producer id that wrote nothing."""
    topic.log[0].insert(6, Batch(topic.log[0][6].base, [], 77_000, control=ControlType.COMMIT))
    shift(topic, 7, 1)
    read_everything(topic)


def marker_of_another_time(topic: Topic) -> None:
    marker = next(batch for batch in topic.log[0] if batch.control is not None)
    marker.patch = {"max_timestamp": 5, "base_timestamp": 5}


def stable_too_high(topic: Topic) -> None:
    never_ends(topic)
    topic.last_stable = topic.log[0][-1].end


def stable_held_back(topic: Topic) -> None:
    topic.last_stable = topic.log[0][4].base


def stable_above_the_watermark(topic: Topic) -> None:
    topic.last_stable = topic.log[0][-1].end + 3


def watermark_below_acknowledged(topic: Topic) -> None:
    topic.high_watermark = topic.log[0][-1].end - BATCH


def acknowledge_nowhere(topic: Topic) -> None:
    """As a repeat, without an offset: and it is not there."""
    ghost = Record(topic.producers[0], 300, 200, 2, START_NS)
    topic.rows["sends"].append(send_row(topic, 0, -1, ghost, -1))


def fail_at_last(topic: Topic) -> None:
    """A failed send leaves a hole in its producer's numbers, and a later one of it is in the
    log."""
    producer = topic.producers[0]
    own = [batch for batch in topic.log[0] if batch.producer_id == producer + 100]
    last = own[-1].records[-1]
    seq = 1 + max(row["seq"] for row in topic.rows["sends"] if row["producer"] == producer)
    later = [
        Record(producer, seq + n, last.partition_seq + 1 + n, 2, last.intended_ns + 1000 * MS) for n in (0, 1)
    ]
    made = Batch(topic.log[0][-1].end, later[1:], own[-1].producer_id, own[-1].sequence + BATCH)
    topic.log[0].append(made)
    read_everything(topic)
    topic.rows["sends"] += [
        send_row(topic, 0, -1, later[0], -1) | {"status": 1, "error": 10},
        send_row(topic, 0, made.base, later[1], -1),
    ]


def acknowledge_as_a_repeat(topic: Topic) -> None:
    _, record, _ = topic.records()[7]
    topic.sent(record.producer, record.seq)["offset"] = -1


FOR_TWO = "one marker ended two transactions"
BOTH_SIDES = "its transaction lies on both sides of a marker"
MARKER_MUTATIONS: tuple[Mutation, ...] = (
    Mutation("clean-failed", "idempotent", fail_at_last, {}),
    Mutation("clean-repeat", "idempotent", acknowledge_as_a_repeat, {}),
    Mutation(
        "marker-early",
        "transactional",
        marker_before_the_last_record,
        {("V11", BOTH_SIDES): 1, ("V11", FOR_TWO): 1},
    ),
    Mutation(
        "marker-for-two",
        "transactional",
        marker_for_two,
        {("V11", FOR_TWO): 1},
    ),
    Mutation(
        "marker-again",
        "transactional",
        marker_again(ControlType.COMMIT),
        {("V07", "marker ends no transaction"): 1},
    ),
    Mutation(
        "marker-repeated",
        "transactional",
        marker_repeated,
        {("V07", "marker ends no transaction"): 1},
    ),
    Mutation(
        "marker-contradicts",
        "transactional",
        marker_again(ControlType.ABORT),
        {("V07", "marker ends no transaction"): 1},
    ),
    Mutation(
        "marker-of-nobody",
        "transactional",
        marker_of_a_stranger,
        {("V07", "marker ends no transaction"): 1},
    ),
    Mutation(
        "marker-time",
        "transactional",
        marker_of_another_time,
        {("V07", "marker's time is not of the run"): 1},
    ),
    Mutation(
        "stable-high",
        "transactional",
        stable_too_high,
        {
            ("V11", "last stable offset above an open record"): 1,
            ("V11", "never ended in the log"): 2 * BATCH,
        },
    ),
    Mutation(
        "stable-behind",
        "transactional",
        stable_held_back,
        {("V10", "last stable offset held back by nothing"): 1},
    ),
    Mutation(
        "watermark-behind",
        "idempotent",
        watermark_below_acknowledged,
        {
            ("V15", "high watermark below an acknowledged record"): 1,
            ("V20", MISSED): 5,
            ("V09", "commit above the log's end"): 1,
        },
    ),
    Mutation(
        "stable-above",
        "idempotent",
        stable_above_the_watermark,
        {("V15", "last stable offset above the high watermark"): 1},
    ),
    Mutation("nowhere", "idempotent", acknowledge_nowhere, {("V01", "nowhere in the log"): 1}),
)
