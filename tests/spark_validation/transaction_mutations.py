"""Mutations of transactions whose producers were killed: no row says how they ended."""

from copy import deepcopy

from kbroker.protocol.records import ControlType
from loadtest.record import MEANT_TO_ABORT
from spark_validation.checks.markers import RISES
from spark_validation.checks.producer_ids import RENUMBERED
from spark_validation.checks.stable_reads import WITHIN
from tests.spark_validation.mutation import Mutation
from tests.spark_validation.world import (
    BATCH,
    MS,
    Batch,
    Record,
    Topic,
    read_everything,
    send_row,
    transaction_row,
)


def killed(topic: Topic, has_rows: bool = True, spread: bool = True, flags: int = 0) -> int:
    """The first producer is killed in a last transaction over both partitions, which is aborted
    then; gives its number.

    has_rows: its sends have rows. spread: numbers of both partitions overlap. A transaction without
    a row."""
    producer = topic.producers[0]
    topic.killed.append(producer)
    number = 1 + max(row["transaction"] for row in topic.rows["transactions"] if row["producer"] == producer)
    seq = 1 + max(row["seq"] for row in topic.rows["sends"] if row["producer"] == producer)
    began = max(row["intended_ns"] for row in topic.rows["sends"]) + 100 * MS
    for partition in topic.log:
        own = [r for _, r, _ in topic.records(partition) if r.producer == producer]
        first, at = own[-1].partition_seq + 1, topic.log[partition][-1].end
        records = [
            Record(
                producer,
                seq + (2 * n + partition if spread else n + BATCH * partition),
                first + n,
                (first + n) % 7 * 2 + partition,
                began + n * MS,
                1 | flags,
            )
            for n in range(BATCH)
        ]
        batch = Batch(at, records, producer + 100, first, True)
        topic.log[partition] += [batch, Batch(batch.end, [], producer + 100, control=ControlType.ABORT)]
        if has_rows:
            topic.rows["sends"] += [
                send_row(topic, partition, at + n, record, number) for n, record in enumerate(records)
            ]
    read_everything(topic)
    return number


def dies(topic: Topic) -> None:
    killed(topic)


def dies_unseen(topic: Topic) -> None:
    killed(topic, has_rows=False)


def contradicts(has_rows: bool, spread: bool):  # type: ignore[no-untyped-def]
    def mutate(topic: Topic) -> None:
        killed(topic, has_rows, spread)
        topic.log[1][-1].control = ControlType.COMMIT
        read_everything(topic)

    return mutate


def marker_missing(has_rows: bool):  # type: ignore[no-untyped-def]
    def mutate(topic: Topic) -> None:
        killed(topic, has_rows)
        topic.log[1].pop()
        read_everything(topic)
        late_reads(topic)

    return mutate


def late_reads(topic: Topic) -> None:
    """read_committed does not get behind the last stable offset."""
    begin = topic.log[1][-1].base
    topic.rows["reads"] = [
        row
        for row in topic.rows["reads"]
        if row["consumer"] == topic.drain or row["partition"] == 0 or row["offset"] < begin
    ]


def committed_against_its_will(topic: Topic) -> None:
    killed(topic, flags=MEANT_TO_ABORT)
    for partition in topic.log:
        topic.log[partition][-1].control = ControlType.COMMIT
    read_everything(topic)


def never_ends(topic: Topic) -> None:
    """No marker at all, long after its time-out."""
    killed(topic)
    for partition in topic.log:
        topic.log[partition].pop()
    begin = {partition: topic.log[partition][-1].base for partition in topic.log}
    read_everything(topic)
    topic.rows["reads"] = [
        row
        for row in topic.rows["reads"]
        if row["consumer"] == topic.drain or row["offset"] < begin[row["partition"]]
    ]


def show_the_aborted(topic: Topic) -> None:
    """read_committed is given a record of the killed producer's transaction."""
    killed(topic)
    batch = topic.log[0][-2]
    given = next(row for row in topic.reads_of(topic.drain, 0) if row["offset"] == batch.base)
    topic.rows["reads"].append(given | {"consumer": topic.committed_drain})


