"""Mutations of producer ids that the broker gave to two producers."""

from tests.spark_validation.mutation import Mutation
from tests.spark_validation.world import Topic


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
)
