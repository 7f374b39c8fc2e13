"""Consume, transform, produce: a topic whose outputs are copies of another one's records, and how
that goes wrong."""

from collections.abc import Callable

from tests.spark_validation.world import BATCH, Topic, commit_row


def copy_from(source: str) -> Callable[[Topic], None]:
    """A clean consume-transform-produce of partition 0 of a topic: its committed outputs are
    copies, one to one."""

    def mutate(topic: Topic) -> None:
        offset = 0
        topic.copied_from, topic.copied_until = source, 2 * BATCH
        for row in topic.rows["sends"]:
            outcome = next(
                t["outcome"]
                for t in topic.rows["transactions"]
                if (t["producer"], t["transaction"]) == (row["producer"], row["transaction"])
            )
            if outcome == 0 and offset < 2 * BATCH:
                topic.rows["copies"].append(
                    copy_row(topic, row["producer"], row["seq"], row["transaction"], source, offset)
                )
                offset += 1
        topic.rows["commits"].append(
            commit_row(topic, 0, 0, topic.copied_until, 3)
            | {"consumer": topic.reader + 3, "group": topic.copiers, "topic": source}
        )

    return mutate


def copy_row(
    topic: Topic, producer: int, seq: int, transaction: int, source: str, offset: int
) -> dict[str, object]:
    what = {"group": topic.copiers, "input_topic": source, "input_partition": 0, "input_offset": offset}
    return {"producer": producer, "seq": seq, "transaction": transaction} | what


def copy_twice(topic: Topic) -> None:
    copy_from("twice-source")(topic)
    topic.rows["copies"].append(topic.rows["copies"][3] | {"seq": topic.rows["copies"][-1]["seq"] + 1})


def copy_all_but_one(topic: Topic) -> None:
    copy_from("missing-source")(topic)
    topic.rows["copies"].pop(4)
