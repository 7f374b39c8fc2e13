"""Mutations of producer ids that the broker gave to two producers."""

from collections.abc import Callable

from spark_validation.checks.producer_ids import MIXED, RENUMBERED
from tests.spark_validation.mutation import Mutation
from tests.spark_validation.world import Topic, read_everything


def exchange_in_one_partition(topic: Topic) -> None:
    """In partition 1 each producer has the id of the other one."""
    both = topic.producers[0] + topic.producers[1] + 200
    for batch in topic.log[1]:
        batch.producer_id = both - batch.producer_id


def begin_with_another_id(topic: Topic) -> None:
    """A producer may have several ids, one after the other."""
    for batches in topic.log.values():
        first = batches[6].sequence
        for batch in batches[6::2]:
            batch.producer_id += 50_000
            batch.sequence -= first


def give_a_batch_to_another(topic: Topic) -> None:
    """Batch 4 is under the other producer's id, and the sequence numbers of both follow each
    other."""
    log = topic.log[0]
    log[4].producer_id = topic.producers[0] + topic.producers[1] + 200 - log[4].producer_id
    due: dict[int, int] = {}
    for batch in log:
        batch.sequence = due.get(batch.producer_id, 0)
        due[batch.producer_id] = batch.sequence + len(batch.records)


def exchange_across_batches(topic: Topic) -> None:
    """The last record of a batch and the first one of the next, of the other producer, change
    places; their sends have no answer."""
    first, second = topic.log[0][4].records, topic.log[0][5].records
    for record in (first[-1], second[0]):
        topic.sent(record.producer, record.seq).update(status=2, offset=-1)
    first[-1], second[0] = second[0], first[-1]
    read_everything(topic)


def reuse_in_another_epoch(topic: Topic) -> None:
    """The last batch of partition 1 is under the other producer's id, in its next epoch."""
    last = topic.log[1][-1]
    last.producer_id = topic.producers[0] + topic.producers[1] + 200 - last.producer_id
    last.producer_epoch, last.sequence = 1, 0


def renumber(last_epoch: int) -> Callable[[Topic], None]:
    """The last transaction of partition 1 is under another id. last_epoch: of the one before."""

    def mutate(topic: Topic) -> None:
        data, marker = topic.log[1][-2:]
        own = [b for log in topic.log.values() for b in log if b.producer_id == data.producer_id]
        for batch in own:
            batch.producer_epoch = last_epoch
        another = data.producer_id + 50_000
        for batch in (data, marker):
            batch.producer_id, batch.producer_epoch = another, 0
        data.sequence = 0

    return mutate


PRODUCER_ID_MUTATIONS: tuple[Mutation, ...] = (
    Mutation("clean-two-ids", "idempotent", begin_with_another_id, {}),
    Mutation(
        "one-id-of-two",
        "idempotent",
        exchange_in_one_partition,
        {("V07", "two producers have one producer id"): 2},
    ),
    Mutation(
        "one-batch-of-another",
        "idempotent",
        give_a_batch_to_another,
        {("V07", "batch under the id of another producer"): 1},
    ),
    Mutation("records-exchanged", "idempotent", exchange_across_batches, {("V07", MIXED): 2}),
    Mutation(
        "one-id-two-epochs",
        "idempotent",
        reuse_in_another_epoch,
        {("V07", "two producers have one producer id"): 1},
    ),
    Mutation("renumbered", "transactional", renumber(0), {("V07", RENUMBERED): 1}),
    Mutation("clean-renumbered", "transactional", renumber(32_766), {}),
)
