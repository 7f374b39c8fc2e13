"""All records of a partition, read by a consumer."""

import time

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)


def read(bootstrap: str, topic: str, partition: int = 0) -> list[Message]:
    """All that read_committed sees of a partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "judge",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "check.crcs": True,
        }
    )
    found: list[Message] = []
    try:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            for message in consumer.consume(500, 1.0):
                error = message.error()
                if error is None:
                    found.append(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    return found
                elif not error.retriable():
                    raise KafkaException(error)
        raise AssertionError(f"{topic} does not end")
    finally:
        consumer.close()
