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


PRODUCER_ID_MUTATIONS: tuple[Mutation, ...] = (
    Mutation("clean-two-ids", "idempotent", begin_with_another_id, {}),
    Mutation(
        "one-id-of-two",
        "idempotent",
        exchange_in_one_partition,
        {("V07", "two producers have one producer id"): 2},
    ),
)
