"""A live member of a group, for commands that look at it or must leave it alone."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer

from tests.cli.conftest import Target


@contextmanager
def member(target: Target, topic: str, group: str, **settings: object) -> Iterator[Consumer]:
    """A live member that was assigned all partitions of the topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": target.bootstrap,
            "group.id": group,
            "client.id": "the-member",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
    )
    consumer.subscribe([topic])
    deadline = time.monotonic() + 90
    while not consumer.assignment():
        assert time.monotonic() < deadline, "no assignment"
        consumer.poll(0.1)
    yield consumer
    consumer.close()
