"""Mutations of what a record and its batch carry besides place, identity and value."""

from kbroker.protocol.records import ControlType
from loadtest.record import header_sum
from tests.spark_validation.mutation import Mutation
from tests.spark_validation.world import BATCH, MS, Batch, Topic, read_everything

HEADERS: tuple[tuple[str, bytes | None], ...] = (("a", b"1"), ("b", None), ("a", b""), ("", b"4"))


def send_headers(topic: Topic) -> None:
    """Every record has headers, with null, empty and repeated ones among them."""
    for partition in topic.log:
        for _, record, _ in topic.records(partition):
            record.headers = HEADERS
    for row in topic.rows["sends"]:
        row["header_sum"] = header_sum(HEADERS)
    read_everything(topic)


def change_headers(headers: tuple[tuple[str, bytes | None], ...]):  # type: ignore[no-untyped-def]
    def mutate(topic: Topic) -> None:
        send_headers(topic)
        topic.records()[7][1].headers = headers
        read_everything(topic)

    return mutate


def deliver_other_headers(topic: Topic) -> None:
    send_headers(topic)
    topic.reads_of(topic.reader, 0)[9]["header_sum"] += 1


def another_timestamp(topic: Topic) -> None:
    topic.records()[7][1].timestamp_ms = topic.records()[7][1].stamp - 1
    read_everything(topic)


def another_key_of_an_unknown_one(topic: Topic) -> None:
    _, record, _ = topic.records()[7]
    topic.sent(record.producer, record.seq).update({"status": 2, "offset": -1})
    record.key += 2
    read_everything(topic)


def another_key_without_a_row(topic: Topic) -> None:
    """Its client was killed: what is known is that a key has its partition."""
    _, record, _ = topic.records()[55]
    topic.rows["sends"].remove(topic.sent(record.producer, record.seq))
    topic.killed.append(record.producer)
    record.key += 1
    read_everything(topic)


def too_early_without_a_row(topic: Topic) -> None:
    _, record, _ = topic.records()[55]
    topic.rows["sends"].remove(topic.sent(record.producer, record.seq))
    topic.killed.append(record.producer)
    record.timestamp_ms = record.stamp - 5000
    read_everything(topic)


def silent_key(topic: Topic) -> None:
    """Its producer asks for no acknowledgement, and gets no offsets."""
    topic.acks = "0"
    for row in topic.rows["sends"]:
        row["offset"] = -1
    topic.records()[7][1].key += 2
    read_everything(topic)


def append_times(topic: Topic) -> None:
    """The broker sets the timestamps: each batch has that of its append."""
    topic.config["message.timestamp.type"] = "LogAppendTime"
    for partition in topic.log:
        for batch in topic.log[partition]:
            if batch.control is None:
                batch.append_ms = batch.records[-1].intended_ns // MS + 2
    restamp(topic)


def restamp(topic: Topic) -> None:
    read_everything(topic)
    at = {(p, offset): batch.append_ms for p in topic.log for offset, _, batch in topic.records(p)}
    for row in topic.rows["reads"]:
        row["timestamp_ms"] = at[row["partition"], row["offset"]] or row["timestamp_ms"]


def append_time_back(topic: Topic) -> None:
    append_times(topic)
    topic.log[0][6].append_ms -= 200  # type: ignore[operator]
    restamp(topic)


def append_time_wrong(topic: Topic) -> None:
    append_times(topic)
    topic.log[0][-1].append_ms += 60_000  # type: ignore[operator]
    restamp(topic)


def append_time_unknown(topic: Topic) -> None:
    """Of records whose sends have no answer: after the end of the run."""
    append_times(topic)
    for _, record, _ in topic.records()[-BATCH:]:
        topic.sent(record.producer, record.seq).update({"status": 2, "offset": -1})
    topic.log[0][-1].append_ms += 200_000  # type: ignore[operator]
    restamp(topic)


def append_time_ahead(topic: Topic) -> None:
    append_times(topic)
    topic.log[0][6].append_ms += 500  # type: ignore[operator]
    restamp(topic)


def own_times(topic: Topic) -> None:
    append_times(topic)
    topic.log[0][6].append_ms = None
    restamp(topic)


def patch(at: int, **fields: int):  # type: ignore[no-untyped-def]
    def mutate(topic: Topic) -> None:
        topic.log[0][at].patch = fields

    return mutate


def begin_late(topic: Topic) -> None:
    """The first batch of a producer: one of its records is missing before."""
    for batch in topic.log[0]:
        if batch.producer_id == topic.log[0][0].producer_id:
            batch.sequence += BATCH