def commit_with_the_next_life(topic: Topic) -> None:
    """What a killed producer left is not aborted: the commit of the life that took over ends it as
    well."""
    killed(topic, has_rows=False)
    del topic.log[1][-2:]
    topic.log[0].pop()
    left, producer = topic.log[0][-1], topic.producers[1]
    own = [row for row in topic.rows["sends"] if row["producer"] == producer]
    number = 1 + max(row["transaction"] for row in own)
    seq = 1 + max(row["seq"] for row in own)
    first = [r for _, r, _ in topic.records() if r.producer == producer][-1].partition_seq + 1
    began = left.records[-1].intended_ns + 100 * MS
    records = [
        Record(producer, seq + n, first + n, (first + n) % 7 * 2, began + n * MS, 1) for n in range(BATCH)
    ]
    data = Batch(left.end, records, left.producer_id, 0, True, producer_epoch=1)
    marker = Batch(data.end, [], left.producer_id, control=ControlType.COMMIT, producer_epoch=1)
    topic.log[0] += [data, marker]
    topic.rows["sends"] += [
        send_row(topic, 0, data.base + n, record, number) for n, record in enumerate(records)
    ]
    topic.rows["transactions"].append(transaction_row(records, number, False))
    read_everything(topic)


def unknown_in_part(topic: Topic) -> None:
    """A transaction of unknown outcome, over both partitions by its number, committed in one of
    them."""
    number = killed(topic)
    rows = [row for row in topic.rows["sends"] if row["transaction"] == number]
    own = [row for row in rows if row["producer"] == topic.producers[0]]
    like = next(row for row in topic.rows["transactions"] if row["producer"] == topic.producers[0])
    seqs = [row["seq"] for row in own]
    topic.rows["transactions"].append(
        like | {"transaction": number, "first_seq": min(seqs), "last_seq": max(seqs), "outcome": 2}
    )
    topic.log[1][-1].control = ControlType.COMMIT
    read_everything(topic)


def ends_otherwise_later(topic: Topic) -> None:
    """The earlier copy of the log had it aborted, in all partitions."""
    killed(topic)
    topic.earlier = deepcopy(topic.log)
    for partition in topic.log:
        topic.log[partition][-1].control = ControlType.COMMIT
    read_everything(topic)


HALF = "committed in one partition, aborted in another"
UNFINISHED = "ended in one partition, still open in another"
TRANSACTION_MUTATIONS: tuple[Mutation, ...] = (
    Mutation("clean-killed", "transactional", dies, {}),
    Mutation("clean-killed-unseen", "transactional", dies_unseen, {}),
    Mutation("half-committed", "transactional", contradicts(True, True), {("V11", HALF): 2 * BATCH}),
    Mutation("half-unseen", "transactional", contradicts(False, True), {("V11", HALF): 2 * BATCH}),
    Mutation("half-apart", "transactional", contradicts(False, False), {("V11", HALF): 2 * BATCH}),
    Mutation("half-unknown", "transactional", unknown_in_part, {("V11", HALF): 2 * BATCH}),
    Mutation(
        "marker-missing",
        "transactional",
        marker_missing(True),
        {("V11", UNFINISHED): BATCH, ("V11", "never ended in the log"): BATCH},
    ),
    Mutation(
        "marker-missing-unseen",
        "transactional",
        marker_missing(False),
        {("V11", UNFINISHED): BATCH, ("V11", "never ended in the log"): BATCH},
    ),
    Mutation(
        "against-its-will",
        "transactional",
        committed_against_its_will,
        {("V11", "meant to be aborted, but committed in the log"): 2 * BATCH},
    ),
    Mutation("never-ends", "transactional", never_ends, {("V11", "never ended in the log"): 2 * BATCH}),
    Mutation(
        "committed-by-the-next",
        "transactional",
        commit_with_the_next_life,
        {
            ("V11", "one marker ended two producers' records"): 1,
            ("V11", WITHIN): 2 * BATCH,  # two readers had them long before that marker
            ("V07", RISES): 1,  # that life's epoch is the next one
            ("V07", RENUMBERED): 1,  # the other life has a transactional id of its own
        },
    ),
    Mutation(
        "ended-otherwise",
        "transactional",
        ends_otherwise_later,
        {("V14", "its transaction ended otherwise"): 2 * BATCH},
    ),
    Mutation("aborted-shown", "transactional", show_the_aborted, {("V11", "aborted in the log"): 1}),
)
