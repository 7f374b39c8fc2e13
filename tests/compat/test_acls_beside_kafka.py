"""Every API, asked by users with every kind of grant: kbroker answers as Apache Kafka with its
StandardAuthorizer, and Apache Kafka as it was recorded."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.compat.acl_answers import RECORDED, Answers, deviations, keep
from tests.compat.acl_matrix import kafka_settings, settings
from tests.compat.acl_world import World
from tests.compat.recorded import RECORDING
from tests.peer.apache_kafka import QUICK_START, ApacheKafka
from tests.peer.kbroker_node import KBroker
from tests.peer.ports import free_port

pytestmark = pytest.mark.kafka


class Both(NamedTuple):
    """The answers of both brokers."""

    kafka: Answers
    kbroker: Answers


@pytest.fixture(scope="module")
def both(kafka_jars: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    """More than 10,000 questions to each of two brokers with the same topics, groups, tokens and
    ACLs."""
    folder = tmp_path_factory.mktemp("acls")
    kafka_ports, ports = [(free_port(), free_port()) for _ in range(2)]
    kafka = ApacheKafka(folder / "kafka", jvm=QUICK_START)
    kafka.port = kafka_ports[0]
    broker = KBroker(folder / "kbroker", dict(settings(*ports)))
    try:
        kafka.start(dict(kafka_settings(*kafka_ports, free_port())))
        broker.start()
        worlds = [World(*kafka_ports), World(*ports)]
        for world in worlds:
            world.prepare()
        yield Both(*(Answers.of(world) for world in worlds))
    finally:
        broker.stop()
        kafka.stop()


@pytest.mark.long
def test_users_with_every_grant_are_answered_as_by_kafka(both: Both) -> None:
    assert both.kafka.count() > 10_000
    found = deviations(both.kafka, both.kbroker)
    assert not found, found


def test_kafka_answers_as_it_was_recorded(both: Both) -> None:
    """`make record` records it again."""
    if RECORDING:
        keep(both.kafka)
    found = deviations(Answers.read(RECORDED), both.kafka)
    assert not found, found
