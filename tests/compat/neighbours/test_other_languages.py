"""Clients of other languages write 100 records and read them back in a group that commits."""

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.compat.neighbours.building import CACHE, HERE, built, node_with, run, rust_sources
from tests.compat.neighbours.npm_versions import KAFKAJS, PLATFORMATIC
from tests.conftest import BrokerFactory

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(580)]


def committed(bootstrap: str, group: str, topic: str, partitions: int) -> int:
    """The sum of a group's committed offsets."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    found = consumer.committed([TopicPartition(topic, number) for number in range(partitions)], 30)
    consumer.close()
    return sum(max(one.offset, 0) for one in found)


@pytest.mark.short  # the client in `make test` that is neither Python nor librdkafka
def test_kafkajs_writes_and_reads_in_a_group(broker_factory: BrokerFactory) -> None:
    node, modules = node_with(KAFKAJS)
    broker = broker_factory()
    command = [node, str(HERE / "kafkajs.js"), broker.bootstrap, "of-js"]
    run(command, NODE_PATH=modules, KAFKAJS_NO_PARTITIONER_WARNING="1")
    assert committed(broker.bootstrap, "kafkajs", "of-js", 3) == 100


def test_platformatic_writes_and_reads_in_a_group(broker_factory: BrokerFactory) -> None:
    node, modules = node_with(PLATFORMATIC)
    broker = broker_factory()
    run([node, str(HERE / "platformatic.mjs"), broker.bootstrap, "of-js"], NODE_PATH=modules)
    assert committed(broker.bootstrap, "platformatic", "of-js", 3) == 100


def test_franz_go_writes_and_reads_in_a_group(broker_factory: BrokerFactory) -> None:
    program = CACHE / "franz"
    built(["go", "build", "-o", str(program), "."], HERE / "franz_go")
    broker = broker_factory()
    run([str(program), broker.bootstrap, "of-go"])
    assert committed(broker.bootstrap, "franz", "of-go", 1) == 100


def test_sarama_writes_and_reads_in_a_group(broker_factory: BrokerFactory) -> None:
    program = CACHE / "sarama"
    built(["go", "build", "-o", str(program), "."], HERE / "sarama")
    broker = broker_factory()
    run([str(program), broker.bootstrap, "of-go"])
    assert committed(broker.bootstrap, "sarama", "of-go", 1) == 100


@pytest.mark.long  # it compiles for minutes
def test_rdkafka_of_rust_writes_and_reads_in_a_group(broker_factory: BrokerFactory) -> None:
    target = CACHE / "rust"
    build = ["cargo", "build", "--quiet", "--release", "--locked"]
    built(build, rust_sources("rdkafka"), CARGO_TARGET_DIR=str(target))
    broker = broker_factory()
    run([str(target / "release" / "of-rust"), broker.bootstrap, "of-rust"])
    assert committed(broker.bootstrap, "rust", "of-rust", 1) == 100
