"""Dead letters that cannot be written fire the shipped alert in a real Prometheus, until they are
written.

As in test_alerts_of_a_broker only `for` is shortened."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic, ResourceType

from tests.peer.configs import set_configs
from tests.peer.kbroker_node import KBroker
from tests.tuning.dashboards.prometheus import Prometheus, until
from tests.tuning.dashboards.rejecting import GROUP, reject, set_dead_letter_topic

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

SHARED, LETTERS = "shared", "dlq.small"
WAIT_S = 120.0
"""Attempts to write letters are up to 30 s apart."""


@pytest.fixture(scope="module")
def prometheus(broker: KBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    made = Prometheus(tmp_path_factory.mktemp("prometheus"), broker, impatient=True)
    try:
        assert until(lambda: made.has("kbroker_dead_letters_waiting == 0"), WAIT_S)
        yield made
    finally:
        made.stop()


def waits(prometheus: Prometheus) -> bool:
    return "KbrokerDeadLettersWait" in prometheus.firing()


def test_letters_larger_than_their_topic_allows_fire_until_it_allows_them(
    broker: KBroker, prometheus: Prometheus
) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    config = {"errors.deadletterqueue.group.enable": "true", "max.message.bytes": "10"}
    made = admin.create_topics([NewTopic(SHARED, 1, 1), NewTopic(LETTERS, 1, 1, config=config)])
    for created in made.values():
        created.result(120)
    set_dead_letter_topic(broker, LETTERS)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(SHARED, b"bad")
    assert producer.flush(120) == 0
    assert not waits(prometheus)
    reject(broker, SHARED)
    assert until(lambda: waits(prometheus), WAIT_S), broker.logs()
    assert until(lambda: prometheus.has('kbroker_dead_letter_failures_total{reason="too_large"} > 0'), WAIT_S)
    written = f'kbroker_group_dead_letters_total{{group="{GROUP}",topic="{SHARED}"}}'
    assert until(lambda: prometheus.has(f"{written} == 0"), WAIT_S)
    set_configs(broker.bootstrap, ResourceType.TOPIC, LETTERS, {"max.message.bytes": "10000"})
    assert until(lambda: not waits(prometheus), WAIT_S), broker.logs()
    assert until(lambda: prometheus.has(f"{written} == 1"), WAIT_S)
