"""Exactly-once pipes in groups of both protocols, and transactions that take too long."""

from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import TopicPartition

from tests.compat.clients.conftest import NameFactory, TopicFactory
from tests.compat.clients.python_clients import TIMEOUT_S

pytestmark = pytest.mark.compat


def transactional(bootstrap: str, transactional_id: str, **settings: object) -> confluent_kafka.Producer:
    named = {key.replace("_", "."): value for key, value in settings.items()}
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, **named}
    )
    producer.init_transactions(TIMEOUT_S)
    return producer


def values(bootstrap: str, topic: str, isolation: str) -> list[bytes]:
    """All records of partition 0 up to its end, as a consumer of that isolation level sees it."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[bytes] = []
    while (message := consumer.poll(TIMEOUT_S)) is not None and message.error() is None:
        found.append(message.value())
    assert message is not None
    assert (error := message.error()) is not None
    assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF
    consumer.close()
    return found


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_offsets_are_committed_with_the_records(
    bootstrap: str, topic: TopicFactory, fresh: NameFactory, protocol: str
) -> None:
    source, sink, group = topic(), topic(), fresh("exactly-once")
    plain = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    for number in range(10):
        plain.produce(source, b"%d" % number, partition=0)
    plain.flush(TIMEOUT_S)
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([source])
    producer = transactional(bootstrap, fresh("pipe"))

    def copy(commit: bool) -> list[int]:
        messages: list[Any] = consumer.consume(5, TIMEOUT_S)
        producer.begin_transaction()
        for message in messages:
            producer.produce(sink, message.value(), partition=0)
        position = [TopicPartition(source, 0, messages[-1].offset() + 1)]
        producer.send_offsets_to_transaction(position, consumer.consumer_group_metadata(), TIMEOUT_S)
        (producer.commit_transaction if commit else producer.abort_transaction)(TIMEOUT_S)
        return [message.offset() for message in messages]

    partition = TopicPartition(source, 0)
    assert copy(commit=True) == [0, 1, 2, 3, 4]
    assert consumer.committed([partition], TIMEOUT_S)[0].offset == 5
    assert copy(commit=False) == [5, 6, 7, 8, 9]
    assert consumer.committed([partition], TIMEOUT_S)[0].offset == 5
    consumer.seek(TopicPartition(source, 0, 5))
    assert copy(commit=True) == [5, 6, 7, 8, 9]
    assert consumer.committed([partition], TIMEOUT_S)[0].offset == 10
    consumer.close()
    assert values(bootstrap, sink, "read_committed") == [b"%d" % number for number in range(10)]


def test_a_transaction_that_takes_too_long_is_aborted_by_the_broker(
    bootstrap: str, topic: TopicFactory, fresh: NameFactory
) -> None:
    name = topic()
    producer = transactional(bootstrap, fresh("slow"), transaction_timeout_ms=5000)
    producer.begin_transaction()
    producer.produce(name, b"too slow", partition=0)
    producer.flush(TIMEOUT_S)
    Waiter(bootstrap, name).until_end_is(2)
    assert values(bootstrap, name, "read_committed") == []
    with pytest.raises(confluent_kafka.KafkaException):
        producer.commit_transaction(TIMEOUT_S)


def test_a_timeout_beyond_the_brokers_limit_is_refused(bootstrap: str, fresh: NameFactory) -> None:
    with pytest.raises(confluent_kafka.KafkaException) as failure:
        transactional(bootstrap, fresh("eternal"), transaction_timeout_ms=2_000_000)
    error: Any = failure.value.args[0]
    assert error.name() == "INVALID_TRANSACTION_TIMEOUT"


class Waiter:
    """Waits for records that no client is sent: control records."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "waiter"})
        self._partition = TopicPartition(topic, 0)

    def until_end_is(self, offset: int) -> None:
        for _ in range(240):
            if self._consumer.get_watermark_offsets(self._partition, TIMEOUT_S)[1] >= offset:
                return self._consumer.close()
            self._consumer.poll(0.5)
        raise AssertionError(f"the end of {self._partition} did not reach {offset}")
