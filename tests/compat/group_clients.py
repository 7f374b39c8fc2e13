"""Consumers of one group through four client libraries, behind one small face."""

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.peer.kbroker_node import KBroker

Position = dict[int, int]
"""Partition -> offset."""


def create_topic(node: KBroker, name: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result()


def produce(node: KBroker, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap})
    for number in range(count):
        producer.produce(topic, key=str(number), value=f"value {number}")
    assert producer.flush(120) == 0


class GroupConsumer(Protocol):
    """A subscribed consumer that commits only when the test does."""

    def poll(self) -> int:
        """Take what is there within a moment; how many records."""

    def partitions(self) -> set[int]:
        """What is assigned now."""

    def commit(self) -> None:
        """Commit what has been taken."""

    def close(self) -> None:
        """Leave the group."""


class Confluent:
    """librdkafka."""

    def __init__(self, bootstrap: str, topic: str, group: str, protocol: str = "classic") -> None:
        from confluent_kafka import Consumer

        settings: dict[str, str | int | float | bool] = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        if protocol == "classic":
            settings["heartbeat.interval.ms"] = 300
        self._consumer = Consumer(settings)
        self._consumer.subscribe([topic])

    def poll(self) -> int:
        messages = self._consumer.consume(500, 0.2)
        for message in messages:
            assert message.error() is None, message.error()
        return len(messages)

    def partitions(self) -> set[int]:
        return {each.partition for each in self._consumer.assignment()}

    def commit(self) -> None:
        self._consumer.commit(asynchronous=False)

    def close(self) -> None:
        self._consumer.close()


class KafkaPython:
    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        from kafka import KafkaConsumer

        self._consumer = KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=300,
        )

    def poll(self) -> int:
        return sum(map(len, self._consumer.poll(200, 500).values()))

    def partitions(self) -> set[int]:
        return {each.partition for each in self._consumer.assignment()}

    def commit(self) -> None:
        self._consumer.commit()

    def close(self) -> None:
        self._consumer.close(autocommit=False)


class AioKafka:
    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        from aiokafka import AIOKafkaConsumer

        self._loop = asyncio.new_event_loop()

        async def start() -> AIOKafkaConsumer:
            consumer = AIOKafkaConsumer(
                topic,
                bootstrap_servers=bootstrap,
                group_id=group,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                heartbeat_interval_ms=300,
                session_timeout_ms=45_000,  # it sends heartbeats only while it is polled
            )
            await consumer.start()
            return consumer

        self._consumer = self._loop.run_until_complete(start())

    def poll(self) -> int:
        found = self._loop.run_until_complete(self._consumer.getmany(timeout_ms=200, max_records=500))
        return sum(map(len, found.values()))

    def partitions(self) -> set[int]:
        return {each.partition for each in self._consumer.assignment()}

    def commit(self) -> None:
        self._loop.run_until_complete(self._consumer.commit())

    def close(self) -> None:
        self._loop.run_until_complete(self._consumer.stop())
        self._loop.close()


def confluent_new(bootstrap: str, topic: str, group: str) -> GroupConsumer:
    """librdkafka with the protocol of KIP-848."""
    return Confluent(bootstrap, topic, group, "consumer")


CLIENTS: dict[str, Callable[[str, str, str], GroupConsumer]] = {
    "confluent-classic": Confluent,
    "confluent-consumer": confluent_new,
    "kafka-python": KafkaPython,
    "aiokafka": AioKafka,
}


def poll_until(consumers: list[GroupConsumer], reached: Callable[[int], bool], limit_s: float = 120) -> int:
    """Let all poll until reached(records taken so far); how many were taken."""
    taken = 0
    deadline = time.monotonic() + limit_s
    while not reached(taken):
        assert time.monotonic() < deadline, f"{taken} records, {[each.partitions() for each in consumers]}"
        taken += sum(each.poll() for each in consumers)
    return taken