def bump_an_epoch(topic: Topic) -> None:
    """A new epoch restarts its numbers."""
    first = topic.log[0][6].sequence
    for batch in topic.log[0][6::2]:
        batch.producer_epoch = 1
        batch.sequence -= first


def bump_without_zero(topic: Topic) -> None:
    for batch in topic.log[0][6::2]:
        batch.producer_epoch = 1


def write_when_fenced(topic: Topic) -> None:
    """A marker has the next epoch, and the producer it fenced writes on."""
    marker = next(batch for batch in topic.log[0] if batch.control is not None)
    marker.producer_epoch = 1


def time_index(topic: Topic, spoiled: bool = False) -> None:
    """An entry for every other batch of both segments of partition 0."""
    for first in (0, 10):
        entries = b""
        segment = topic.log[0][first : first + 10]
        for batch in segment[1::2]:
            stamp = max(record.stamp for record in batch.records) + (spoiled and batch is topic.log[0][5])
            entries += stamp.to_bytes(8) + (batch.end - 1 - segment[0].base).to_bytes(4)
        topic.files[f"{segment[0].base:020d}.timeindex"] = entries + bytes(24)


def torn_index(topic: Topic) -> None:
    time_index(topic)
    found = topic.files[f"{0:020d}.timeindex"] or b""
    topic.files[f"{0:020d}.timeindex"] = found.rstrip(b"\0") + b"\0\0\0\1"


def aborted_index(topic: Topic, spoiled: int = 0, begins: int = 0, stable: int = 0) -> None:
    """Entries of each segment's abort markers; `spoiled` is added to the markers' offsets in the
    first segment's, `begins` to those of the first records, `stable` to the last stable offset."""
    first: dict[int, int] = {}
    for at in range(0, len(topic.log[0]), 10):
        entries, segment = b"", topic.log[0][at : at + 10]
        for batch in segment:
            if batch.control is None:
                first.setdefault(batch.producer_id, batch.base)
                continue
            begin = first.pop(batch.producer_id, batch.base)
            if batch.control == ControlType.ABORT:
                wrong = spoiled if at == 0 else 0
                early = begins if at == 0 else 0
                high = batch.end + (stable if at == 0 else 0)
                numbers = (batch.producer_id, begin + early, batch.base + wrong, high)
                entries += (0).to_bytes(2) + b"".join(number.to_bytes(8) for number in numbers)
        topic.files[f"{segment[0].base:020d}.txnindex"] = entries


def no_aborted_file(topic: Topic) -> None:
    """Of the first segment, though the others have theirs."""
    aborted_index(topic)
    del topic.files[f"{0:020d}.txnindex"]


def number_nothing(topic: Topic) -> None:
    """The first batch has no producer id, though its producer is idempotent."""
    first = topic.log[0][0]
    first.producer_id = first.sequence = -1
    for batch in topic.log[0][2::2]:
        batch.sequence -= BATCH


def no_aborted_entry(topic: Topic) -> None:
    aborted_index(topic)
    topic.files[f"{0:020d}.txnindex"] = b""


def marker_in_a_plain_topic(topic: Topic) -> None:
    """A control batch fills the offset after the end."""
    end = topic.log[0][-1].end
    topic.log[0].append(Batch(end, [], topic.producers[0] + 100, control=ControlType.COMMIT))
    read_everything(topic)


def ends_below_its_high_watermark(topic: Topic) -> None:
    """A record that was not acknowledged is gone from the end."""
    for offset, record, _ in topic.records()[-BATCH:]:
        topic.sent(record.producer, record.seq).update({"status": 2, "offset": -1})
        assert offset
    topic.log[0].pop()
    read_everything(topic)
    topic.high_watermark = topic.log[0][-1].end + BATCH


