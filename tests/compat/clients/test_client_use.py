"""What /metrics shows of clients as the broker sees them, by librdkafka."""

import random

import pytest
from confluent_kafka import Consumer, Producer

from tests.compat.clients.client_quotas import set_quotas
from tests.compat.clients.conftest import SETTINGS
from tests.compat.quota_cases import entry
from tests.conftest import BrokerFactory
from tests.peer.eventually import eventually
from tests.peer.kbroker_node import KBroker
from tests.peer.scrape import scrape

pytestmark = pytest.mark.compat

SOFTWARE = "confluent-kafka-python"


def connected(node: KBroker, client_id: str) -> Producer:
    """A librdkafka client that has asked the broker something."""
    made = Producer({"bootstrap.servers": node.bootstrap, "client.id": client_id})
    assert made.list_topics(timeout=60) is not None
    return made


def test_connections_show_the_software_that_their_client_names(broker_factory: BrokerFactory) -> None:
    node = broker_factory(SETTINGS)

    def connections() -> float:
        found = scrape(node).families["kbroker_connections_by_software"].samples
        return sum(one.value for one in found if one.labels["software_name"] == SOFTWARE)

    first = connected(node, "first")
    eventually(lambda: connections() >= 1)
    (software,) = [
        one
        for one in scrape(node).labels("kafka_server_socket_server_metrics_connections_software")
        if one["clientSoftwareName"] == SOFTWARE
    ]
    assert software["clientSoftwareVersion"][0].isdigit()
    assert software["listener"] == "PLAINTEXT"
    before = connections()
    second = connected(node, "second")
    eventually(lambda: connections() > before)
    del second
    eventually(lambda: connections() <= before)
    del first
    eventually(lambda: connections() == 0)


def test_bytes_are_those_that_a_client_has_moved(broker_factory: BrokerFactory) -> None:
    node = broker_factory(SETTINGS)

    def moved(way: str, client_id: str) -> float:
        found = scrape(node).families[f"kbroker_client_{way}_bytes_total"].samples
        return sum(one.value for one in found if one.labels["client_id"] == client_id)

    producer = connected(node, "writer")
    for _ in range(100):
        producer.produce("moved", random.randbytes(10_000))
    assert producer.flush(120) == 0
    eventually(lambda: moved("received", "writer") > 1_000_000)
    assert moved("received", "writer") < 1_100_000
    settings = {"client.id": "reader", "group.id": "readers", "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": node.bootstrap, **settings})
    consumer.subscribe(["moved"])
    assert len(consumer.consume(100, 60)) == 100
    consumer.close()  # what a closed connection has moved stays
    eventually(lambda: moved("sent", "reader") > 1_000_000)
    assert moved("sent", "reader") < 1_100_000
    assert moved("received", "reader") < 100_000


def test_a_quota_shows_how_much_a_client_uses_and_when_it_is_throttled(broker_factory: BrokerFactory) -> None:
    node = broker_factory(SETTINGS | {"quota.window.num": "2"})
    set_quotas(node, entry({"client-id": "greedy"}, producer_byte_rate=200_000))
    greedy = {"quota": "producer_byte_rate", "user": "", "client_id": "greedy"}
    eventually(lambda: bool(scrape(node).labels("kbroker_quota_limit")))
    found = scrape(node)
    assert found.value("kbroker_quota_limit", **greedy) == 200_000
    assert found.value("kbroker_quota_throttled_requests_total", **greedy) == 0
    producer = connected(node, "greedy")

    def throttled() -> bool:
        for _ in range(20):
            producer.produce("t", bytes(50_000))
        producer.poll(0.1)
        now = scrape(node)
        return (
            now.value("kbroker_quota_throttled_requests_total", **greedy) > 0
            and now.value("kbroker_quota_throttled_seconds_total", **greedy) > 0
            and now.value("kbroker_quota_used", **greedy) > 200_000
        )

    eventually(throttled)
    now = scrape(node)
    kafka = {"resource": "Produce", "user": "", "clientId": "greedy"}
    assert now.value("kafka_server_quota_throttle_time", **kafka) > 0
    producer.purge()
