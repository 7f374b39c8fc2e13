"""Transactional producers of the Python clients behind one shape, and a read_committed reader."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Protocol

from aiokafka import AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from kafka import KafkaProducer
from kafka import TopicPartition as PythonPartition
from kafka.structs import OffsetAndMetadata

PATIENCE_S = 90


class Transactional(Protocol):
    """A transactional producer; whatever it raises means that the step has failed."""

    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        """Begins the session (InitProducerId)."""

    def begin(self) -> None:
        """Begin a transaction."""

    def send(self, topic: str, partition: int, value: bytes) -> None:
        """Produce and wait for the answer."""

    def send_offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        """Commit an offset in the transaction."""

    def end(self, commit: bool) -> None:
        """Commit or abort."""

    def close(self) -> None:
        """Let go of the connection."""


class ConfluentTransactional:
    """librdkafka: transactions v1."""

    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        self._bootstrap = bootstrap
        self._producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id})
        self._producer.init_transactions(PATIENCE_S)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, partition: int, value: bytes) -> None:
        errors: list[Any] = []
        self._producer.produce(topic, value, partition=partition, on_delivery=lambda e, _: errors.append(e))
        self._producer.flush(PATIENCE_S)
        assert errors == [None], errors

    def send_offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": group})
        where = TopicPartition(topic, partition, offset)
        self._producer.send_offsets_to_transaction([where], consumer.consumer_group_metadata(), PATIENCE_S)
        consumer.close()

    def end(self, commit: bool) -> None:
        if commit:
            self._producer.commit_transaction(PATIENCE_S)
        else:
            self._producer.abort_transaction(PATIENCE_S)

    def close(self) -> None:
        del self._producer


class AioTransactional:
    """aiokafka, on a loop of its own."""

    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        self._loop = asyncio.new_event_loop()

        async def start() -> AIOKafkaProducer:
            producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=transactional_id)
            await producer.start()
            return producer

        self._producer: AIOKafkaProducer = self._run(start())

    def _run(self, step: Any) -> Any:
        return self._loop.run_until_complete(asyncio.wait_for(step, PATIENCE_S))

    def begin(self) -> None:
        self._run(self._producer.begin_transaction())

    def send(self, topic: str, partition: int, value: bytes) -> None:
        self._run(self._producer.send_and_wait(topic, value, partition=partition))

    def send_offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        self._run(self._producer.send_offsets_to_transaction({AioPartition(topic, partition): offset}, group))

    def end(self, commit: bool) -> None:
        self._run(self._producer.commit_transaction() if commit else self._producer.abort_transaction())

    def close(self) -> None:
        self._run(self._producer.stop())
        self._loop.close()


class KafkaPythonTransactional:
    """kafka-python."""

    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        self._producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=transactional_id)
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, partition: int, value: bytes) -> None:
        self._producer.send(topic, value, partition=partition).get(PATIENCE_S)

    def send_offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        offsets = {PythonPartition(topic, partition): OffsetAndMetadata(offset, "", -1)}
        self._producer.send_offsets_to_transaction(offsets, group)

    def end(self, commit: bool) -> None:
        if commit:
            self._producer.commit_transaction()
        else:
            self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.close(PATIENCE_S)


CLIENTS: Sequence[type[Transactional]] = (ConfluentTransactional, AioTransactional, KafkaPythonTransactional)


def read_to_end(
    bootstrap: str, topic: str, isolation: str = "read_committed", partition: int = 0
) -> list[bytes]:
    """Every value that a reader of this isolation level sees now, up to its end of the
    partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0)])
    values: list[bytes] = []
    deadline = time.monotonic() + PATIENCE_S
    try:
        while time.monotonic() < deadline:
            message = consumer.poll(0.5)
            if message is None:
                continue
            if (error := message.error()) is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    return values
                assert error.retriable(), error
                continue
            value = message.value()
            values.append(value if isinstance(value, bytes) else b"")
    finally:
        consumer.close()
    raise AssertionError(f"{topic}-{partition} does not end")


def committed_offset(bootstrap: str, group: str, topic: str, partition: int = 0) -> int:
    """The group's committed offset, -1001 for none."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        (found,) = consumer.committed([TopicPartition(topic, partition)], PATIENCE_S)
        return int(found.offset)
    finally:
        consumer.close()
