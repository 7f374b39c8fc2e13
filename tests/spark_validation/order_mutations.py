"""Mutations of the order of a producer's records."""

from tests.spark_validation.mutation import Mutation
from tests.spark_validation.real_time_mutations import OVERTAKEN
from tests.spark_validation.world import Topic, read_everything


def swap_two_batches(topic: Topic) -> None:
    """Records of one producer change places between two batches; acknowledgements follow them,
    headers stay."""
    first, second = topic.log[0][2], topic.log[0][4]
    first.records, second.records = second.records, first.records
    for batch in (first, second):
        for n, record in enumerate(batch.records):
            topic.sent(record.producer, record.seq)["offset"] = batch.base + n
    read_everything(topic)


def swap_within_a_batch(topic: Topic) -> None:
    """Their outcomes are unknown, so no acknowledgement says where they are to be."""
    records = topic.log[0][4].records
    for record in records[1:3]:
        topic.sent(record.producer, record.seq).update({"status": 2, "offset": -1})
    records[1], records[2] = records[2], records[1]
    read_everything(topic)


ORDER_MUTATIONS: tuple[Mutation, ...] = (
    Mutation(
        "swapped",
        "idempotent",
        swap_two_batches,
        {("V06", "producer steps back"): 1, ("V06", "key steps back"): 3, ("V20", OVERTAKEN): 10},
    ),
    Mutation(
        "swapped-plain",
        "plain",
        swap_two_batches,
        {("V06", "producer steps back"): 1, ("V06", "key steps back"): 3, ("V20", OVERTAKEN): 10},
    ),
    Mutation("swapped-within", "plain", swap_within_a_batch, {("V06", "producer steps back"): 1}),
)