V07, V02 = "V07", "V02"
FIELD_MUTATIONS: tuple[Mutation, ...] = (
    Mutation("clean-headers", "idempotent", send_headers, {}),
    Mutation("clean-append-time", "idempotent", append_times, {}),
    Mutation("clean-bumped", "idempotent", bump_an_epoch, {}),
    Mutation("clean-time-index", "idempotent", time_index, {}),
    Mutation("headers-order", "idempotent", change_headers(HEADERS[::-1]), {(V02, "other headers"): 1}),
    Mutation(
        "headers-null",
        "idempotent",
        change_headers((("a", b"1"), ("b", b""), ("a", b""), ("", b"4"))),
        {(V02, "other headers"): 1},
    ),
    Mutation("headers-once", "idempotent", change_headers(HEADERS[:2]), {(V02, "other headers"): 1}),
    Mutation("headers-gone", "idempotent", change_headers(()), {(V02, "other headers"): 1}),
    Mutation("headers-read", "idempotent", deliver_other_headers, {("V03", "another record or value"): 1}),
    Mutation("timestamp", "idempotent", another_timestamp, {(V02, "another timestamp"): 1}),
    Mutation("key-unknown", "idempotent", another_key_of_an_unknown_one, {(V02, "another key"): 1}),
    Mutation("key-without-row", "idempotent", another_key_without_a_row, {(V02, "another key"): 1}),
    Mutation("early-without-row", "idempotent", too_early_without_a_row, {(V02, "another timestamp"): 1}),
    Mutation("key-silent", "plain", silent_key, {(V02, "another key"): 1}),
    Mutation(
        "append-time-back",
        "idempotent",
        append_time_back,
        {(V07, "append time steps back"): 1},
    ),
    Mutation(
        "append-time-wrong",
        "idempotent",
        append_time_wrong,
        {(V02, "append time outside of its request"): BATCH},
    ),
    Mutation(
        "append-time-unknown",
        "idempotent",
        append_time_unknown,
        {(V02, "append time outside of its request"): BATCH},
    ),
    Mutation(
        "append-time-ahead",
        "idempotent",
        append_time_ahead,
        {(V07, "append time above a later one"): 1},
    ),
    Mutation("append-time-own", "idempotent", own_times, {(V07, "timestamp type is not the topic's"): 1}),
    Mutation("stray-marker", "idempotent", marker_in_a_plain_topic, {(V07, "control batch is no marker"): 1}),
    Mutation("short", "idempotent", ends_below_its_high_watermark, {("V15", "missing offsets"): 1}),
    Mutation("horizon", "idempotent", patch(3, attributes=0x40), {(V07, "unknown attributes"): 1}),
    Mutation(
        "timestamp-type",
        "idempotent",
        patch(3, attributes=0x08),
        {
            (V07, "timestamp type is not the topic's"): 1,
            (V02, "another timestamp"): BATCH - 1,
            ("V03", "another record or value"): 3 * (BATCH - 1),
        },
    ),
    Mutation(
        "max-timestamp",
        "idempotent",
        patch(3, max_timestamp=5),
        {(V07, "max timestamp is not its records'"): 1},
    ),
    Mutation("attributes", "idempotent", patch(3, attributes=0x100), {(V07, "unknown attributes"): 1}),
    Mutation(
        "transactional-bit",
        "idempotent",
        patch(11, attributes=0x10),
        {
            (V07, "transactional bit is not its producer's"): 1,
            ("V11", "still open in the log"): 2 * BATCH,
        },
    ),
    Mutation("unnumbered", "idempotent", number_nothing, {(V07, "no producer id"): 1}),
    Mutation("first-sequence", "idempotent", begin_late, {(V07, "first sequence number is not 0"): 1}),
    Mutation("epoch-not-zero", "idempotent", bump_without_zero, {(V07, "sequence numbers do not follow"): 1}),
    Mutation("fenced", "transactional", write_when_fenced, {(V07, "producer epoch steps back"): 10}),
    Mutation(
        "marker-malformed",
        "transactional",
        patch(1, producer_epoch=-1),
        {(V07, "control batch is no marker"): 1, (V07, "producer epoch steps back"): 1},
    ),
    Mutation(
        "time-index",
        "idempotent",
        lambda topic: time_index(topic, True),
        {("V13", ".timeindex no record there has timestamp N"): 1},
    ),
    Mutation("torn-index", "idempotent", torn_index, {("V13", ".timeindex ends within an entry"): 1}),
    Mutation("clean-aborted-index", "transactional", aborted_index, {}),
    Mutation(
        "aborted-index",
        "transactional",
        lambda topic: aborted_index(topic, 1),
        {
            ("V13", ".txnindex no abort marker of its producer is there"): 1,
            ("V13", ".txnindex an abort marker has no entry"): 1,
        },
    ),
    Mutation(
        "aborted-index-late",
        "transactional",
        lambda topic: aborted_index(topic, begins=2),
        {("V13", ".txnindex begins at N, above the record at N"): 1},
    ),
    Mutation(
        "aborted-index-early",
        "transactional",
        lambda topic: aborted_index(topic, begins=-2 * BATCH),
        {("V13", ".txnindex begins at N, below the marker at N"): 1},
    ),
    Mutation(
        "no-aborted-file",
        "transactional",
        no_aborted_file,
        {("V13", ".txnindex an abort marker has no entry"): 1},
    ),
    Mutation(
        "aborted-stable",
        "transactional",
        lambda topic: aborted_index(topic, stable=1),
        {("V13", ".txnindex has the last stable offset N, above N"): 1},
    ),
    Mutation(
        "no-aborted-entry",
        "transactional",
        no_aborted_entry,
        {("V13", ".txnindex an abort marker has no entry"): 1},
    ),
)
