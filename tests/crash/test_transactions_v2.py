"""Producers of transactions v2 continue whichever process is killed, and what they committed is
there once."""

import os
import random
import time
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.compat.clients.transactional_clients import read_to_end
from tests.crash.load import PARTITIONS, create_topic
from tests.crash.seeds import chances
from tests.crash.v2_producer import V2Producer
from tests.peer.kbroker_node import KBroker

pytestmark = [pytest.mark.crash, pytest.mark.timeout(900)]

KILLS = int(os.environ.get("KBROKER_V2_KILLS", "12"))
VICTIMS = ("control", "network 0", "io 0", "everything")
PRODUCERS = 3


def kill(broker: KBroker, victim: str) -> None:
    """And start again what does not start by itself."""
    if victim == "everything":
        broker.kill9()
        broker.start()
    else:
        broker.kill9_running(victim)


def test_committed_transactions_exist_once_after_a_kill_of_any_process(
    broker_factory: Callable[..., KBroker],
) -> None:
    draws: random.Random = chances()
    broker = broker_factory({"log.segment.bytes": "1048576"})
    port = int(broker.bootstrap.rpartition(":")[2])
    topics = [f"target-{number}" for number in range(PRODUCERS)]
    for topic in topics:
        create_topic(broker.bootstrap, topic)
    producers = [V2Producer(port, topic, f"producer-{topic}") for topic in topics]
    try:
        for number in range(KILLS):
            time.sleep(draws.uniform(0.05, 0.6))
            kill(broker, VICTIMS[number % len(VICTIMS)])
        before = [producer.ended for producer in producers]
        deadline = time.monotonic() + 90
        while any(p.ended < b + 5 and not p.failed for p, b in zip(producers, before, strict=True)):
            assert time.monotonic() < deadline, broker.logs()[-4000:]
            time.sleep(0.05)
    finally:
        for producer in producers:
            producer.stop()
    assert [producer.failed for producer in producers if producer.failed] == []
    for topic, producer in zip(topics, producers, strict=True):
        for partition in range(PARTITIONS):
            assert read_to_end(broker.bootstrap, topic, partition=partition) == producer.committed[partition]
        assert committed_offset(broker.bootstrap, producer.group, topic) == producer.offset
    ended = sum(producer.ended for producer in producers)
    print(f"{KILLS} kills, {ended} transactions, {sum(p.repeated for p in producers)} requests repeated")
    broker.stop()


def committed_offset(bootstrap: str, group: str, topic: str) -> int:
    """The group's committed offset of partition 0."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=60)
    consumer.close()
    return int(found.offset)
